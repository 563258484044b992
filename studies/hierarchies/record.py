"""The results of the study of hierarchies: the figures of each comparison, and the rules over them."""

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from scipy.stats import linregress, spearmanr

from curvfed.extensions.sweeps.commands.paired import paired_difference
from curvfed.server_app.directory.run_files import RunFiles
from studies.hierarchies.cells import PREDICTIONS, SETTINGS, Cell, cells, comparison_of

RESULTS = Path(__file__).parents[2] / "docs" / "measured" / "hierarchies.json"

CURVED = "links"
FLAT = "links at 0"


def entry(cell: Cell, results: Path) -> dict[str, Any] | None:
    """What a cell shows; None if its comparison is not there, or a method in it has no score."""
    path = comparison_of(cell, results)
    if not path.exists():
        return None
    rows = {row["method"]: row for row in json.loads(path.read_text(encoding="utf-8"))["methods"]}
    if any(row["error"] for row in rows.values()):
        return None
    flat = {name: row for name, row in rows.items() if name != CURVED}
    best_flat = max(flat, key=lambda name: flat[name]["validation"])
    kept = ("mean", "std", "scores", "configuration", "bytes", "worst_decile")
    return {
        "name": cell.name,
        "group": cell.group,
        "hierarchy": cell.hierarchy,
        "dimension": cell.dimension,
        "clients": cell.clients,
        "partition": cell.partition,
        "links": cell.links,
        "score": cell.score,
        "trivial": rows[CURVED]["trivial"],
        "trivial_among_all": trivial_among_all(path.parent),
        "best_flat": best_flat,
        "methods": {name: {key: row[key] for key in kept} for name, row in rows.items()},
    }


def trivial_among_all(comparison: Path) -> float | None:
    """The mean reciprocal rank of the most frequent tails among all entities, in the mean over the
    runs of a comparison; None if they ranked no held-out links."""
    values = []
    for path in sorted(comparison.glob("*/summary.json")):
        metrics = RunFiles(path.parent).summary["metrics"]
        if "global_frequent_mrr" in metrics:
            values.append(metrics["global_frequent_mrr"])
    return fmean(values) if values else None


def interval(entry: Mapping[str, Any], other: str, number: int) -> tuple[float, float, float]:
    """The mean difference of the curved scores to another's in points, and its interval, corrected
    for a number of differences."""
    methods = entry["methods"]
    scores = methods[CURVED]["scores"]
    difference = paired_difference(scores, methods[other]["scores"], number)
    return 100 * difference.mean, 100 * difference.low, 100 * difference.high


def with_differences(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries of a table, with `curvature` and `gain`, differences with their intervals."""
    number = len(entries)
    for item in entries:
        item["curvature"] = interval(item, FLAT, number)
        item["gain"] = interval(item, item["best_flat"], number)
    return list(entries)


GROUPS = {"all": "all", "made": "by people", "generated": "generated"}
"""By group of hierarchies, its words."""


def rules(entries: Sequence[Mapping[str, Any]], shapes: Mapping[str, Any]) -> dict[str, Any]:
    """The rules of all hierarchies of a table, of those that people made, and of generated ones, by
    group; a group needs three hierarchies or more."""
    groups = {
        "all": entries,
        "made": [item for item in entries if not is_generated(item)],
        "generated": [item for item in entries if is_generated(item)],
    }
    return {name: rule(group, shapes) for name, group in groups.items() if len(group) > 2}


def is_generated(entry: Mapping[str, Any]) -> bool:
    """Whether the hierarchy of an entry is a random one."""
    name: str = entry["hierarchy"]
    return name.startswith("random-")


def rule(entries: Sequence[Mapping[str, Any]], shapes: Mapping[str, Any]) -> dict[str, Any]:
    """How the differences of a table go with the shares of several parents and with the ancestors
    of an entity: rank correlations, each also with the other held fixed, and a line."""
    shares = np.array([100 * shapes[item["hierarchy"]]["several_parents"] for item in entries])
    ancestors = [shapes[item["hierarchy"]]["ancestors"] for item in entries]
    relation = _ranks(shares, ancestors)
    summary: dict[str, Any] = {"number": len(entries), "shares_ancestors": relation[0]}
    for name in ("curvature", "gain"):
        means = [item[name][0] for item in entries]
        line = linregress(shares, means)
        rest = np.subtract(means, line.intercept + line.slope * shares)
        of_shares, shares_p = _ranks(shares, means)
        of_ancestors, ancestors_p = _ranks(ancestors, means)
        summary[name] = {
            "mean": float(np.mean(means)),
            "above": sum(item[name][1] > 0 for item in entries),
            "below": sum(item[name][2] < 0 for item in entries),
            "shares": of_shares,
            "shares_p": shares_p,
            "shares_alone": _partial(of_shares, of_ancestors, relation[0]),
            "ancestors": of_ancestors,
            "ancestors_p": ancestors_p,
            "ancestors_alone": _partial(of_ancestors, of_shares, relation[0]),
            "at_zero": float(line.intercept),
            "per_point": float(line.slope),
            "deviation": float(np.sqrt(np.sum(rest**2) / (len(means) - 2))),
            "sign_changes_at": _crossing(line.intercept, line.slope),
            "mean_share": float(np.mean(shares)),
            "largest_share": float(np.max(shares)),
            "spread": float(np.sum((shares - np.mean(shares)) ** 2)),
        }
    return summary


def _ranks(first: Any, second: Any) -> tuple[float, float]:
    """Spearman's rank correlation and its p value."""
    result = spearmanr(first, second)
    return float(result.statistic), float(result.pvalue)


def _partial(correlation: float, of_other: float, between: float) -> float | None:
    """A rank correlation with the other quantity held fixed; None if the other one has the same
    ranks as the gains or as the first."""
    rest = (1 - of_other**2) * (1 - between**2)
    return (correlation - of_other * between) / math.sqrt(rest) if rest > 1e-9 else None


def _crossing(at_zero: float, per_point: float) -> float | None:
    """The percentage at which a line is 0; None if it is outside of 0 to 100."""
    crossing = -at_zero / per_point if per_point else math.inf
    return float(crossing) if 0 <= crossing <= 100 else None


def saved(tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """For each hierarchy and score, the smallest dimension at which the interval of the gain over
    the best flat score lies above 0, the smallest of the study's dimensions in which a flat score
    is as high, and the bytes of both."""
    usual = Cell("", "")
    groups: dict[tuple[str, str], dict[int, Mapping[str, Any]]] = {}
    for item in itertools.chain(*tables.values()):
        cell = (item["clients"], item["partition"], item["links"])
        if cell == (usual.clients, usual.partition, usual.links):
            group = groups.setdefault((item["score"], item["hierarchy"]), {})
            group[item["dimension"]] = item
    rows = []
    for (score, name), by_dimension in sorted(groups.items()):
        gains = [size for size, item in by_dimension.items() if item["gain"][1] > 0]
        if gains and len(by_dimension) > 1:
            rows.append({"name": name, "score": score, **_saving(by_dimension, min(gains))})
    return rows


def _saving(by_dimension: Mapping[int, Mapping[str, Any]], dimension: int) -> dict[str, Any]:
    """A curved score in a dimension, beside the smallest dimension with a flat score as high."""
    curved = by_dimension[dimension]["methods"][CURVED]
    flat = {size: item["methods"][item["best_flat"]] for size, item in by_dimension.items()}
    enough = [size for size, method in flat.items() if method["mean"] >= curved["mean"]]
    smallest = min(enough, default=None)
    return {
        "dimension": dimension,
        "mean": curved["mean"],
        "bytes": curved["bytes"],
        "largest": max(flat),
        "flat_dimension": smallest,
        "flat_bytes": flat[smallest]["bytes"] if smallest else None,
    }


def predicted(entries: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The measured gains beside the predictions, of the untouched hierarchies."""
    rows = []
    for item in entries:
        if item["hierarchy"] in PREDICTIONS["untouched"]:
            low, high = item["gain"][1:]
            expected = PREDICTIONS["gains"][item["hierarchy"]]
            rows.append({"name": item["hierarchy"], "predicted": expected, "gain": item["gain"][0]})
            rows[-1] |= {"low": low, "high": high, "is_inside": low <= expected <= high}
    errors = [row["gain"] - row["predicted"] for row in rows]
    size = float(np.sqrt(np.mean(np.square(errors)))) if errors else None
    signs = sum((row["gain"] > 0) == (row["predicted"] > 0) for row in rows)
    inside = sum(row["is_inside"] for row in rows)
    return {"rows": rows, "error": size, "signs": signs, "number": len(rows), "inside": inside}


def recorded() -> dict[str, dict[str, Any]]:
    """The entries of the committed results by the names of their cells."""
    if not RESULTS.exists():
        return {}
    tables = json.loads(RESULTS.read_text(encoding="utf-8"))["tables"]
    return {item["name"]: item for entries in tables.values() for item in entries}


def collect(results: Path, shapes: Mapping[str, Any]) -> dict[str, Any]:
    """All that the comparisons show, by the blocks of the settings and their axes; cells whose
    comparison is not in the folder are taken from the committed results."""
    tables: dict[str, list[dict[str, Any]]] = {}
    planned = 0
    earlier = recorded()
    for cell in cells():
        planned += 1
        item = entry(cell, results) or earlier.get(cell.name)
        if item is not None:
            tables.setdefault(heading(cell), []).append(item)
    stored = {title: with_differences(entries) for title, entries in tables.items()}
    main = stored.get(heading(Cell("", "")), [])
    return {
        "planned": planned,
        "made": sum(map(len, stored.values())),
        "settings": {key: value for key, value in SETTINGS.items() if key != "cells"},
        "shapes": shapes,
        "tables": stored,
        "rules": {title: rules(entries, shapes) for title, entries in stored.items()},
        "predictions": predicted(main),
        "saved": saved(stored),
    }


def heading(cell: Cell) -> str:
    """The title of the table that a cell belongs to."""
    words = [f"{cell.dimension} dimensions", f"{cell.clients} client{'s' * (cell.clients > 1)}"]
    words.append("branches" if cell.partition == "branches" else "links at random")
    if cell.links == "direct":
        words.append("direct parents")
    if cell.score == "reconstruction":
        words.insert(0, "reconstruction")
    return ", ".join(words)

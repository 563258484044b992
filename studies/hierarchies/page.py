"""What the study of hierarchies shows: a file of results, a page of tables, and the picture of
README.md."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from scipy.stats import linregress, spearmanr

from benchmarks.tables import table_lines, write_csv
from curvfed.extensions.links.commands.expectation import MEASURED
from curvfed.extensions.sweeps.commands.pages import legends
from curvfed.extensions.sweeps.commands.paired import paired_difference
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report import charts, style
from curvfed.tasks.stored_files import write_atomically
from studies.hierarchies.cells import PREDICTIONS, SETTINGS, Cell, cells, comparison_of

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = DOCS / "measured" / "hierarchies.json"
PAGE = DOCS / "measured" / "hierarchies.md"
TABLE = DOCS / "measured" / "hierarchies.csv"
PICTURE = DOCS / "images" / "hierarchies.svg"

CURVED = "links"
FLAT = "links at 0"

HEADS = (
    "block",
    "hierarchy",
    "several parents",
    "ancestors",
    "at −1",
    "at 0",
    "inner product",
    "frequent tails",
    "at −1 minus at 0",
    "minus the best flat score",
    "predicted",
)
BLOCKS = (
    "block",
    "hierarchies",
    "number",
    "at −1 minus at 0",
    "above, below",
    "minus the best flat score",
    "above, below",
)

ABOUT = """\
# Links of hierarchies in curved and flat space

    python -m studies.hierarchies --files folder --data folder

writes this page, [every cell](hierarchies.csv) and the picture.
19 hierarchies (`studies/hierarchies/sources.toml`); in `random-N`, N% have a second parent.
A cell is one [comparison](../sweeps.md#compare-methods) of `links` at curvature −1, of itself at 0, and of the inner
product, all tuned to the edges of rate and decay, with negatives, schedule, score and bias, on one seed, compared on
five others.

Scores: mean reciprocal rank of held-out links among a client's own entities, best round of
validation; for *reconstruction* mean average precision of all links. "Several parents" is the share of entities with
two parents or more, *the best flat score* the better on the tuning seed, *frequent tails* the
trivial answer. Intervals: paired, 95%, Bonferroni-corrected in their block.

![gains by the share of entities with several parents](../images/hierarchies.svg)
"""


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


GROUPS = {"all": "all", "made": "made by people", "generated": "generated"}
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
    """For each gain over the best flat score whose interval lies above 0: the smallest dimension,
    of those of the study, in which a flat score is as high, and the bytes of both."""
    usual = Cell("", "")
    rows = []
    flat: dict[str, dict[int, Mapping[str, Any]]] = {}
    entries = []
    for entries_of in tables.values():
        for item in entries_of:
            cell = (item["clients"], item["partition"], item["links"], item["score"])
            if cell == (usual.clients, usual.partition, usual.links, usual.score):
                best = item["methods"][item["best_flat"]]
                flat.setdefault(item["hierarchy"], {})[item["dimension"]] = best
                entries.append(item)
    for item in sorted(entries, key=lambda item: (item["hierarchy"], item["dimension"])):
        curved = item["methods"][CURVED]
        dimensions = flat[item["hierarchy"]]
        if item["gain"][1] <= 0 or len(dimensions) < 2:
            continue
        enough = [
            dimension for dimension in dimensions if dimensions[dimension]["mean"] >= curved["mean"]
        ]
        row = {"name": item["hierarchy"], "dimension": item["dimension"], "mean": curved["mean"]}
        row["bytes"] = curved["bytes"]
        row["largest"] = max(dimensions)
        row["flat_dimension"] = min(enough, default=None)
        row["flat_bytes"] = dimensions[min(enough)]["bytes"] if enough else None
        rows.append(row)
    return rows


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


def points(values: Sequence[float]) -> str:
    """A difference with its interval."""
    mean, low, high = map(_signed, values)
    return f"{mean} ({low} to {high})"


def write_page(record: Mapping[str, Any]) -> None:
    """Write the results, the page and the picture."""
    _write_json(RESULTS, record)
    main = heading(Cell("", ""))
    line = record["rules"].get(main, {}).get("made")
    if line:
        names = [item["hierarchy"] for item in record["tables"][main] if not is_generated(item)]
        entities = [record["shapes"][name]["entities"] for name in names]
        kept = ("at_zero", "per_point", "deviation", "mean_share", "spread", "largest_share")
        gain = {key: line["gain"][key] for key in kept}
        numbers = {"hierarchies": line["number"], "fewest_entities": min(entities)}
        _write_json(MEASURED, numbers | gain)
    lines = [ABOUT, f"{record['made']} of {record['planned']} planned cells are made.", ""]
    lines += ["Gains in points; intervals above 0 and below. Clients hold branches."]
    lines.append("")
    lines += table_lines(
        BLOCKS, [row for title in record["rules"] for row in _block(record, title)]
    )
    if made := record["rules"].get(main, {}).get("made"):
        lines += ["", f"**Hierarchies {GROUPS['made']}**, {main}: {_rule_words(made)}"]
    lines.append("")
    if record["predictions"]["rows"]:
        lines += _prediction_lines(record["predictions"])
    if record["saved"]:
        lines += ["", *_saved_lines(record["saved"])]
    write_atomically(PAGE, ("\n".join(lines).rstrip("\n") + "\n").encode())
    rows = [row for title in record["tables"] for row in _rows(title, record)]
    write_csv(TABLE, HEADS, rows)
    if main in record["tables"]:
        draw(record["tables"][main], record["shapes"], PICTURE)


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False)
    write_atomically(path, f"{text}\n".encode())


def _rows(title: str, record: Mapping[str, Any]) -> list[list[str]]:
    """The cells of a block, by the share of several parents."""
    rows = []
    shapes = record["shapes"]
    predictions = {row["name"]: row["predicted"] for row in record["predictions"]["rows"]}
    is_main = title == heading(Cell("", ""))
    for item in sorted(
        record["tables"][title],
        key=lambda entry: shapes[entry["hierarchy"]]["several_parents"],
    ):
        shape = shapes[item["hierarchy"]]
        scores = [f"{100 * item['methods'][name]['mean']:.1f}" for name in (CURVED, FLAT)]
        scores.append(f"{100 * item['methods']['links-inner']['mean']:.1f}")
        trivial = "–" if item["trivial"] is None else f"{100 * item['trivial']:.1f}"
        about = (f"{100 * shape['several_parents']:.0f}%", f"{shape['ancestors']:.1f}")
        differences = (points(item["curvature"]), points(item["gain"]))
        predicted = predictions.get(item["hierarchy"]) if is_main else None
        expected = "" if predicted is None else _signed(predicted)
        rows.append([title, item["hierarchy"], *about, *scores, trivial, *differences, expected])
    return rows


def _block(record: Mapping[str, Any], title: str) -> list[list[str]]:
    """Rows of the gains of a block: of all of its hierarchies, of those that people made, and of
    generated ones. The first one has the title."""
    rows: list[list[str]] = []
    rules = record["rules"][title]
    for name, summary in rules.items():
        if name != "all" and summary["number"] == rules["all"]["number"]:
            continue  # the same hierarchies as in the row of all
        figures = []
        for gain in (summary["curvature"], summary["gain"]):
            figures += [_signed(gain["mean"]), f"{gain['above']}, {gain['below']}"]
        words = "" if rows else title.replace(", branches", "")
        rows.append([words, GROUPS[name], str(summary["number"]), *figures])
    return rows


def _signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−")


def _rule_words(summary: Mapping[str, Any]) -> str:
    gain = summary["gain"]
    curvature = summary["curvature"]
    alone = ["–", "–"]
    if None not in (gain["shares_alone"], gain["ancestors_alone"]):
        alone = [f"{gain[key]:.2f}" for key in ("shares_alone", "ancestors_alone")]
    crossing = gain["sign_changes_at"]
    sign = "does not change its sign"
    if crossing is not None:
        sign = f"changes its sign at {crossing:.0f}%"
    return (
        f"of {summary['number']} intervals of at −1 minus at 0, {curvature['above']} lie above 0"
        f" and {curvature['below']} below; of those to the best flat score, {gain['above']} and"
        f" {gain['below']}. Rank correlation of the gain over the best flat score with the share of"
        f" several parents {gain['shares']:.2f} (p {gain['shares_p']:.2g}), with the ancestors of"
        f" an entity {gain['ancestors']:.2f} (p {gain['ancestors_p']:.2g}); with the other held"
        f" fixed {' and '.join(alone)}. The line through"
        f" the gains {sign}."
    ).replace("-", "−")


def _prediction_lines(record: Mapping[str, Any]) -> list[str]:
    return [
        f"**Predictions** for {record['number']} hierarchies, untouched before:"
        f" {record['signs']} of {record['number']} signs and {record['inside']} of {record['number']}"
        f" values within the intervals; root mean square error {record['error']:.1f} points."
    ]


def _saved_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        "## What curvature saves",
        "",
        "Where the interval of the gain over the best flat score lies above 0, 10 clients that hold"
        " branches: the smallest dimension made in which a flat score is as high, and what"
        " a client sends and receives a round.",
        "",
        "| hierarchy | at −1 | dimension | kB | flat dimension | kB |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        flat = [f"more than {row['largest']}", "–"]
        if row["flat_dimension"]:
            flat = [str(row["flat_dimension"]), f"{row['flat_bytes'] / 1000:.0f}"]
        curved = [f"{100 * row['mean']:.1f}", str(row["dimension"]), f"{row['bytes'] / 1000:.0f}"]
        lines.append(f"| {' | '.join((row['name'], *curved, *flat))} |")
    return lines


def draw(entries: Sequence[Mapping[str, Any]], shapes: Mapping[str, Any], path: Path) -> None:
    """The gains by the share of entities with several parents, with their intervals."""
    shares = np.array([100 * shapes[item["hierarchy"]]["several_parents"] for item in entries])
    is_made = np.array([not is_generated(item) for item in entries])
    with style.applied():
        figure, panels = style.panels(2)
        titles = ("curvature −1 minus 0", "curvature −1 minus best flat")
        for axes, name, title in zip(panels, ("curvature", "gain"), titles, strict=True):
            means, low, high = np.array([item[name] for item in entries]).T
            heights = np.array([means - low, high - means])
            bars: dict[str, Any] = {"capsize": 2, "markersize": 4, "elinewidth": 1}
            groups = (("made by people", "o", style.MEAN), ("generated", "D", style.OTHER))
            for label, marker, color in groups:
                shown = is_made == (label != "generated")
                marks = {"fmt": marker, "color": color, "label": label}
                axes.errorbar(shares[shown], means[shown], heights[:, shown], **bars | marks)
            axes.axhline(0, color=style.SOFT, linewidth=1.2, linestyle=":")
            x = "entities with several direct parents (%)"
            charts.name(axes, x, "gain (points of MRR)", title)
        panels[1].sharey(panels[0])
        ends = np.array([0.0, max(shares)])
        line = PREDICTIONS["at_zero"] + PREDICTIONS["per_point"] * ends
        panels[1].plot(ends, line, color=style.SOFT, linewidth=1.2, label="predicted")
        handles, labels = panels[1].get_legend_handles_labels()
        legends.legend(figure, list(zip(handles, labels, strict=True)))
    path.write_text(style.svg_file(figure, path.stem), encoding="utf-8")

"""Taxonomies embedded by ten clients that hold branches: hyperbolic against flat scores.

    python -m studies.taxonomies --data FOLDER --jobs 16 [--out FILE]

The settings are in `taxonomies.toml`. Each method's rate is tuned for each data set and dimension by
the mean average precision of all links on the tuning seeds; a best rate at an edge of the grid
extends the grid by a factor of 2. The other seeds are run twice with this rate: on all links, and
with held-out links. Results are appended to FILE, so that an interrupted study continues; then the
page `docs/measured/taxonomies.md` is written. With `--page` nothing is run, and the page has the
results of FILE.
"""

import argparse
import json
import math
import os
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "measured" / "taxonomies.md"
SETTINGS: dict[str, Any] = tomllib.loads((HERE / "taxonomies.toml").read_text(encoding="utf-8"))
EVERY = 4
"""Rounds between two scores, from which the bytes up to a score are read."""

Cell = tuple[str, str, int, float, int, bool]
"""Data set, method, dimension, rate, seed, and whether links are held out."""

Group = tuple[str, str, int]
"""Data set, method and dimension."""

Rates = Mapping[Group, float]
"""The best rate of each group that was tuned."""


def run_cell(cell: Cell, data: str) -> dict[str, Any]:
    """The figures of one run."""
    os.environ["OMP_NUM_THREADS"] = "1"
    import curvfed

    dataset, method, dimension, rate, seed, holds_out = cell
    is_tuning = seed not in SETTINGS["seeds"]
    figures: dict[str, Any] = {"cell": cell}
    with tempfile.TemporaryDirectory() as folder:
        try:
            run = curvfed.simulate(
                method,
                dataset,
                data_dir=data,
                results_dir=folder,
                embedding_dim=dimension,
                learning_rate=rate,
                seed=seed,
                global_every=0 if is_tuning or holds_out else EVERY,
                links={"hold_out": holds_out},
                **SETTINGS["keys"],
            )
        except Exception as error:
            return figures | {"error": f"{type(error).__name__}: {error}"}
        metrics = run.summary["metrics"]
        figures |= {
            "map": metrics["reconstruction_map"],
            "mrr": metrics.get("global_mrr"),
            "bytes": run.summary["bytes_up"] + run.summary["bytes_down"],
            "seconds": run.summary["seconds"],
        }
        if not is_tuning and not holds_out:
            rounds = run.rounds[run.rounds["phase"] == "train"]
            reached = rounds[rounds["reconstruction_map"] >= SETTINGS["goal"]]["round"]
            first = int(reached.min()) if len(reached) else None
            figures["goal_bytes"] = first and first * figures["bytes"]
    return figures


class Study:
    """The cells that were run, and a pool of processes for others."""

    def __init__(self, pool: ProcessPoolExecutor, data: str, file: Path) -> None:
        self._pool = pool
        self._data = data
        self._file = file
        self.results: dict[Cell, dict[str, Any]] = {}
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        for result in map(json.loads, lines):
            self.results[tuple(result["cell"])] = result

    def run(self, cells: Iterable[Cell]) -> None:
        """Run the cells that have no result."""
        missing = [cell for cell in dict.fromkeys(cells) if cell not in self.results]
        # Wide embeddings take longest, and come first.
        missing.sort(key=lambda cell: -cell[2])
        futures = [self._pool.submit(run_cell, cell, self._data) for cell in missing]
        for cell, future in zip(missing, futures, strict=True):
            self.results[cell] = future.result()
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(self.results[cell]) + "\n")
        print(f"{len(missing)} runs done", flush=True)

    def at_best(self, group: Group, rates: Rates, holds_out: bool) -> list[dict[str, Any]]:
        """The results of a group at its best rate, one per seed; empty if one was not run."""
        if group not in rates:
            return []
        cells = [(*group, rates[group], seed, holds_out) for seed in SETTINGS["seeds"]]
        if not all(cell in self.results for cell in cells):
            return []
        return [self.results[cell] for cell in cells]

    def tuned(self, group: Group) -> dict[float, float]:
        """The mean score of each rate on the tuning seeds; −inf for one that fails on a seed."""
        scores: dict[float, list[float]] = {}
        for cell, result in self.results.items():
            if cell[:3] == group and cell[4] not in SETTINGS["seeds"]:
                scores.setdefault(cell[3], []).append(result.get("map", -math.inf))
        return {rate: float(np.mean(values)) for rate, values in sorted(scores.items())}


def groups() -> list[Group]:
    """Every data set with every method in every dimension."""
    return [
        (dataset, method, dimension)
        for dataset in SETTINGS["datasets"]
        for method in SETTINGS["methods"]
        for dimension in SETTINGS["dimensions"]
    ]


def tune(study: Study) -> Rates:
    """The best rate of each group; the grid grows until it is inside, at most `most_extensions`
    times."""
    wanted = {group: list(SETTINGS["rates"]) for group in groups()}
    for _ in range(SETTINGS["most_extensions"] + 1):
        study.run(
            (*group, rate, seed, False)
            for group, rates in wanted.items()
            for rate in rates
            for seed in SETTINGS["tuning_seeds"][group[0]]
        )
        for group, rates in wanted.items():
            scores = study.tuned(group)
            best = max(scores, key=scores.__getitem__)
            if best == max(scores):
                rates.append(2 * best)
            elif best == min(scores):
                rates.append(best / 2)
    return best_rates(study)


def best_rates(study: Study) -> Rates:
    """The rate of the highest mean score on the tuning seeds, for each group that was tuned."""
    rates = {}
    for group in groups():
        if scores := study.tuned(group):
            rates[group] = max(scores, key=scores.__getitem__)
    return rates


def interval(values: np.ndarray) -> str:
    """Mean and 95% interval (Student's t) in percent."""
    mean = float(values.mean())
    half = float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values)))
    low, mid, high = (f"{100 * value:+.1f}" for value in (mean - half, mean, mean + half))
    return f"{mid} ({low} to {high})".replace("-", "−")


def page(study: Study, rates: Rates) -> str:
    """The page of results."""
    lines = [
        "# Taxonomies: hyperbolic minus flat",
        "",
        "    python -m studies.taxonomies --data folder --jobs 16",
        "",
        "Ten clients hold branches, rows are averaged by `links-…`. Rates are tuned per data set,"
        " method and dimension by the mean average precision (mAP) of all links, on two seeds for"
        " the mammals and one for the tree;"
        " figures are percent, mean ± standard deviation over five other seeds, each with a"
        " partition of its own. The last column is the best curved minus the best flat method,"
        " both chosen on the tuning seeds, with its 95% interval over paired seeds. The kB are what"
        f" a client sends and receives until the goal is reached, which is looked at every {EVERY}"
        ' rounds. "Not run" are tuned methods that are neither the best curved nor the best flat'
        " one of the tuning.",
    ]
    for dataset in SETTINGS["datasets"]:
        for score, words in (("map", "mAP of all links"), ("mrr", "filtered MRR, held-out links")):
            lines += ["", f"## {dataset}: {words}", ""]
            names = SETTINGS["methods"]
            lines.append(f"| dimension | {' | '.join(names)} | curved − flat |")
            lines.append("| ---: " * (len(names) + 2) + "|")
            for dimension in SETTINGS["dimensions"]:
                lines.append(_row(study, rates, dataset, dimension, score))
        lines += ["", f"## {dataset}: kB per client up to {SETTINGS['goal']} mAP", ""]
        lines.append(f"| dimension | {' | '.join(SETTINGS['methods'])} |")
        lines.append("| ---: " * (len(SETTINGS["methods"]) + 1) + "|")
        for dimension in SETTINGS["dimensions"]:
            cells = [
                _bytes(study, (dataset, method, dimension), rates) for method in SETTINGS["methods"]
            ]
            lines.append(f"| {dimension} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _values(study: Study, group: Group, rates: Rates, score: str) -> np.ndarray:
    """A score on each seed; NaN for a run that failed; empty if one was not made."""
    results = study.at_best(group, rates, score == "mrr")
    return np.array([result.get(score) for result in results], float)


def _row(study: Study, rates: Rates, dataset: str, dimension: int, score: str) -> str:
    cells = []
    best: dict[bool, tuple[float, np.ndarray]] = {}
    for method in SETTINGS["methods"]:
        group = (dataset, method, dimension)
        values = _values(study, group, rates, score)
        if not len(values):
            cells.append("not run")
            continue
        cells.append(
            f"{100 * values.mean():.1f} ± {100 * values.std(ddof=1):.1f} (rate {rates[group]:g})"
        )
        tuned = max(study.tuned(group).values())
        is_curved = method in SETTINGS["curved"]
        if tuned > best.get(is_curved, (-math.inf, values))[0]:
            best[is_curved] = (tuned, values)
    difference = interval(best[True][1] - best[False][1]) if len(best) == 2 else "not run"
    return f"| {dimension} | {' | '.join(cells)} | {difference} |"


def _bytes(study: Study, group: Group, rates: Rates) -> str:
    """The mean kB over the seeds, or how many of them reach the goal."""
    results = study.at_best(group, rates, holds_out=False)
    if not results:
        return "not run"
    reached = [result["goal_bytes"] for result in results if result.get("goal_bytes")]
    if len(reached) < len(results):
        return f"{len(reached)} of {len(results)} reach it"
    return f"{np.mean(reached) / 1e3:,.0f}"


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=Path("taxonomies.jsonl"))
    parser.add_argument("--page", action="store_true", help="write the page of the runs so far")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(arguments.jobs, get_context("spawn")) as pool:
        study = Study(pool, arguments.data, arguments.out)
        if arguments.page:
            PAGE.write_text(page(study, best_rates(study)), encoding="utf-8")
            return
        rates = tune(study)
        study.run(
            (*group, rates[group], seed, holds_out)
            for group in groups()
            for seed in SETTINGS["seeds"]
            for holds_out in (False, True)
        )
    PAGE.write_text(page(study, rates), encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()

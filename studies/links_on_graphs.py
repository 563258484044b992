"""Links on client graphs: tailored curvature against common and flat curvature.

    curvfed sweep studies/links-on-graphs.toml --scale cora --data FOLDER --results RUNS
    python -m studies.links_on_graphs --data FOLDER --results RUNS [--only cora]

The sweep makes the tuning runs. The program chooses each group's rate, and the best common
curvature, as the sweep's text says, makes the final runs that are not in RUNS, and writes
`docs/measured/links-on-graphs.md`. A group without tuning runs is left out, and so is a data set
that lacks tailored, common or flat ones.
"""

import argparse
import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from studies.taxonomies import interval

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "measured" / "links-on-graphs.md"
SWEEP = tomllib.loads((HERE / "links-on-graphs.toml").read_text(encoding="utf-8"))
DATASETS = tuple(SWEEP["scales"])
SEEDS = range(410, 415)
GROUPS = {
    "tailored": "each client learns its own",
    "common": "the best of five common ones",
    "learned": "a common one, learned",
    "inner": "flat, inner product",
    "euclidean": "flat, Euclidean distance",
}
"""By name, the curvature of a group."""

FLAT = ("inner", "euclidean")

NOTES = {
    "minesweeper": "One seed tuned here, on a smaller grid; a common curvature was not learned.",
}
"""By data set, how its tuning differs."""

INTRODUCTION = """\
# Links on client graphs: tailored, common and flat curvature

    curvfed sweep studies/links-on-graphs.toml --scale cora --data folder --results runs
    python -m studies.links_on_graphs --data folder --results runs

Ten clients embed the nodes of their own part of a graph in 5 dimensions. The figures are the
clients' mean reciprocal rank of held-out edges in percent at the round of best validation, mean ±
standard deviation over five seeds that played no part in the tuning. The last column is the
tailored curvature minus this group per seed, with its 95% interval.
"""


@dataclass(frozen=True)
class Choice:
    """What the tuning chooses.

    Attributes
    ----------
    rate : float
    curvature : float
        Of group "common"; −1, the start, in the others.
    """

    rate: float
    curvature: float


@dataclass(frozen=True)
class Result:
    """One run: its group, settings, and scores at the round of best validation, each in [0, 1]."""

    group: str
    choice: Choice
    seed: int
    validation: float
    test: float


def results_of(folder: Path, dataset: str) -> list[Result]:
    """The completed runs of a data set below a folder."""
    results = []
    for path in sorted(folder.glob("*/summary.json")):
        summary = json.loads(path.read_text(encoding="utf-8"))
        config = tomllib.loads((path.parent / "config.toml").read_text(encoding="utf-8"))
        if summary["status"] == "completed" and config["dataset"] == dataset:
            metrics = summary["best_validation"]["metrics"]
            curvature = config["links"].get("curvature", -1.0)
            choice = Choice(config["learning-rate"], curvature)
            scores = (metrics["validation"], metrics["mrr"])
            results.append(Result(group_of(config), choice, config["seed"], *scores))
    return results


def group_of(config: Mapping[str, Any]) -> str:
    """The group of a run, by its configuration."""
    if config["method"] != "links-poincare":
        return str(config["method"].removeprefix("links-"))
    return "learned" if config["links"]["learn-curvature"] else "common"


def tuned(results: list[Result], group: str) -> dict[Choice, float]:
    """The mean validation score of each choice over the tuning seeds."""
    scores: dict[Choice, list[float]] = {}
    for result in results:
        if result.group == group and result.seed not in SEEDS:
            scores.setdefault(result.choice, []).append(result.validation)
    return {choice: float(np.mean(values)) for choice, values in scores.items()}


def missing_runs(results: list[Result], dataset: str) -> Iterator[dict[str, Any]]:
    """The settings of the runs that are next: a rate beyond the edge of the grid where the best is
    at the edge, else the final runs."""
    made = {(result.group, result.choice, result.seed) for result in results}
    for group in groups_of(results):
        scores = tuned(results, group)
        best = max(scores, key=scores.__getitem__)
        rates = [choice.rate for choice in scores]
        wanted = [(best, seed) for seed in SEEDS]
        factor = {max(rates): 3.0, min(rates): 1 / 3}.get(best.rate)
        if factor:
            beyond = Choice(float(f"{factor * best.rate:.3g}"), best.curvature)
            seeds = SWEEP["scales"][dataset]["settings"]["seed"]
            wanted = [(beyond, seed) for seed in np.atleast_1d(seeds).tolist()]
        for choice, seed in wanted:
            if (group, choice, seed) not in made:
                yield settings_of(group, choice) | {"dataset": dataset, "seed": seed}


def groups_of(results: list[Result]) -> list[str]:
    """The groups with tuning runs."""
    return [group for group in GROUPS if tuned(results, group)]


def settings_of(group: str, choice: Choice) -> dict[str, Any]:
    """The settings of a run of a group."""
    is_curved = group in ("common", "learned")
    fixed = {key: value for key, value in SWEEP["settings"].items() if key != "learning-rate"}
    return {
        **{key.replace("-", "_"): value for key, value in fixed.items()},
        "method": "links-poincare" if is_curved else f"links-{group}",
        "learning_rate": choice.rate,
        "links": {"curvature": choice.curvature, "learn_curvature": group == "learned"}
        if is_curved
        else {},
    }


def simulate(settings: dict[str, Any], data: Path, folder: Path) -> None:
    """Make one run."""
    os.environ["OMP_NUM_THREADS"] = "1"
    import curvfed

    curvfed.simulate(data_dir=data, results_dir=folder, report=False, quiet=True, **settings)


def table(results: list[Result]) -> list[str]:
    """The table of a data set, and the best common curvature beside the best flat score."""
    lines = [
        "| curvature | rate | mean reciprocal rank | tailored minus this |",
        "| --- | ---: | ---: | ---: |",
    ]
    scores = {group: tuned(results, group) for group in groups_of(results)}
    best = {group: max(values, key=values.__getitem__) for group, values in scores.items()}
    figures = {group: final_scores(results, group, choice) for group, choice in best.items()}
    for group, values in figures.items():
        curvature = f", {best[group].curvature:g}".replace("-", "−") if group == "common" else ""
        mean = f"{100 * values.mean():.1f} ± {100 * values.std(ddof=1):.1f}"
        difference = interval(figures["tailored"] - values) if group != "tailored" else ""
        lines.append(
            f"| {GROUPS[group]}{curvature} | {best[group].rate:g} | {mean} | {difference} |"
        )
    flat = max(FLAT, key=lambda group: scores[group][best[group]])
    gain = interval(figures["common"] - figures[flat])
    return [*lines, "", f"The best common curvature minus {GROUPS[flat]}: {gain}."]


def final_scores(results: list[Result], group: str, choice: Choice) -> np.ndarray:
    """The test score of each final seed."""
    by_seed = {
        result.seed: result.test
        for result in results
        if (result.group, result.choice) == (group, choice)
    }
    return np.array([by_seed[seed] for seed in SEEDS])


def main() -> None:
    """Choose, make the final runs, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--only", choices=DATASETS, nargs="+", default=DATASETS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    lines = [INTRODUCTION]
    for dataset in options.only:
        results = results_of(options.results, dataset)
        if missing_groups := {"tailored", "common", *FLAT} - set(groups_of(results)):
            groups = ", ".join(sorted(missing_groups))
            print(f"{dataset}: {options.results} has no tuning runs of {groups}")
            continue
        while missing := list(missing_runs(results, dataset)):
            print(f"{dataset}: {len(missing)} runs", flush=True)
            with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
                number = len(missing)
                list(
                    pool.map(simulate, missing, [options.data] * number, [options.results] * number)
                )
            results = results_of(options.results, dataset)
        lines += [f"## {dataset}", ""]
        if dataset in NOTES:
            lines += [NOTES[dataset], ""]
        lines += [*table(results), ""]
    PAGE.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()

"""Pages of `curvfed compare` and of a sweep, for the tests with a browser."""

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from app_runs import run
from rich.console import Console

from curvfed.extensions.sweeps.commands.compare.request import read_comparison
from curvfed.extensions.sweeps.commands.compare.results import write_results
from curvfed.extensions.sweeps.commands.pages.selection import Run
from curvfed.extensions.sweeps.commands.pages.study import Plan, Planned
from curvfed.extensions.sweeps.commands.pages.sweep_page import make_page, write_page
from curvfed.tasks.kinds import KINDS

CONFIGURATION = {
    "learning-rate": 0.0316,
    "weight-decay": 1e-5,
    "schedule": "inverse",
    "model": "gated",
    "flatland.curvature-map": "sigmoid",
}


def row_of(number: int, method: str, figure: str, **more: Any) -> dict[str, Any]:
    """A row of results, as of five seeds."""
    scores = np.random.default_rng(number).uniform(0.4, 0.6, 5)
    row = {"method": method, "at_zero": "", "control": "", "is_rival": True, "error": ""}
    row |= {"figure": figure, "validation": float(scores.mean()), "tried": 12 + number}
    row |= {"configuration": CONFIGURATION, "seeds": [2, 3, 4, 5, 6], "scores": scores.tolist()}
    row |= {"mean": float(scores.mean()), "std": float(scores.std(ddof=1))}
    row |= {"worst_decile": 0.31, "start": 0.14 + number / 100, "trivial": 0.42}
    row |= {"seconds": 12.3, "bytes_up": 223_300.0 + number, "bytes_down": 223_300.0}
    row |= {"bytes": 446_600.0 + number, "global_mean": 0.5, "global_std": 0.01 + number / 100}
    return row | more


def of_comparison(words: list[str], figure: str, folder: Path) -> Path:
    """The page of a comparison with a curved method, its twin at 0 and five rivals."""
    comparison = read_comparison(words, None)
    rows = [row_of(number, f"rival-{number}", figure) for number in range(5)]
    rows.append(row_of(6, "curved at 0", figure))
    rows.append(row_of(7, "curved", figure, at_zero="curved at 0", is_rival=False))
    write_results(comparison, rows, [], folder, Console(quiet=True))
    return folder / "comparison.html"


def of_sweep(folder: Path) -> Path:
    """The page of a sweep of two methods, two rates and two gates on two seeds."""
    runs = []
    for method, rate, gate, seed in itertools.product(
        ("local", "flatland"), (0.01, 0.1), (False, True), (0, 1)
    ):
        settings = {"method": method, "learning-rate": rate, "flatland.gate": gate, "seed": seed}
        name = f"run-{len(runs)}"
        made = run(folder, name, method=method, learning_rate=rate, seed=seed)
        row = {"status": "completed", "error": ""}
        row |= {name: made.summary[name] for name in ("bytes_up", "bytes_down")}
        best = made.summary["best_validation"]
        row["best_validation.personal_accuracy_mean"] = best["personal_accuracy_mean"]
        row["best_validation.metrics.validation"] = best["metrics"]["validation"]
        runs.append(Run(Planned(settings | {"dataset": "trees"}, name), row, made.path))
    plan = Plan(
        Path("it.toml"),
        "",
        "Two methods",
        "a source",
        "A sweep.",
        tuple(each.planned for each in runs),
    )
    write_page(make_page(plan, runs, folder, "local"), folder, "it", ["html"])
    return folder / "it.html"


PAGES = {
    "comparison of nodes": partial(
        of_comparison,
        ["dataset=trees", "methods=local,flatland"],
        "best_validation.personal_accuracy_mean",
    ),
    "comparison of images": partial(
        of_comparison, ["dataset=digits", "methods=fedavg,hyperfed"], "global_accuracy"
    ),
    "sweep": of_sweep,
}
if "links" in KINDS:
    PAGES["comparison of links"] = partial(
        of_comparison,
        ["dataset=balanced-tree", "methods=links,links-inner"],
        "best_validation.metrics.mrr",
    )

"""When does consistent aggregation matter? Five rules, six ways to deal the images, five seeds."""

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.tables import table_lines, write_csv
from curvfed.extensions.sweeps.commands.paired import paired_difference
from studies.accept.lab import Lab, Outcome, Table

SEEDS = (20, 21, 22, 23, 24)
"""Of no run before."""

COMMON: dict[str, Any] = {
    "method": "hyperfed",
    "dataset": "digits",
    "num-supernodes": 20,
    "num-rounds": 20,
    "local-epochs": 5,
    "batch-size": 64,
    "train-size": 0.6,
    "test-size": 0.4,
    "fine-tune-epochs": 0,
}
"""1,797 images for 20 clients, all other keys at their defaults."""

DEALS: dict[str, dict[str, Any]] = {
    **{f"{number} shards": {"partition": "shards", "shards": number} for number in (1, 2, 3)},
    **{
        f"Dirichlet {alpha:g}": {"partition": "dirichlet", "alpha": alpha}
        for alpha in (0.05, 0.1, 0.5)
    },
}
"""Shards make clients of equal size, Dirichlet of unequal."""

AVERAGE = "average"
RULES: dict[str, dict[str, Any]] = {
    AVERAGE: {"hyperfed.radius": 0.0},
    "consistent, radius .2": {"hyperfed.radius": 0.2},
    "consistent, unbounded": {"hyperfed.radius": 20.0},
    "average at its length": {"hyperfed.radius": 20.0, "hyperfed.direction": "average"},
    "consistent at the average's length": {"hyperfed.radius": 20.0, "hyperfed.length": "average"},
}

ABOUT = """\
# When does consistent aggregation matter?

    make accept DATA=folder ARGS="--only consistency --keep runs"

writes this page and [every row](consistency.csv) as `runs/consistency.md` and `.csv`. Accuracy of the one global model in
percent, means over the seeds 20 to 24, and paired differences to the average with 95% intervals that are not corrected
for the number of comparisons, 72. [Findings](../findings.md#when-does-consistency-matter) says what it shows. This page
has the rule of `hyperfed`, radius .2, and every row with an interval that excludes 0.
"""

FIGURES = {
    "global": "global_accuracy_last3",
    "clients": "personal_accuracy_before",
    "worst tenth": "personal_accuracy_before_worst_decile",
}
"""All of the one global model: on the test set over the last three rounds; mean over the clients on
their own test images; mean over the two worst clients."""


HEADS = ("clients' images", "rule", *FIGURES, *(f"{figure} − average" for figure in FIGURES))
DEFAULT = "consistent, radius .2"
"""The rule of `hyperfed`."""


def consistency(lab: Lab) -> Iterator[Outcome]:
    """Paired differences to the average with 95% intervals, not corrected for the number of
    rows.
    """
    runs = [(deal, rule, seed) for deal in DEALS for rule in RULES for seed in SEEDS]
    lab.start(_settings(*run) for run in runs)
    rows = []
    for deal in DEALS:
        base = _values(lab, deal, AVERAGE)
        for rule in RULES:
            scores = _values(lab, deal, rule)
            means = [f"{statistics.mean(scores[name]):.1f}" for name in FIGURES]
            apart = [
                "" if rule == AVERAGE else _interval(scores[name], base[name]) for name in FIGURES
            ]
            rows.append([deal, rule, *means, *apart])
            if rule != AVERAGE:
                yield Outcome(f"{deal}: {rule}", "for information", "; ".join(apart), True)
    write_page(lab.folder / "consistency.md", rows)


def write_page(page: Path, rows: Sequence[list[str]]) -> None:
    """Write the page, and all rows as a CSV file beside it."""
    write_csv(page.with_suffix(".csv"), HEADS, rows)
    shown = [
        row
        for row in rows
        if row[1] == DEFAULT or any(excludes_zero(cell) for cell in row[-len(FIGURES) :])
    ]
    page.write_text("\n".join([ABOUT, *table_lines(HEADS, shown)]) + "\n", encoding="utf-8")


def excludes_zero(cell: str) -> bool:
    """Whether both ends of an interval have the same sign."""
    ends = cell.partition("(")[2].rstrip(")").split(" to ")
    return len(ends) == 2 and ends[0][0] == ends[1][0]


def _settings(deal: str, rule: str, seed: int) -> dict[str, Any]:
    return COMMON | DEALS[deal] | RULES[rule] | {"seed": seed}


def _values(lab: Lab, deal: str, rule: str) -> dict[str, list[float]]:
    """Each figure in percent, by seed."""
    metrics = [lab.summary(_settings(deal, rule, seed))["metrics"] for seed in SEEDS]
    return {name: [100 * run[key] for run in metrics] for name, key in FIGURES.items()}


def _interval(ours: list[float], theirs: list[float]) -> str:
    difference = paired_difference(ours, theirs)
    if difference.low == difference.high:
        return f"{difference.mean:+.1f}"
    return f"{difference.mean:+.1f} ({difference.low:+.1f} to {difference.high:+.1f})"


TABLES: tuple[Table, ...] = (consistency,)

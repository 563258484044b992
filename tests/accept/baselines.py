"""Every method on the same clients: images that differ mildly and strongly, and parts of a graph, in one table."""

import re
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accept.flatland import CORA, SEEDS, best_accuracies
from accept.images import MILD, SKEWED, global_accuracies, personal_accuracies
from accept.lab import Lab, Outcome
from curvfed.strategies.config.checks import OF_SGD
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import settled
from curvfed.strategies.methods import METHODS
from curvfed.tasks.images.datasets import locate as locate_images
from curvfed.tasks.stored_files import write_atomically

PAGE = Path(__file__).parents[2] / "docs" / "baselines.md"
MISSING = "–"

Table = Callable[[Lab], Iterator[Outcome]]


@dataclass(frozen=True)
class Column:
    """One setting that methods are compared in.

    Attributes
    ----------
    title : str
    task : str
    settings : mapping
        Of a run, without method and seed.
    """

    title: str
    task: str
    settings: Mapping[str, Any]

    @property
    def methods(self) -> list[str]:
        """Those that work on it."""
        return [name for name, row in METHODS.items() if self.task in row.tasks]

    def of(self, method: str, **more: Any) -> dict[str, Any]:
        """The settings of a method's run, without seed; what counts the steps of SGD has no other optimiser."""
        of_sgd = METHODS[method].aggregation in OF_SGD
        fitting = {key: value for key, value in self.settings.items() if not (of_sgd and key == "optimizer")}
        return {**fitting, "method": method, **more}


MOMENTUM = {"optimizer-state": "personal"}
"""As the columns of images were measured: kept where a method keeps a trained part at the clients, by now reset for all."""

COLUMNS = (
    Column("MNIST, α = .5", "images", MILD | MOMENTUM),
    Column("MNIST, α = .1", "images", SKEWED | MOMENTUM),
    Column("Cora, 10 clients", "nodes", CORA),
)
CENTRALISED = {"num-supernodes": 1}
"""All data at one client, for as many passes as the clients make over theirs."""


def baselines(lab: Lab) -> Iterator[Outcome]:
    """All methods beside the majority class, training alone and centralised training; written to `baselines.md` too."""
    locate_images("mnist", lab.data)
    for column in COLUMNS:
        lab.start(column.of("fedavg", **CENTRALISED, seed=seed) for seed in SEEDS)
        lab.start(column.of(method, seed=seed) for method in column.methods for seed in SEEDS)
    told = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    lines = ["| method | " + " | ".join(_heads()) + " |", "| --- " * (1 + len(_heads())) + "|"]
    lines += [f"| {name} | " + " | ".join(figures) + " |" for name, figures in _references(lab)]
    alone = {column.title: statistics.mean(_personal(lab, column, "local")) for column in COLUMNS}
    for method in METHODS:
        cells: list[str] = []
        below = []
        for column in COLUMNS:
            if method not in column.methods:
                cells += [MISSING] * (2 if column.task == "images" else 1)
                continue
            personal = _personal(lab, column, method)
            cells += _cells(lab, column, column.of(method), personal)
            if statistics.mean(personal) < alone[column.title]:
                below.append(column.title)
        if set(cells) == {MISSING}:
            continue
        lines.append(f"| `{method}` | " + " | ".join(cells) + " |")
        unexplained = [title for title in below if not _is_explained(told, method, title)]
        where = f"below it on {' and '.join(below)}" if below else "nowhere below it"
        yield Outcome(
            f"{method}: {', '.join(cell for cell in cells if cell != MISSING)}",
            f"not below local, or {PAGE.name} says why",
            where + (f"; not explained: {', '.join(unexplained)}" if unexplained else ""),
            not unexplained,
        )
    table = "\n".join(lines) + "\n"
    write_atomically(lab.folder / "baselines.md", table.encode())
    yield Outcome(
        f"the table of all methods, {lab.folder / 'baselines.md'}",
        f"that of docs/{PAGE.name}",
        "the same" if table in told else "another: " + table,
        table in told,
    )


def _heads() -> list[str]:
    return [head for column in COLUMNS for head in _heads_of(column)]


def _heads_of(column: Column) -> list[str]:
    if column.task == "images":
        return [f"{column.title}: global", "personal"]
    return [column.title]


def _references(lab: Lab) -> Iterator[tuple[str, list[str]]]:
    """What no federated method is."""
    majority: list[str] = []
    pooled: list[str] = []
    for column in COLUMNS:
        summaries = [lab.summary(column.of("local", seed=seed)) for seed in SEEDS]
        share = _spread([100 * one["metrics"]["majority_accuracy"] for one in summaries])
        one = column.of("fedavg", **CENTRALISED)
        if column.task == "images":
            majority += [MISSING, share]
            pooled += [_spread(global_accuracies(lab, one)), MISSING]
        else:
            majority.append(share)
            pooled.append(_spread(best_accuracies(lab, one)))
    yield "majority class of each client", majority
    yield "centralised training", pooled


def _personal(lab: Lab, column: Column, method: str) -> list[float]:
    """Of images as of the last round; of graphs at the round of best validation, or after a second stage that ends it."""
    settings = column.of(method)
    if column.task == "images" or settled(parse({"method": method}), column.task).fine_tunes:
        return personal_accuracies(lab, settings)
    return best_accuracies(lab, settings)


def _cells(lab: Lab, column: Column, settings: dict[str, Any], personal: list[float]) -> list[str]:
    if column.task != "images":
        return [_spread(personal)]
    has_global = lab.summary(settings | {"seed": SEEDS[0]})["global_accuracy"] is not None
    return [_spread(global_accuracies(lab, settings)) if has_global else MISSING, _spread(personal)]


def _spread(values: list[float]) -> str:
    """Mean and standard deviation (ddof = 1) over the seeds."""
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}"


def _is_explained(page: str, method: str, title: str) -> bool:
    """Whether the page has a line "* `method` … on title …"."""
    return any(title in line for line in re.findall(rf"^\* `{re.escape(method)}`.*$", page, re.MULTILINE))


TABLES: tuple[Table, ...] = (baselines,)

"""The rest of FlatLand: whole graphs, tailored curvature, few dimensions, few clients at a time,
Ollivier's curvature."""

import csv
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from studies.accept.flatland import (
    CORA,
    MINESWEEPER,
    SEEDS,
    at_least,
    best_accuracies,
    paired,
    spread,
)
from studies.accept.lab import Lab, Outcome
from studies.accept.presets import preset

MORE_SEEDS = tuple(range(5))
"""Of the paired comparison of curvatures, where three seeds would tell too little."""

TREES = {"dataset": "trees", "num-supernodes": 10, "num-rounds": 100}

Table = Callable[[Lab], Iterator[Outcome]]


def whole_graphs(lab: Lab) -> Iterator[Outcome]:
    """The Lorentz encoder against GIN, both under FlatLand's sharing and both alone."""
    settings = preset("flatland-graphs") | {"num-supernodes": 3}
    pairs = {
        "flatland": (settings, settings | {"model": "gin"}),
        "local": (settings | {"method": "local-lorentz"}, settings | {"method": "local"}),
    }
    lab.start(keys | {"seed": seed} for pair in pairs.values() for keys in pair for seed in SEEDS)
    for name, (lorentz, gin) in pairs.items():
        ours, theirs = best_accuracies(lab, lorentz), best_accuracies(lab, gin)
        difference = [a - b for a, b in zip(ours, theirs, strict=True)]
        what = (
            f"MUTAG, BZR, PROTEINS, {name}: Lorentz ({spread(ours)}) minus GIN ({spread(theirs)})"
        )
        yield at_least(what, -0.5, difference, signed=True)


def curvature(lab: Lab) -> Iterator[Outcome]:
    """Whether tailored curvature is alive, and whether it matters, by the live map and by the
    published one."""
    live = CORA | {"method": "flatland", "flatland.curvature-map": "exp"}
    runs = [lab.run(live | {"seed": seed}) for seed in SEEDS]
    for name, folders in (
        ("exp", runs),
        ("sigmoid", [lab.run(CORA | {"seed": seed}) for seed in SEEDS]),
    ):
        gradients = [gradient for folder in folders for gradient in start_gradients(folder)]
        text = f"{min(gradients):.1e} (median {statistics.median(gradients):.1e})"
        what = (
            f"Cora-10, seeds 0-2, curvature-map {name}: gradient on k at the start, least of 30"
            " clients"
        )
        if name == "exp":
            yield Outcome(what, ">= 1e-3", text, min(gradients) >= 1e-3)
        else:
            yield Outcome(f"for information: {what}", "-", text, True)
    moved = [distance for run in runs for distance in _curvature_moved(run)]
    yield Outcome(
        "the same clients, exp: how far the curvature moves from the first round to the last,"
        " least",
        "> 0",
        f"{min(moved):.3f} (median {statistics.median(moved):.3f}, most {max(moved):.3f})",
        min(moved) > 0,
    )
    data = {"Cora-10": CORA, "trees-10": TREES, "minesweeper-10 (AUC)": MINESWEEPER}
    ways = {
        "exp": {"method": "flatland", "flatland.curvature-map": "exp"},
        "sigmoid": {"method": "flatland"},
        "constant": {"method": "flatland-constant"},
    }
    lab.start(
        keys | way | {"seed": seed}
        for keys in data.values()
        for way in ways.values()
        for seed in MORE_SEEDS
    )
    for where, settings in data.items():
        scores = {name: _scores(lab, settings | way) for name, way in ways.items()}
        for name in ("exp", "sigmoid"):
            differences = [a - b for a, b in zip(scores[name], scores["constant"], strict=True)]
            yield paired(
                f"for information: {where}, {name} minus constant", "reported", differences
            )


def falling_rate(lab: Lab) -> Iterator[Outcome]:
    """What FlatLand loses from the round of best validation to the last, by its default and at a
    constant rate."""
    ways = {"its default, schedule=inverse": {}, "schedule=constant": {"schedule": "constant"}}
    runs = {
        name: [CORA | {"method": "flatland", "seed": seed} | way for seed in MORE_SEEDS]
        for name, way in ways.items()
    }
    lab.start(run for every in runs.values() for run in every)
    for name, every in runs.items():
        summaries = [lab.summary(run) for run in every]
        ends = [
            100
            * (
                summary["personal_accuracy_mean"]
                - summary["best_validation"]["personal_accuracy_mean"]
            )
            for summary in summaries
        ]
        what = f"Cora-10, flatland, last round minus best-validation round: {name}"
        if ways[name]:
            yield Outcome(f"for information: {what}", "-", spread(ends, signed=True), True)
        else:
            yield at_least(what, -0.7, ends, signed=True)


def few_dimensions(lab: Lab) -> Iterator[Outcome]:
    """Four hidden dimensions."""
    settings = preset("dimensions/4") | {"num-supernodes": 20}
    lab.start(
        settings | {"method": method, "seed": seed}
        for method in ("flatland", "fedavg")
        for seed in SEEDS
    )
    ours, theirs = (
        best_accuracies(lab, settings | {"method": method}) for method in ("flatland", "fedavg")
    )
    what = (
        f"for information: Cora-20, dimension 4: flatland ({spread(ours)}) minus fedavg"
        f" ({spread(theirs)})"
    )
    yield paired(what, "-", [a - b for a, b in zip(ours, theirs, strict=True)])


def few_clients(lab: Lab) -> Iterator[Outcome]:
    """A tenth of fifty clients at a time, all of them scored in the end."""
    settings = preset("participation/10") | {"num-supernodes": 50}
    lab.start(
        settings | {"method": method, "seed": seed}
        for method in ("flatland", "fedavg")
        for seed in SEEDS
    )
    ours, theirs = (
        [
            100 * lab.summary(settings | {"method": method, "seed": seed})["personal_accuracy_mean"]
            for seed in SEEDS
        ]
        for method in ("flatland", "fedavg")
    )
    yield at_least(
        "Cora-50, 10% a round, 3 epochs, all clients scored after the last round: flatland",
        72.0,
        ours,
    )
    what = f"for information: the same, flatland minus fedavg ({spread(theirs)})"
    yield paired(what, "-", [a - b for a, b in zip(ours, theirs, strict=True)])


def ollivier(lab: Lab) -> Iterator[Outcome]:
    """Ollivier-Ricci curvature of Cora's ten clients, one after the other on one core."""
    from curvfed.geometry.curvature import ollivier_ricci
    from curvfed.tasks.graphs.data.graph_spec import GraphSpec
    from curvfed.tasks.graphs.dataset import GraphDataset

    lab.wait()
    graphs = [
        GraphDataset(GraphSpec("cora", lab.data), lab.folder / "cache").client(client, 10)
        for client in range(10)
    ]
    started = time.perf_counter()
    edges = sum(
        ollivier_ricci(graph.edge_index, len(graph.labels)).numel() // 2 for graph in graphs
    )
    seconds = time.perf_counter() - started
    what = f"Ollivier-Ricci curvature of the {edges} edges of Cora's ten clients"
    yield Outcome(what, "<= 30 s", f"{seconds:.1f} s", seconds <= 30)


TABLES: tuple[Table, ...] = (
    whole_graphs,
    curvature,
    falling_rate,
    few_dimensions,
    few_clients,
    ollivier,
)


def start_gradients(folder: Path) -> list[float]:
    """|dloss/dk| of every client of a run before its first step, dropout off."""
    from curvfed.client_app.client import Client
    from curvfed.deployments.predict import TrainedRun
    from curvfed.strategies.config.build_method import initial_aggregation

    run = TrainedRun.read(folder)
    start = initial_aggregation(run.config, run.facts, sorted(run.clients))
    gradients = []
    for client in run.clients:
        party = Client(run.config, run.path.name, run.part_of(client))
        party.prepare(run.facts, 0)
        party.receive(start.sent_to(client))
        party.model.eval()
        party.model.zero_grad()
        (loss,) = party.task.losses(party.model)
        loss.backward()  # type: ignore[no-untyped-call]
        gradient = party.parameters["k"].grad
        gradients.append(0.0 if gradient is None else abs(gradient.item()))
    return gradients


def _curvature_moved(folder: Path) -> list[float]:
    """|curvature after the last round - after the first| of every client of a run."""
    with (folder / "clients.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["curvature"]]
    course: dict[str, list[float]] = {}
    for row in rows:
        course.setdefault(row["partition"], []).append(float(row["curvature"]))
    return [abs(values[-1] - values[0]) for values in course.values()]


def _scores(lab: Lab, settings: dict[str, Any]) -> list[float]:
    """Accuracy, or the data set's own metric, at the round of best validation, in percent."""
    scores = []
    for seed in MORE_SEEDS:
        best = lab.summary(settings | {"seed": seed})["best_validation"]
        scores.append(100 * best["metrics"].get("roc_auc", best["personal_accuracy_mean"]))
    return scores

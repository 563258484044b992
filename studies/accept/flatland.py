"""FlatLand on Cora and minesweeper: accuracy, ablations, privacy of the personal part, restarts,
speed."""

import os
import random
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from curvfed.extensions.sweeps.commands.paired import paired_difference
from studies.accept.lab import Lab, Outcome, RunFailed, read_summary

SEEDS = (0, 1, 2)
KILLS = 10

CLIENTS = 10
CORA = {"dataset": "cora", "num-supernodes": CLIENTS, "num-rounds": 100}
MINESWEEPER = {
    "dataset": "minesweeper",
    "num-supernodes": 10,
    "num-rounds": 30,
    "local-epochs": 3,
    "embedding-dim": 64,
}
SHORT_ROUNDS = 20
SHORT = CORA | {"num-rounds": SHORT_ROUNDS}

ASIDE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("fedavg", {"optimizer": "adam"}),
    ("fedavg", {"optimizer": "adam", "optimizer-state": "fresh"}),
    ("flatland", {"optimizer": "adam"}),
    ("fed-pub", {}),
    ("gcfl", {}),
)
"""The authors' optimiser and a stateless one, and the paper's baselines: beside the bars, part of
none."""

Table = Callable[[Lab], Iterator[Outcome]]


def accuracy(lab: Lab) -> Iterator[Outcome]:
    """Accuracy and the ablations, best-validation round, after local training."""
    methods = ("flatland", "flatland-shared", "fedavg", "local", "local-lorentz")
    lab.start(CORA | {"method": method, "seed": seed} for method in methods for seed in SEEDS)
    lab.start(CORA | {"num-supernodes": 20, "seed": seed} for seed in SEEDS)
    ours = best_accuracies(lab, CORA | {"method": "flatland"})
    yield at_least("Cora, 10 clients, 100 rounds, seeds 0-2: accuracy", 81.0, ours)
    twenty = best_accuracies(lab, CORA | {"num-supernodes": 20})
    yield at_least("Cora, 20 clients, likewise", 80.5, twenty)
    mean = {method: best_accuracies(lab, CORA | {"method": method}) for method in methods}
    for other in methods[1:]:
        pairs = [a - b for a, b in zip(ours, mean[other], strict=True)]
        yield paired(
            f"for information: Cora-10: flatland minus {other} ({spread(mean[other])})", "-", pairs
        )
    yield at_least("Cora-10: fedavg at its defaults", 81.5, mean["fedavg"])
    for method, changes in ASIDE:
        lab.start(CORA | {"method": method, "seed": seed} | changes for seed in SEEDS)
    for method, changes in ASIDE:
        words = ", ".join(f"{key}={value}" for key, value in changes.items()) or "its defaults"
        yield Outcome(
            f"for information: {method} with {words}",
            "-",
            spread(best_accuracies(lab, CORA | {"method": method} | changes)),
            True,
        )


def neighbour(lab: Lab) -> Iterator[Outcome]:
    """What a trained client loses with its neighbour's personal parameters."""
    from studies.accept.swap import with_own_and_neighbours

    pairs = [
        with_own_and_neighbours(lab.run(CORA | {"method": "flatland", "seed": seed}))
        for seed in SEEDS
    ]
    losses = [100 * (own - other) for own, other in pairs]
    yield at_least("a client given its neighbour's personal parameters loses", 15.0, losses)


def minesweeper(lab: Lab) -> Iterator[Outcome]:
    """ROC-AUC with the gate and without."""
    settings = {"with": MINESWEEPER, "without": MINESWEEPER | {"flatland.gate": False}}
    lab.start(keys | {"seed": seed} for keys in settings.values() for seed in SEEDS)
    auc = {
        name: [
            100 * _best(lab.summary(keys | {"seed": seed}))["metrics"]["roc_auc"] for seed in SEEDS
        ]
        for name, keys in settings.items()
    }
    yield at_least(
        "minesweeper, 10 clients, 30 rounds x 3 epochs, width 64: AUC", 73.0, auc["with"]
    )
    gains = [a - b for a, b in zip(auc["with"], auc["without"], strict=True)]
    yield at_least("minesweeper: gate minus no gate", 1.5, gains, signed=True)


def restarts(lab: Lab) -> Iterator[Outcome]:
    """Same seed twice; killed at a random round and resumed."""
    first, second = lab.run(SHORT), lab.run(SHORT | {"threads": 1, "device": "cpu"})
    yield Outcome("same seed twice, in-process", "bit-equal", *_equal(first, second))
    generator = random.Random(0)
    jobs = [(generator.randint(1, SHORT_ROUNDS - 1), index) for index in range(KILLS)]
    with ThreadPoolExecutor(2) as pool:
        equal = list(pool.map(lambda job: _equal(first, _killed_and_resumed(lab, *job))[1], jobs))
    rounds = ", ".join(str(after) for after, _ in jobs)
    yield Outcome(
        f"killed (kill -9) after rounds {rounds} and resumed",
        "bit-equal, 10 of 10",
        f"{sum(equal)} of {KILLS}",
        all(equal),
    )


def messages(lab: Lab) -> Iterator[Outcome]:
    """Bytes per client and round."""
    flat = lab.summary(CORA | {"method": "fedavg", "seed": 0})
    ours = lab.summary(CORA | {"method": "flatland", "seed": 0})
    same = (ours["bytes_up"], ours["bytes_down"]) == (flat["bytes_up"], flat["bytes_down"])
    yield Outcome(
        "bytes per client and round, up / down",
        f"a GCN's: {flat['bytes_up']:.0f}",
        f"{ours['bytes_up']:.0f} / {ours['bytes_down']:.0f}",
        same,
    )
    names = _array_names_on_the_wire(lab)
    personal = sorted(
        name for name in names if name == "k" or name.split(".")[-1] in ("time", "gate")
    )
    yield Outcome(
        "personal parameters in messages",
        "0",
        f"{len(personal)} of {len(names)} names",
        not personal,
    )


def speed(lab: Lab) -> Iterator[Outcome]:
    """Ratios and seconds; nothing else runs meanwhile."""
    lab.wait()
    ratio = _measured(lab, "in-process run, flatland")
    value = (
        f"{ratio.ratio:.2f} ({ratio.low:.2f}-{ratio.high:.2f}), {ratio.ours:.1f} s /"
        f" {ratio.theirs:.1f} s"
    )
    yield Outcome(
        "in-process run of Cora-10, 100 rounds, against one plain loop",
        "<= 1.3",
        value,
        ratio.ratio <= 1.3,
    )
    step = _measured(lab, "flatland: steps")
    yield Outcome(
        "Lorentz GCN step against Euclidean GCN step, equal width",
        "<= 1.4",
        f"{step.ratio:.2f} ({step.low:.2f}-{step.high:.2f})",
        step.ratio <= 1.4,
    )
    names = ("import torch", "other imports", "data, model and one training round", "both of these")
    torch, imports, handler, beyond = (_measured(lab, f"real node: {name}").ours for name in names)
    yield Outcome(
        "client process, start to the end of its first step, beyond import torch",
        "<= 1.5 s",
        f"{beyond:.2f} s (imports {imports:.2f}, handler {handler:.2f}; torch {torch:.2f})",
        beyond <= 1.5,
    )


def _measured(lab: Lab, name: str) -> Any:
    """A row of the benchmarks."""
    from benchmarks.measure import Place, measure
    from benchmarks.rows import one

    return measure(one(name, Place(lab.data)))


def through_flower(lab: Lab) -> Iterator[Outcome]:
    """One `flwr run` in Ray: seconds per round beyond training, after the first."""
    import csv
    import sys

    from command_runs import round_overhead

    lab.wait()
    command = [sys.executable, "-m", "curvfed", "run", *lab.command(SHORT, "flower")[4:]]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RunFailed(f"flwr run: exit status {done.returncode}\n{done.stdout[-3000:]}")
    with (lab.folder / "flower" / "rounds.csv").open() as file:
        seconds = round_overhead(
            list(csv.DictReader(file)), workers=min(os.cpu_count() or 1, CLIENTS)
        )
    yield Outcome(
        "round of Cora-10 by flwr run beyond its training, after the first",
        "<= 0.3 s",
        f"{seconds:.2f} s",
        seconds <= 0.3,
    )
    same, _ = _equal(lab.run(SHORT), lab.folder / "flower")
    yield Outcome("for information: flwr run against in-process, same seed", "-", same, True)


TABLES: tuple[Table, ...] = (
    accuracy,
    neighbour,
    minesweeper,
    messages,
    restarts,
    speed,
    through_flower,
)


def best_accuracies(lab: Lab, settings: dict[str, Any]) -> list[float]:
    """Accuracy of the seeds at the round of best validation, in percent."""
    return [
        100 * _best(lab.summary(settings | {"seed": seed}))["personal_accuracy_mean"]
        for seed in SEEDS
    ]


def _best(summary: dict[str, Any]) -> dict[str, Any]:
    best: dict[str, Any] = summary["best_validation"]
    return best


def paired(what: str, bar: str, differences: list[float]) -> Outcome:
    """Mean of paired differences with its 95% t interval, for information."""
    ends = paired_difference(differences)
    value = f"{spread(differences, signed=True)}, 95% interval {ends.low:+.2f} to {ends.high:+.2f}"
    return Outcome(what, bar, value, True)


def at_least(what: str, bar: float, values: list[float], signed: bool = False) -> Outcome:
    """A line whose mean is to reach a bar."""
    return Outcome(
        what,
        f">= {bar:+g}" if signed else f">= {bar:g}",
        spread(values, signed),
        statistics.mean(values) >= bar,
    )


def spread(values: list[float], signed: bool = False) -> str:
    """Mean, and each value."""
    sign = "+" if signed else ""
    each = ", ".join(f"{value:{sign}.1f}" for value in values)
    return f"{statistics.mean(values):{sign}.2f} ({each})"


def _equal(run: Path, other: Path) -> tuple[str, bool]:
    """Whether figures and model agree to the last bit, times and versions left out."""
    timing = ("seconds", "seconds_training", "seconds_aggregation", "versions")
    left, right = (
        {k: v for k, v in read_summary(folder).items() if k not in timing}
        for folder in (run, other)
    )
    figures = left == right
    model = (run / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    return (
        f"figures {'equal' if figures else 'differ'}, model {'equal' if model else 'differs'}",
        figures and model,
    )


def _killed_and_resumed(lab: Lab, after: int, index: int) -> Path:
    name = f"killed-{index}"
    process = subprocess.Popen(
        lab.command(SHORT, name), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    rounds = lab.folder / name / "rounds.csv"
    while process.poll() is None and (
        not rounds.exists() or rounds.read_text().count("\n") <= after
    ):
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = subprocess.run(
        lab.command(SHORT | {"resume": True}, name), capture_output=True, text=True
    )
    if done.returncode:
        raise RunFailed(f"resuming {name}: exit status {done.returncode}\n{done.stdout[-2000:]}")
    return lab.folder / name


def _array_names_on_the_wire(lab: Lab) -> set[str]:
    """Names of all arrays in all messages of a run of two rounds."""
    from curvfed.deployments.inprocess import simulate

    names: set[str] = set()

    def record(request: Any, handle: Any) -> Any:
        reply = handle(request)
        for message in (request, reply):
            names.update(
                name for record in message.content.array_records.values() for name in record
            )
        return reply

    settings = {
        "dataset": "cora",
        "data-dir": str(lab.data),
        "results-dir": str(lab.folder),
        "run-name": "recorded",
    }
    simulate(settings | {"num-rounds": 2}, 10, intercept=record)
    return names

"""Hulls and secure sums: what the server sees, what it costs, and secure sums in other methods."""

import functools
import json
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from curvfed.strategies.base.shared_tables import Points
from curvfed.strategies.hull.learn import Settings
from curvfed.strategies.methods.hull import Keys
from curvfed.strategies.wire.messages import HULLS
from curvfed.tasks.points.dataset import PointDataset
from curvfed.tasks.points.point_spec import PointSpec
from studies.accept.flatland import SEEDS, spread
from studies.accept.hull_trial import trial
from studies.accept.lab import Lab, Outcome
from studies.accept.presets import preset

IMAGES = preset("mnist") | {"num-supernodes": 20}
Table = Callable[[Lab], Iterator[Outcome]]


def server_view(lab: Lab) -> Iterator[Outcome]:
    """All numbers that the server sees of the clients in the masked phase."""
    from scipy.stats import kstest

    from curvfed.deployments.inprocess import simulate
    from curvfed.strategies.wire.codec import decode_arrays

    seen: list[Any] = []

    def intercept(request: Any, handle: Any) -> Any:
        reply = handle(request)
        if request.content["header"]["phase"] == HULLS:
            seen.append(decode_arrays(reply.content["arrays"])["masked"])
        return reply

    place: dict[str, Any] = {
        "results-dir": str(lab.folder),
        "run-name": "recorded-hulls",
        "points.num": 3000,
    }
    folder = simulate({"method": "hull", "dataset": "uniform"} | place, 5, intercept=intercept)
    prime = json.loads((folder / "summary.json").read_text())["metrics"]["hull_prime"]
    p = float(kstest(np.concatenate(seen).astype(np.float64) / prime, "uniform").pvalue)
    yield Outcome(
        f"{sum(map(len, seen)):,} masked numbers of 5 clients against the uniform distribution"
        " (tests compare data sets of equal sum and record every message)",
        "p >= 1e-4",
        f"Kolmogorov-Smirnov p = {p:.3f}",
        p >= 1e-4,
    )


def secure_averages(lab: Lab) -> Iterator[Outcome]:
    """Averages and calibration by a secure sum against the same in the open."""
    for method, what in (("fedavg", "plain averaging"), ("spherefed", "averaging and calibration")):
        settings = IMAGES | {"method": method, "num-rounds": 10}
        pairs = [{"secure-sum": secure} for secure in (False, True)]
        lab.start(settings | pair | {"seed": seed} for pair in pairs for seed in SEEDS)
        opened, secured = (
            [
                100 * lab.summary(settings | pair | {"seed": seed})["global_accuracy"]
                for seed in SEEDS
            ]
            for pair in pairs
        )
        differences = [
            secured_score - opened_score
            for opened_score, secured_score in zip(opened, secured, strict=True)
        ]
        yield Outcome(
            f"MNIST, 20 clients, 10 rounds, {method}, {what}: secure-sum=true minus false"
            f" ({spread(opened)})",
            "within 0.2",
            spread(differences, signed=True),
            max(map(abs, differences)) <= 0.2,
        )


def hull_speed(lab: Lab) -> Iterator[Outcome]:
    """Seconds and ratios; nothing else runs meanwhile."""
    from textbook import graham_scan, sample

    from benchmarks.measure import Place, Row, measure
    from benchmarks.one_shot import hull
    from benchmarks.rows import one

    lab.wait()
    measured = measure(one("masks of a secure sum", Place()))
    yield Outcome(
        "a member's masks in a group of 9, 10,000 numbers",
        "<= 0.1 s",
        f"{measured.ours:.3f} s",
        measured.ours <= 0.1,
    )
    for bits, which in ((25, "25 bits"), (31, "31 bits, as at the defaults")):
        row = Row("decode", "0.6 s", functools.partial(_decoding, bits))
        seconds = measure(row).ours
        yield Outcome(
            f"decode at 5,000 bins, a prime of {which}",
            "<= 0.6 s",
            f"{seconds:.2f} s",
            seconds <= 0.6,
        )
    points = sample(100_000)
    scan = measure(
        Row("hull", "scan", lambda: (hull(100_000), lambda: graham_scan(points, -1.0)), repeats=1)
    )
    qhull = measure(one("hyperbolic hull of 100,000 points", Place()))
    yield Outcome(
        "hull of 100,000 points against the paper's scan",
        ">= 100 times as fast",
        f"{1 / scan.ratio:.0f} times ({scan.ours:.3f} s / {scan.theirs:.1f} s)",
        1 / scan.ratio >= 100,
    )
    yield Outcome(
        "the same against Qhull on the Euclidean points",
        "<= 1.5",
        f"{qhull.ratio:.2f} ({qhull.low:.2f}-{qhull.high:.2f})",
        qhull.ratio <= 1.5,
    )
    for words, c in (("C = .1 as published", 0.1), ("C by cross-validation", 0.0)):
        median = one_trial(lab, c)
        yield Outcome(
            f"one Olsson trial, all stages, {words}", "<= 0.15 s", f"{median:.3f} s", median <= 0.15
        )


def one_trial(lab: Lab, c: float) -> float:
    """Median seconds of hulls, quantisation, masks, their sum, decoding, grouping, training and
    scoring."""
    spec = PointSpec("olsson", lab.data)
    clients = [
        (client.train_points, client.train_labels)
        for client in (PointDataset(spec).client(p, 3) for p in range(3))
    ]
    test = PointDataset(spec).test()
    assert test is not None
    values = Keys().public(Points(), 8, 3)
    seconds = []
    for _ in range(12):
        started = time.perf_counter()
        trial(clients, (test.points, test.labels), values, Settings(c=c))
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[2:])


def _decoding(bits: int) -> Any:
    """Decoding of 5,000 bins with a prime of this size, and its bar in seconds."""
    from benchmarks.one_shot import decode_bins

    return decode_bins(5_000, bits), 0.6


TABLES: tuple[Table, ...] = (server_view, secure_averages, hull_speed)

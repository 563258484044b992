"""Classifiers of hulls on Olsson over 30 splits, what liars cost there, and discriminant analysis
beside them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from liars import lied

from curvfed.strategies.hull.codec import PublicParameters
from curvfed.strategies.hull.learn import Settings
from curvfed.tasks.points import ClientPoints
from curvfed.tasks.points.dataset import PointDataset
from curvfed.tasks.points.point_spec import PointSpec
from studies.accept.flatland import spread
from studies.accept.hull import OLSSON
from studies.accept.hull_more import Table
from studies.accept.hull_trial import trial
from studies.accept.lab import Lab, Outcome

SPLITS = 30
KINDS = ("auto", "plane", "logistic", "lorentz", "depth", "poincare")
LIES = ("rim", "noise", "shuffled", "switched", "negative")
Part = tuple[np.ndarray, np.ndarray]


def _split(lab: Lab, seed: int, clients: int, **dealt: Any) -> tuple[list[Part], Part, int]:
    """Training points of each client, test points, and the number of classes, of a split of
    Olsson's cells."""
    spec = PointSpec("olsson", lab.data, seed=seed, **dealt)
    parts: list[ClientPoints] = [
        PointDataset(spec).client(number, clients) for number in range(clients)
    ]
    test = PointDataset(spec).test()
    assert test is not None
    return (
        [(client.train_points, client.train_labels) for client in parts],
        (test.points, test.labels),
        len(test.class_names),
    )


def _accuracy(
    parts: list[Part], test: Part, classes: int, kind: str, seed: int
) -> tuple[float, int]:
    """Accuracy in percent, and how many clients look odd."""
    public = PublicParameters(-1.0, 0.999, 0.01, num_classes=classes, num_clients=len(parts), cap=8)
    outcome = trial(parts, test, public, Settings(kind=kind, seed=seed))  # type: ignore[arg-type]
    return 100 * (outcome.accuracy or 0.0), len(outcome.learned.outlying)


def olsson_classifiers(lab: Lab) -> Iterator[Outcome]:
    """Every classifier on the hulls of the same three clients."""
    splits = [_split(lab, seed, 3) for seed in range(SPLITS)]
    accuracies = {
        kind: [_accuracy(*split, kind, seed)[0] for seed, split in enumerate(splits)]
        for kind in KINDS
    }
    for kind, values in accuracies.items():
        yield Outcome(
            f"Olsson, {SPLITS} splits, 3 clients, hulls of 8 corners: {kind}",
            "told",
            _interval(values),
            True,
        )
    best = max(KINDS[1:], key=lambda kind: float(np.mean(accuracies[kind])))
    mean = np.mean(accuracies["auto"])
    short = np.mean(accuracies[best]) - mean
    yield Outcome(
        f"auto; the best other one ({best}) minus auto",
        ">= 93; <= 1.5",
        f"{mean:.1f}; {short:+.1f}",
        bool(mean >= 93 and short <= 1.5),
    )


def olsson_liars(lab: Lab) -> Iterator[Outcome]:
    """Some of ten clients lie; `auto` is compared with the same splits without liars."""
    splits = [_split(lab, seed, 10) for seed in range(10)]
    honest = [_accuracy(*split, "auto", seed)[0] for seed, split in enumerate(splits)]
    yield Outcome("Olsson, 10 splits, 10 honest clients", "told", _interval(honest), True)
    for liars, bar in ((1, 2.0), (3, 4.0)):
        for lie in LIES:
            outcomes = [
                _accuracy(
                    [
                        lied(part, lie, classes, client) if client < liars else part
                        for client, part in enumerate(parts)
                    ],
                    test,
                    classes,
                    "auto",
                    seed,
                )
                for seed, (parts, test, classes) in enumerate(splits)
            ]
            lost = float(np.mean(honest) - np.mean([accuracy for accuracy, _ in outcomes]))
            reported = sum(odd > 0 for _, odd in outcomes)
            yield Outcome(
                f"{liars} of 10: {lie}, honest minus this",
                f"<= {bar:g}",
                f"{lost:+.1f}; told in {reported} of 10",
                lost <= bar,
            )


def olsson_limits(lab: Lab) -> Iterator[Outcome]:
    """Where it ends: four liars of ten, lies aimed at a class, unequal clients, classes that few
    have; for information."""
    ways: dict[str, dict[str, Any]] = {
        "alike": {},
        "Dirichlet .5": {"partition": "dirichlet", "alpha": 0.5},
        "Dirichlet .1": {"partition": "dirichlet", "alpha": 0.1},
        "each without 5 of 8 classes": {"lacking": 5},
    }
    for way, dealt in ways.items():
        splits = [_split(lab, seed, 10, **dealt) for seed in range(5)]
        for liars, lie in (
            (0, ""),
            (3, "rim"),
            (3, "aimed"),
            (4, "rim"),
            (4, "noise"),
            (4, "shuffled"),
            (4, "aimed"),
        ):
            outcomes = [
                _accuracy(
                    [
                        lied(part, lie, classes, client) if client < liars else part
                        for client, part in enumerate(parts)
                    ],
                    test,
                    classes,
                    "auto",
                    seed,
                )
                for seed, (parts, test, classes) in enumerate(splits)
            ]
            odd = ", ".join(str(number) for _, number in outcomes)
            text = f"{_interval([accuracy for accuracy, _ in outcomes])}; odd clients told: {odd}"
            yield Outcome(f"Olsson, 10 clients, {way}: {liars} liars {lie}", "told", text, True)


def olsson_discriminant(lab: Lab) -> Iterator[Outcome]:
    """LDA and QDA by one secure sum, through whole runs."""
    for kind in ("lda", "qda"):
        runs = [
            OLSSON | {"method": "discriminant", "discriminant.kind": kind, "seed": seed}
            for seed in range(SPLITS)
        ]
        runs = [
            {key: value for key, value in keys.items() if not key.startswith("hull.")}
            for keys in runs
        ]
        lab.start(runs)
        values = [100 * lab.summary(keys)["global_accuracy"] for keys in runs]
        yield Outcome(
            f"Olsson, {SPLITS} splits, 3 clients: {kind} of log0", "told", _interval(values), True
        )


def _interval(values: list[float]) -> str:
    half = 1.96 * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{spread(values)}, mean ± {half:.1f} at 95%"


TABLES: tuple[Table, ...] = (olsson_classifiers, olsson_liars, olsson_limits, olsson_discriminant)

"""Hulls of Olsson's cells: accuracies beside the paper's, the classifiers, and clients that lie."""

import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np
from liars import lied

from curvfed.strategies.hull.learn import Settings as LearnSettings
from curvfed.strategies.hull.learn import learn
from studies.accept.hull_choice import NAMES, accuracy_on, decoded_hulls, num_classes_of
from studies.accept.lab import Lab, Outcome, Settings, Table, at_least, paired, preset, spread
from studies.accept.point_sets import Labelled, olsson_split
from studies.papers.hull_baselines import BASELINES, accuracies

PARTITIONS = range(10)
SPLITS = range(30)
OLSSON = preset("hull-olsson") | {"num-supernodes": 3, "hull.classifier": "svm", "hull.cap": 128}
LOGISTIC = OLSSON | {"hull.classifier": "logistic"}
PUBLISHED = preset("hull-published") | {"num-supernodes": 3}

CLIENTS = 10
"""Clients of the tables on lies."""
LIES = ("rim", "noise", "shuffled", "switched", "negative")
LIMITS = (
    (0, ""),
    (3, "rim"),
    (3, "aimed"),
    (4, "rim"),
    (4, "noise"),
    (4, "shuffled"),
    (4, "aimed"),
)
"""Number of liars, and the lie, of `olsson_limits`."""
PARTITIONINGS: dict[str, dict[str, Any]] = {
    "alike": {},
    "Dirichlet .5": {"partition": "dirichlet", "alpha": 0.5},
    "Dirichlet .1": {"partition": "dirichlet", "alpha": 0.1},
    "each without 5 of 8 classes": {"lacking": 5},
}

Parts = tuple[list[Labelled], Labelled]


def olsson_published(lab: Lab) -> Iterator[Outcome]:
    """The published setting: one split, ten partitions."""
    settings = [PUBLISHED | {"seed": 3 * number} for number in PARTITIONS]
    lab.start(settings)
    flp = [100 * lab.summary(keys)["global_accuracy"] for keys in settings]
    others = [_baselines(lab, keys) for keys in settings]
    what = "Olsson as published: split seed 3, C = .1, epsilon = .01, 3 clients, 10 partitions"
    mean = statistics.mean(flp)
    yield Outcome(f"{what}: FLP", "86.0 +- 2.1", spread(flp), abs(mean - 86.0) <= 2.1)
    for name, paper, within in (("fle", 75.0, 3.5), ("cp", 79.17, 0.1), ("ce", 68.75, 0.1)):
        values = [run[f"accuracy_{name}"] for run in others]
        right = abs(statistics.mean(values) - paper) <= within
        yield Outcome(f"the same: {name}", f"{paper} +- {within}", spread(values), right)
    for name, paper in (("ch_cp", 83.33), ("ch_ce", 77.08)):
        values = [run[f"accuracy_{name}"] for run in others]
        yield Outcome(f"for information: {name}, the paper's {paper}", "-", spread(values), True)


def olsson(lab: Lab) -> Iterator[Outcome]:
    """Thirty random splits at the defaults, C by cross-validation everywhere."""
    lab.start(keys | {"seed": seed} for keys in (OLSSON, LOGISTIC) for seed in SPLITS)
    runs = [lab.summary(OLSSON | {"seed": seed}) for seed in SPLITS]
    others = [_baselines(lab, OLSSON | {"seed": seed}) for seed in SPLITS]
    flp = [100 * run["global_accuracy"] for run in runs]
    yield at_least("Olsson, splits of seeds 0-29, svm, hulls of up to 128 corners: FLP", 87.5, flp)
    differences = [ours - run["accuracy_cp"] for ours, run in zip(flp, others, strict=True)]
    yield at_least(
        "the same, paired: FLP minus CP, C chosen the same way", 2.0, differences, signed=True
    )
    yield paired("for information: its interval", "-", differences)
    for name in BASELINES:
        values = [run[name] for run in others]
        yield Outcome(f"for information: {name}", "-", f"{statistics.mean(values):.2f}", True)
    logistic = [100 * lab.summary(LOGISTIC | {"seed": seed})["global_accuracy"] for seed in SPLITS]
    value = f"{statistics.mean(logistic):.2f}"
    yield Outcome("for information: hull.classifier=logistic on the same hulls", "-", value, True)
    shares = [100 * run["metrics"]["hull_share_revealed"] for run in runs]
    yield Outcome(
        "for information: share of the training points that leave",
        "-",
        f"{statistics.mean(shares):.1f}%",
        True,
    )
    exact = sum(
        run["metrics"]["hulls_exact"] and run["metrics"]["grouping_accuracy"] == 1 for run in runs
    )
    yield Outcome(
        "for information: runs with exact hulls, all rightly grouped",
        "-",
        f"{exact} of {len(runs)}",
        True,
    )


def _baselines(lab: Lab, settings: Settings) -> dict[str, float]:
    """Accuracies of the paper's baselines in percent, on the points of a run."""
    scores = accuracies(lab.run(settings), BASELINES)
    return {name: 100 * (value or 0.0) for name, value in scores.items()}


def olsson_classifiers(lab: Lab) -> Iterator[Outcome]:
    """Every classifier on the hulls of the same three clients."""
    splits = [olsson_split(lab.data, seed) for seed in SPLITS]
    values = {
        kind: [_accuracy(*split, kind, seed)[0] for seed, split in enumerate(splits)]
        for kind in NAMES
    }
    for kind, scores in values.items():
        yield Outcome(
            f"Olsson, {len(SPLITS)} splits, 3 clients, hulls of 8 corners: {kind}",
            "told",
            _interval(scores),
            True,
        )
    means = {kind: float(np.mean(scores)) for kind, scores in values.items()}
    mean = means.pop("auto")
    best = max(means, key=means.__getitem__)
    short = means[best] - mean
    yield Outcome(
        f"auto; the best other one ({best}) minus auto",
        ">= 93; <= 1.5",
        f"{mean:.1f}; {short:+.1f}",
        mean >= 93 and short <= 1.5,
    )


def olsson_liars(lab: Lab) -> Iterator[Outcome]:
    """Some of ten clients lie; `auto` is compared with the same splits without liars."""
    splits = [olsson_split(lab.data, seed, CLIENTS) for seed in range(10)]
    honest = [accuracy for accuracy, _ in _with_liars(splits, 0, "")]
    yield Outcome("Olsson, 10 splits, 10 honest clients", "told", _interval(honest), True)
    for liars, bar in ((1, 2.0), (3, 4.0)):
        for lie in LIES:
            results = _with_liars(splits, liars, lie)
            lost = float(np.mean(honest) - np.mean([accuracy for accuracy, _ in results]))
            reported = sum(outlying > 0 for _, outlying in results)
            yield Outcome(
                f"{liars} of 10: {lie}, honest minus this",
                f"<= {bar:g}",
                f"{lost:+.1f}; told in {reported} of 10",
                lost <= bar,
            )


def olsson_limits(lab: Lab) -> Iterator[Outcome]:
    """Lies that cost much, for information: four liars of ten, lies aimed at a class, unequal
    clients, classes that few have."""
    for name, changes in PARTITIONINGS.items():
        splits = [olsson_split(lab.data, seed, CLIENTS, **changes) for seed in range(5)]
        for liars, lie in LIMITS:
            results = _with_liars(splits, liars, lie)
            outlying = ", ".join(str(number) for _, number in results)
            interval = _interval([accuracy for accuracy, _ in results])
            text = f"{interval}; odd clients told: {outlying}"
            yield Outcome(f"Olsson, 10 clients, {name}: {liars} liars {lie}", "told", text, True)


def _with_liars(splits: list[Parts], liars: int, lie: str) -> list[tuple[float, int]]:
    """For each split `_accuracy` of `auto`, if the first clients lie."""
    results = []
    for seed, (parts, test) in enumerate(splits):
        classes = num_classes_of(parts, test)
        lies = [lied(part, lie, classes, client) for client, part in enumerate(parts[:liars])]
        results.append(_accuracy([*lies, *parts[liars:]], test, "auto", seed))
    return results


def _accuracy(parts: list[Labelled], test: Labelled, kind: str, seed: int) -> tuple[float, int]:
    """Accuracy of a classifier in percent, and the number of outlying clients."""
    classes = num_classes_of(parts, test)
    hulls, public = decoded_hulls(parts, classes)
    learned = learn(hulls, public, LearnSettings(kind=kind, seed=seed))  # type: ignore[arg-type]
    return accuracy_on(test, learned.classifier, classes), len(learned.outlying)


def _interval(values: list[float]) -> str:
    half = 1.96 * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{spread(values)}, mean ± {half:.1f} at 95%"


TABLES: tuple[Table, ...] = (
    olsson_published,
    olsson,
    olsson_classifiers,
    olsson_liars,
    olsson_limits,
)

"""What `hull.classifier=auto` chooses and has on made points and on Olsson, beside every classifier
by name.

    python -m studies.accept.hull_choice --data FOLDER [--held-out | --densities]

prints a table of docs/points.md: accuracies of all classifiers on the sets that the rule was made
with or on the others, or what other ways of drawing points would cost on the first, with fewer
seeds.
"""

import argparse
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np

from curvfed.geometry.arrays import Floats, Integers
from curvfed.geometry.hull import from_klein
from curvfed.strategies.hull.classifier import Classifier, accuracy, name_groups
from curvfed.strategies.hull.classifier_choice import (
    KEYS,
    choose_classifier,
    draw_points,
    predictions,
    rank,
    train_classifier,
)
from curvfed.strategies.hull.codec import DecodedHulls, PublicParameters
from curvfed.strategies.hull.grouped_hulls import GroupedHulls, outlying_clients, without_clients
from curvfed.strategies.hull.grouping import group_hulls
from curvfed.strategies.hull.local import local_hulls
from curvfed.strategies.methods.hull.server import DISAGREEMENT
from studies.accept.hull_more import Table
from studies.accept.lab import Lab, Outcome
from studies.accept.point_sets import HELD_OUT, SETS, Labelled, Split, olsson_split

SEEDS, FEW_SEEDS = range(10), range(3)
CAP = 8
BELOW_BEST, BELOW_DEPTH = 1.5, 3.0
"""How many points `auto` may lie below the best classifier in the mean, and below `depth` with a
single seed."""

NAMES = {
    "auto": "auto",
    "plane": "multinomial",
    "logistic": "logistic",
    "lorentz": "lorentz",
    "depth": "depth",
    "poincare": "svm",
}
POWERS = {
    "near the corners": (0.25, 0.25),
    "as auto": (0.1, 2.0),
    "U^1/2": (0.5, 0.5),
    "U^1": (1.0, 1.0),
    "near the centre": (2.0, 2.0),
}
"""Ways of drawing points along the ways from a hull's centre to its corners."""

Sample = tuple[Floats, Integers]


@dataclass(frozen=True)
class Trial:
    """One seed of one set: accuracies in percent, the kind that `auto` takes, and how far the kinds
    disagree.

    `by_density` has the accuracy of what is chosen with other points, where that is asked for.
    """

    scores: dict[str, float]
    kind: str
    disagreement: float
    by_density: dict[str, float]


def bodies_of(parts: list[Labelled], classes: int, seed: int) -> GroupedHulls:
    """The hulls that the server decodes and groups, without messages."""
    public = PublicParameters(
        -1.0, 0.999, 0.01, num_classes=classes, num_clients=len(parts), cap=CAP
    )
    hulls = DecodedHulls.of(
        [[bins.tolist() for bins in local_hulls(*part, public).hulls] for part in parts]
    )
    vertices = [public.quantizer.decode(bins) for bins in hulls.bins]
    groups = group_hulls(vertices, hulls.clients, classes, -1.0, "assignment", seed)
    return GroupedHulls(vertices, groups, hulls.clients, -1.0)


def accuracy_on(test: Labelled, classifier: Classifier, classes: int) -> float:
    """Accuracy in percent, with the groups named by the test points, as in a run."""
    predicted = classifier.predict(test[0])
    return 100 * (
        accuracy(predicted, test[1], name_groups(predicted, test[1], classes, classes)) or 0.0
    )


def samples(bodies: GroupedHulls) -> dict[str, Sample]:
    """Points, and the hull of each, on which classifiers could be compared."""
    drawn = {
        "corners": (bodies.points, bodies.hull_of),
        "even in the Klein model": even_in_klein(bodies),
    }
    for name, powers in POWERS.items():
        with mock.patch("curvfed.geometry.hull._POWERS", powers):
            drawn[name] = draw_points(bodies, 0)
    return drawn


def even_in_klein(bodies: GroupedHulls, num: int = 40) -> Sample:
    """Points that are uniform in the polygons of the Klein model."""
    rng, points = np.random.default_rng(0), []
    for polygon in bodies.klein:
        sides = polygon[1:] - polygon[0]
        areas = np.abs(sides[:-1, 0] * sides[1:, 1] - sides[:-1, 1] * sides[1:, 0])
        if not areas.sum():
            points.append(rng.dirichlet(np.ones(len(polygon)), num) @ polygon)
            continue
        at = rng.choice(len(areas), num, p=areas / areas.sum())
        low, high = np.sort(rng.random((2, num)), axis=0)[..., None]
        points.append(polygon[0] + low * sides[at] + (high - low) * sides[at + 1])
    return from_klein(np.concatenate(points)), np.repeat(np.arange(len(points)), num)


def trial(split: Split, has_densities: bool, seed: int) -> Trial:
    """Train every classifier by name, and what is chosen by each sample."""
    logging.getLogger("curvfed").setLevel(logging.ERROR)
    parts, test = split(seed)
    classes = 1 + max(int(labels.max()) for _, labels in [*parts, test])
    bodies = bodies_of(parts, classes, seed)
    honest = without_clients(bodies, outlying_clients(bodies))
    score = partial(accuracy_on, test, classes=classes)
    automatic, comparison = choose_classifier(honest, 0.0, seed)
    scores = {"auto": score(automatic)}
    scores |= {kind: score(train_classifier(bodies, kind, 0.0, False, seed)) for kind in KEYS}
    by_density = density_scores(honest, score, seed) if has_densities else {}
    return Trial(scores, automatic.kind, comparison.disagreement, by_density)


def density_scores(
    bodies: GroupedHulls, score: Callable[[Classifier], float], seed: int
) -> dict[str, float]:
    """The score of what is chosen with each sample."""
    drawn = samples(bodies)
    points, hulls = (np.concatenate(values) for values in zip(*drawn.values(), strict=True))
    groups = predictions(bodies, points, hulls, 0.0, seed)
    scores, start = {}, 0
    for name, (some, hull_of) in drawn.items():
        here = {model: predicted[start : start + len(some)] for model, predicted in groups.items()}
        start += len(some)
        best = rank(here, bodies.groups[hull_of], bodies.clients[hull_of]).choices[0]
        scores[name] = score(train_classifier(bodies, best.kind, best.c, False, seed))
    return scores


def trials(
    sets: Mapping[str, Split], seeds: Sequence[int] = SEEDS, has_densities: bool = False
) -> Iterator[tuple[str, list[Trial]]]:
    """All seeds of each set."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        started = {
            name: [pool.submit(trial, split, has_densities, seed) for seed in seeds]
            for name, split in sets.items()
        }
        for name, futures in started.items():
            yield name, [future.result() for future in futures]


def shortfalls(results: Sequence[Trial], scores: Sequence[float]) -> tuple[float, float]:
    """The best classifier's mean minus that of these scores, and the most by which `depth` is
    better with one seed."""
    best = max(np.mean([result.scores[kind] for result in results]) for kind in KEYS)
    below_depth = [
        result.scores["depth"] - score for result, score in zip(results, scores, strict=True)
    ]
    return float(best - np.mean(scores)), max(below_depth)


def outcomes(sets: Mapping[str, Split]) -> Iterator[Outcome]:
    """A line for each set."""
    for name, results in trials(sets):
        short, below = shortfalls(results, [result.scores["auto"] for result in results])
        means = {
            NAMES[kind]: np.mean([result.scores[kind] for result in results]) for kind in NAMES
        }
        yield Outcome(
            f"{name}, {len(SEEDS)} seeds: "
            + ", ".join(f"{kind} {mean:.1f}" for kind, mean in means.items()),
            f"best minus auto <= {BELOW_BEST}; depth minus auto <= {BELOW_DEPTH:g} with every seed",
            f"{short:+.1f}; {below:+.1f}",
            short <= BELOW_BEST and below <= BELOW_DEPTH,
        )


def known_sets(data: Path) -> dict[str, Split]:
    """The sets that the rule is made with, and Olsson."""
    olsson: dict[str, Split] = {
        f"Olsson, {clients} clients": partial(olsson_split, data, clients=clients)
        for clients in (3, 10)
    }
    return {name: points.split for name, points in SETS.items()} | olsson


def held_out_sets() -> dict[str, Split]:
    """The sets that are first run when the rule is fixed."""
    return {name: points.split for name, points in HELD_OUT.items()}


def auto_choice(lab: Lab) -> Iterator[Outcome]:
    """Sets that the rule was made with, and Olsson."""
    yield from outcomes(known_sets(lab.data))


def auto_held_out(lab: Lab) -> Iterator[Outcome]:
    """Sets that were first run when the rule was fixed."""
    yield from outcomes(held_out_sets())


def main() -> None:
    """Print a table of the study."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--densities", action="store_true")
    options = parser.parse_args()
    sets = held_out_sets() if options.held_out else known_sets(options.data)
    if options.densities:
        print_densities(sets)
    else:
        print_scores(sets)


def print_scores(sets: Mapping[str, Split]) -> None:
    """A row for each set: mean accuracies, what is chosen how often, the most below `depth`, and
    how often a run warns."""
    print(
        "| points |",
        " | ".join(f"`{name}`" for name in NAMES.values()),
        "| chosen | below `depth` at most | warns |",
    )
    print("| --- |" + " ---: |" * len(NAMES) + " --- | ---: | ---: |", flush=True)
    for name, results in trials(sets):
        means = " | ".join(
            f"{np.mean([result.scores[kind] for result in results]):.1f}" for kind in NAMES
        )
        kinds = [NAMES[result.kind] for result in results]
        counts = ", ".join(
            f"{kind} {kinds.count(kind)}"
            for kind in sorted(set(kinds), key=kinds.count, reverse=True)
        )
        _, below = shortfalls(results, [result.scores["auto"] for result in results])
        warned = sum(result.disagreement >= DISAGREEMENT for result in results)
        print(f"| {name} | {means} | {counts} | {below:.1f} | {warned} |", flush=True)


def print_densities(sets: Mapping[str, Split]) -> None:
    """A row for each set: how far what each sample chooses lies below the best classifier, and at
    most below `depth`."""
    is_first = True
    for name, results in trials(sets, FEW_SEEDS, has_densities=True):
        if is_first:
            print(
                "| points |",
                " | ".join(results[0].by_density),
                "|\n| --- |" + " ---: |" * len(results[0].by_density),
            )
        is_first = False
        values = [
            shortfalls(results, [result.by_density[key] for result in results])
            for key in results[0].by_density
        ]
        print(
            f"| {name} |",
            " | ".join(f"{short:.1f}, {below:.1f}" for short, below in values),
            "|",
            flush=True,
        )


TABLES: tuple[Table, ...] = (auto_choice, auto_held_out)

if __name__ == "__main__":
    main()

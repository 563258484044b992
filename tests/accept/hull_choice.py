"""What `hull.classifier=auto` chooses and has on made points and on Olsson, beside every classifier by name.

    PYTHONPATH=tests python -m accept.hull_choice --data FOLDER [--held-out]

prints the tables of docs/points.md.
"""

import argparse
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np

from accept.hull_more import Table
from accept.lab import Lab, Outcome
from accept.point_sets import HELD_OUT, SETS, Floats, Integers, Labelled, Split, olsson_split
from curvfed.geometry.hull import from_klein
from curvfed.strategies.hull.bodies import Bodies, odd_clients, without
from curvfed.strategies.hull.classifier import Classifier
from curvfed.strategies.hull.codec import DecodedHulls
from curvfed.strategies.hull.grouping import group
from curvfed.strategies.hull.local import local_hulls
from curvfed.strategies.hull.naming import accuracy, name_groups
from curvfed.strategies.hull.public_parameters import PublicParameters
from curvfed.strategies.hull.train import CANDIDATES, choose, draw_points, predictions, rank, trained

SEEDS = range(10)
CAP = 8
BELOW_BEST, BELOW_DEPTH = 1.5, 3.0
"""How many points `auto` may lie below the best classifier in the mean, and below `depth` with a single seed."""

NAMES = {"auto": "auto", "plane": "multinomial", "logistic": "logistic", "lorentz": "lorentz", "depth": "depth",
         "poincare": "svm"}  # fmt: skip
POWERS = {"near the border": (0.25, 0.25), "as auto": (1 / 3, 1.0), "U^1/2": (0.5, 0.5), "U^1": (1.0, 1.0),
          "near the centre": (2.0, 2.0)}  # fmt: skip
"""Ways of drawing points along the ways from a hull's centre to its corners."""

Sample = tuple[Floats, Integers]


@dataclass(frozen=True)
class Trial:
    """One seed of one set: accuracies in percent by classifier and by the points that the choice is made with."""

    scores: dict[str, float]
    by_density: dict[str, float]
    kind: str
    disagreement: float


def bodies_of(parts: list[Labelled], classes: int, seed: int) -> Bodies:
    """The hulls that the server decodes and groups, without messages."""
    public = PublicParameters(-1.0, 0.999, 0.01, num_classes=classes, num_clients=len(parts), cap=CAP)
    hulls = DecodedHulls.of([[bins.tolist() for bins in local_hulls(*part, public).hulls] for part in parts])
    vertices = [public.quantizer.decode(bins) for bins in hulls.bins]
    groups = group(vertices, hulls.clients, classes, -1.0, "assignment", seed)
    return Bodies(vertices, groups, hulls.clients, -1.0)


def accuracy_on(test: Labelled, classifier: Classifier, classes: int) -> float:
    """Accuracy in percent, with the groups named by the test points, as in a run."""
    predicted = classifier.predict(test[0])
    return 100 * (accuracy(predicted, test[1], name_groups(predicted, test[1], classes, classes)) or 0.0)


def samples(bodies: Bodies) -> dict[str, Sample]:
    """Points, and the hull of each, on which classifiers could be compared."""
    found = {"corners": (bodies.points, bodies.hull_of), "even in the Klein model": even_in_klein(bodies)}
    for name, powers in POWERS.items():
        with mock.patch("curvfed.geometry.hull._POWERS", powers):
            found[name] = draw_points(bodies, 0)
    return found


def even_in_klein(bodies: Bodies, num: int = 40) -> Sample:
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


def trial(split: Split, seed: int) -> Trial:
    """Train every classifier by name, and what is chosen by each sample."""
    logging.getLogger("curvfed").setLevel(logging.ERROR)
    parts, test = split(seed)
    classes = 1 + max(int(labels.max()) for _, labels in [*parts, test])
    bodies = bodies_of(parts, classes, seed)
    honest = without(bodies, odd_clients(bodies))
    score = partial(accuracy_on, test, classes=classes)
    automatic, comparison = choose(honest, 0.0, seed)
    scores = {"auto": score(automatic)}
    scores |= {kind: score(trained(bodies, kind, 0.0, False, seed)) for kind in CANDIDATES}
    drawn = samples(honest)
    points, hulls = (np.concatenate(values) for values in zip(*drawn.values(), strict=True))
    groups = predictions(honest, points, hulls, 0.0, seed)
    by_density, start = {}, 0
    for name, (some, hull_of) in drawn.items():
        here = {model: predicted[start : start + len(some)] for model, predicted in groups.items()}
        start += len(some)
        best = rank(here, honest.groups[hull_of], honest.clients[hull_of]).choices[0]
        by_density[name] = score(trained(honest, best.kind, best.c, False, seed))
    return Trial(scores, by_density, automatic.kind, comparison.disagreement)


def trials(sets: Mapping[str, Split]) -> dict[str, list[Trial]]:
    """All seeds of all sets."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        started = {name: [pool.submit(trial, split, seed) for seed in SEEDS] for name, split in sets.items()}
        return {name: [one.result() for one in futures] for name, futures in started.items()}


def shortfalls(results: Sequence[Trial], scores: Sequence[float]) -> tuple[float, float]:
    """The best classifier's mean minus that of these scores, and the most by which `depth` is better with one seed."""
    best = max(np.mean([one.scores[kind] for one in results]) for kind in CANDIDATES)
    below_depth = [one.scores["depth"] - score for one, score in zip(results, scores, strict=True)]
    return float(best - np.mean(scores)), max(below_depth)


def outcomes(sets: Mapping[str, Split]) -> Iterator[Outcome]:
    """A line for each set."""
    for name, results in trials(sets).items():
        short, below = shortfalls(results, [one.scores["auto"] for one in results])
        means = {NAMES[kind]: np.mean([one.scores[kind] for one in results]) for kind in NAMES}
        yield Outcome(
            f"{name}, {len(SEEDS)} seeds: " + ", ".join(f"{kind} {mean:.1f}" for kind, mean in means.items()),
            f"best minus auto <= {BELOW_BEST}; depth minus auto <= {BELOW_DEPTH:g} with every seed",
            f"{short:+.1f}; {below:+.1f}",
            short <= BELOW_BEST and below <= BELOW_DEPTH,
        )


def known_sets(data: Path) -> dict[str, Split]:
    """The sets that the rule is made with, and Olsson."""
    olsson = {f"Olsson, {clients} clients": partial(olsson_split, data, clients=clients) for clients in (3, 10)}
    return {name: one.split for name, one in SETS.items()} | olsson


def held_out_sets() -> dict[str, Split]:
    """The sets that are first run when the rule is fixed."""
    return {name: one.split for name, one in HELD_OUT.items()}


def auto_choice(lab: Lab) -> Iterator[Outcome]:
    """Sets that the rule was made with, and Olsson."""
    yield from outcomes(known_sets(lab.data))


def auto_held_out(lab: Lab) -> Iterator[Outcome]:
    """Sets that were first run when the rule was fixed."""
    yield from outcomes(held_out_sets())


def main() -> None:
    """Print both tables of a study: accuracies, and what other points for the choice would cost."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--held-out", action="store_true")
    options = parser.parse_args()
    results = trials(held_out_sets() if options.held_out else known_sets(options.data))
    print("| points |", " | ".join(f"`{name}`" for name in NAMES.values()), "| chosen | warned |")
    print("| --- |" + " ---: |" * len(NAMES) + " --- | ---: |")
    for name, some in results.items():
        means = " | ".join(f"{np.mean([one.scores[kind] for one in some]):.1f}" for kind in NAMES)
        kinds = [NAMES[one.kind] for one in some]
        counts = ", ".join(f"{kind} {kinds.count(kind)}" for kind in sorted(set(kinds), key=kinds.count, reverse=True))
        print(f"| {name} | {means} | {counts} | {sum(one.disagreement >= 0.1 for one in some)} |")
    densities = list(next(iter(results.values()))[0].by_density)
    print("\n| points |", " | ".join(densities), "|\n| --- |" + " ---: |" * len(densities))
    for name, some in results.items():
        values = [shortfalls(some, [one.by_density[density] for one in some]) for density in densities]
        print(f"| {name} |", " | ".join(f"{short:.1f}, {below:.1f}" for short, below in values), "|")


TABLES: tuple[Table, ...] = (auto_choice, auto_held_out)

if __name__ == "__main__":
    main()

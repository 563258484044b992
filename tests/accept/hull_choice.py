"""What `hull.classifier=auto` chooses and has on made points and on Olsson, beside every classifier by name."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from accept.hull_more import Table
from accept.lab import Lab, Outcome
from accept.point_sets import HELD_OUT, SETS, Labelled, olsson_split
from curvfed.strategies.hull.bodies import Bodies, odd_clients, without
from curvfed.strategies.hull.classifier import Classifier, Kind
from curvfed.strategies.hull.codec import DecodedHulls
from curvfed.strategies.hull.grouping import group
from curvfed.strategies.hull.local import local_hulls
from curvfed.strategies.hull.naming import accuracy, name_groups
from curvfed.strategies.hull.public_parameters import PublicParameters
from curvfed.strategies.hull.train import CANDIDATES, chosen, trained

SEEDS = range(10)
CAP = 8
BELOW_BEST, BELOW_DEPTH = 1.5, 3.0
"""How many points `auto` may lie below the best classifier in the mean, and below `depth` with a single seed."""

Split = Callable[[int], tuple[list[Labelled], Labelled]]


def bodies_of(parts: list[Labelled], classes: int, seed: int) -> Bodies:
    """The hulls that the server decodes and groups, without messages."""
    public = PublicParameters(-1.0, 0.999, 0.01, num_classes=classes, num_clients=len(parts), cap=CAP)
    hulls = DecodedHulls.of([[bins.tolist() for bins in local_hulls(*part, public).hulls] for part in parts])
    vertices = [public.quantizer.decode(bins) for bins in hulls.bins]
    groups = group(vertices, hulls.clients, classes, -1.0, "assignment", seed)
    return Bodies(vertices, groups, hulls.clients, -1.0)


def test_accuracy(classifier: Classifier, test: Labelled, classes: int) -> float:
    """Accuracy in percent, with the groups named by the test points, as in a run."""
    predicted = classifier.predict(test[0])
    return 100 * (accuracy(predicted, test[1], name_groups(predicted, test[1], classes, classes)) or 0.0)


def auto_row(name: str, split: Split) -> Outcome:
    """All seeds of one set."""
    scores: dict[str, list[float]] = {kind: [] for kind in ("auto", *CANDIDATES)}
    choices: Counter[Kind] = Counter()
    for seed in SEEDS:
        parts, test = split(seed)
        classes = 1 + max(int(labels.max()) for _, labels in [*parts, test])
        bodies = bodies_of(parts, classes, seed)
        classifier, _ = chosen(without(bodies, odd_clients(bodies)), seed)
        choices[classifier.kind] += 1
        scores["auto"].append(test_accuracy(classifier, test, classes))
        for kind in CANDIDATES:
            scores[kind].append(test_accuracy(trained(bodies, kind, 0.0, False, seed), test, classes))
    means = {kind: float(np.mean(values)) for kind, values in scores.items()}
    best = max(CANDIDATES, key=means.__getitem__)
    short = means[best] - means["auto"]
    worst = float(np.max(np.array(scores["depth"]) - scores["auto"]))
    figures = ", ".join(f"{kind} {mean:.1f}" for kind, mean in means.items())
    taken = ", ".join(f"{kind} {count}" for kind, count in choices.most_common())
    return Outcome(
        f"{name}: {figures}; taken: {taken}",
        f"best minus auto <= {BELOW_BEST}; depth minus auto <= {BELOW_DEPTH:g} with every seed",
        f"{short:+.1f} ({best}); {worst:+.1f}",
        short <= BELOW_BEST and worst <= BELOW_DEPTH,
    )


def rows(sets: Mapping[str, Split]) -> Iterator[Outcome]:
    """A line for each set."""
    for name, split in sets.items():
        yield auto_row(name, split)


def auto_choice(lab: Lab) -> Iterator[Outcome]:
    """Sets that the rule was made with, and Olsson."""
    yield from rows({name: one.split for name, one in SETS.items()})
    for clients in (3, 10):
        yield auto_row(f"Olsson, {clients} clients", partial(olsson_split, lab.data, clients=clients))


def auto_held_out(lab: Lab) -> Iterator[Outcome]:
    """Sets that were first run when the rule was fixed."""
    yield from rows({name: one.split for name, one in HELD_OUT.items()})


TABLES: tuple[Table, ...] = (auto_choice, auto_held_out)

"""The server's learning from the hulls: it groups them, and trains a classifier on them (Sections
5.6 and 5.7). In a simulation it also gives the figures and the pictures of the learned hulls next
to the clients' own."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from curvfed.geometry.arrays import Array, Floats, Integers
from curvfed.strategies.hull.classifier import Classifier, Kind, accuracy, name_groups
from curvfed.strategies.hull.classifier_choice import (
    Comparison,
    calibrate,
    choose_classifier,
    draw_points,
    train_classifier,
)
from curvfed.strategies.hull.codec import DecodedHulls, PublicParameters
from curvfed.strategies.hull.grouped_hulls import (
    GroupedHulls,
    outlying_clients,
    turned_clients,
    without_clients,
)
from curvfed.strategies.hull.grouping import group_hulls
from curvfed.strategies.hull.local import LocalHulls, local_hulls
from curvfed.tasks.points import ClientPoints


@dataclass(frozen=True)
class Settings:
    """How the server learns: `hull.grouping`, `hull.classifier`, `hull.svm`, `hull.c` and the run's
    seed."""

    grouping: str = "assignment"
    kind: Kind | Literal["auto"] = "poincare"
    hard: bool = False
    c: float = 0.0
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Learned:
    """The hulls, their groups, and the classifier of groups.

    Attributes
    ----------
    hulls : DecodedHulls
    groups : int array (h,)
        The group of each hull.
    points : array (n, 2)
        The centres of all hulls' bins, one hull after another.
    classifier : Classifier
        Predicts groups.
    outlying : int array (o,)
        The outlying anonymous clients, also the turned ones.
    turned : int array (t,)
        Those with hulls that fit the others' after a rotation or reflection.
    effect : float
        Share of the points drawn within the other clients' hulls that the classifier puts in
        another group if it is trained with the outlying hulls, too.
    comparison : Comparison
        The comparison of an automatic choice; empty without one.
    """

    hulls: DecodedHulls
    groups: Integers
    points: Floats
    classifier: Classifier
    outlying: Integers
    turned: Integers
    effect: float
    comparison: Comparison = field(default_factory=Comparison)

    @property
    def num_groups(self) -> int:
        """The number of groups that the classifier tells apart."""
        return int(self.classifier.groups[-1]) + 1

    def per_vertex(self, values: Integers) -> Integers:
        """Values (h,) of the hulls, repeated for every vertex: (n,)."""
        return np.repeat(values, list(map(len, self.hulls.bins)))

    def outlying_hulls(self, names: Sequence[str]) -> str:
        """How many hulls of each group are outlying clients', in words; a missing name of a group
        is ""."""
        is_outlying = np.isin(self.hulls.clients, self.outlying)
        totals = np.bincount(self.groups, minlength=len(names))
        outliers = np.bincount(self.groups[is_outlying], minlength=len(names))
        texts = [
            f"{name or '(no name)'} {number} of {total}"
            for name, number, total in zip(names, outliers, totals, strict=True)
            if number
        ]
        return ", ".join(texts)


def learn(
    hulls: DecodedHulls,
    public: PublicParameters,
    settings: Settings,
    num_groups: int | None = None,
) -> Learned:
    """Group the decoded hulls and train on their vertices. The clients' classes are unknown here.

    An automatic choice leaves out the hulls of outlying clients; a configured kind is trained on
    all hulls, as published.

    Parameters
    ----------
    hulls : DecodedHulls
    public : PublicParameters
    settings : Settings
    num_groups : int, optional
        The number of classes that have hulls; all without it.

    Raises
    ------
    ValueError
        If there are fewer hulls than groups, or the grouping or a hard margin is not possible.
    """
    vertices = [public.quantizer.decode(bins) for bins in hulls.bins]
    groups = group_hulls(
        vertices,
        hulls.clients,
        num_groups or public.num_classes,
        public.curvature,
        settings.grouping,
        settings.seed,
    )
    bodies = GroupedHulls(vertices, groups, hulls.clients, public.curvature)
    turned = turned_clients(bodies)
    outlying = np.union1d(outlying_clients(bodies), turned)
    comparison = Comparison()
    if settings.kind == "auto":
        included = without_clients(bodies, outlying)
        classifier, comparison = choose_classifier(included, settings.c, settings.seed)
    else:
        included = bodies
        classifier = train_classifier(
            bodies, settings.kind, settings.c, settings.hard, settings.seed
        )
    effect = _effect(bodies, outlying, classifier, settings) if outlying.size else 0.0
    classifier = calibrate(classifier, included, settings.hard, settings.seed)
    return Learned(hulls, groups, bodies.points, classifier, outlying, turned, effect, comparison)


def _effect(
    bodies: GroupedHulls, outlying: Integers, classifier: Classifier, settings: Settings
) -> float:
    """`Learned.effect`, for this kind of classifier."""
    reduced = without_clients(bodies, outlying)
    points, _ = draw_points(reduced, settings.seed)
    answers = []
    for hulls in (bodies, reduced):
        model = train_classifier(hulls, classifier.kind, classifier.c, settings.hard, settings.seed)
        answers.append(model.predict(points))
    return float((answers[0] != answers[1]).mean())


def _local(client: ClientPoints, public: PublicParameters) -> LocalHulls:
    return local_hulls(client.train_points, client.train_labels, public)


def against_clients_hulls(
    learned: Learned, clients: Sequence[ClientPoints], public: PublicParameters
) -> dict[str, Any]:
    """In a simulation: whether the decoded hulls equal the clients' hulls, and the accuracy of the
    groups."""
    true_hulls = []
    for client in clients:
        hulls = _local(client, public)
        bins_of_hulls = [tuple(bins.tolist()) for bins in hulls.hulls]
        true_hulls.append(sorted(zip(bins_of_hulls, hulls.classes, strict=True)))
    # In the order of decoded hulls: sorted by bins within a client, then clients by their hulls.
    ordered = sorted(filter(None, true_hulls), key=lambda hulls: [bins for bins, _ in hulls])
    owners = np.repeat(np.arange(len(ordered)), list(map(len, ordered)))
    bins_and_classes = list(itertools.chain.from_iterable(ordered))
    decoded = [tuple(bins.tolist()) for bins in learned.hulls.bins]
    is_exact = decoded == [bins for bins, _ in bins_and_classes]
    if not is_exact or not np.array_equal(learned.hulls.clients, owners):
        return {"hulls_exact": False}
    classes = np.array([number for _, number in bins_and_classes])
    names = name_groups(learned.groups, classes, public.num_classes, public.num_classes)
    return {"hulls_exact": True, "grouping_accuracy": accuracy(learned.groups, classes, names)}


def drawn_hulls(learned: Learned, public: PublicParameters) -> dict[str, Array]:
    """The hulls and the classifier's geodesics, for the report."""
    hulls = learned.hulls
    references = learned.classifier.references
    numbers = np.arange(len(hulls.bins))
    arrays = {
        "bins": np.concatenate(hulls.bins),
        "points": learned.points,
        "client": learned.per_vertex(hulls.clients),
        "hull": learned.per_vertex(numbers),
        "group": learned.per_vertex(learned.groups),
        "references": references,
        "normals": learned.classifier.normals[: len(references)],
    }
    for name in ("curvature", "epsilon", "radius"):
        arrays[name] = np.array(getattr(public, name))
    return arrays


def drawn_true_hulls(clients: Iterable[ClientPoints], public: PublicParameters) -> dict[str, Array]:
    """The clients' hulls in a simulation, before quantisation."""
    vertices: list[Array] = []
    classes: list[int] = []
    for client in clients:
        hulls = _local(client, public)
        vertices += [public.quantizer.clamp(corners)[0] for corners in hulls.vertices]
        classes += hulls.classes
    sizes = list(map(len, vertices))
    return {
        "true_points": np.concatenate(vertices),
        "true_hull": np.repeat(np.arange(len(vertices)), sizes),
        "true_class": np.repeat(classes, sizes),
    }

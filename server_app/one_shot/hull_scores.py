"""Figures of a one-shot run. Only here the server uses labels, after the classifier is trained."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app.federation import Federation
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.hull.classifier import Kind
from curvfed.strategies.hull.learn import Learned, Settings
from curvfed.strategies.hull.local import LocalHulls, local_hulls
from curvfed.strategies.hull.naming import NONE, accuracy, name_groups
from curvfed.strategies.hull.public_parameters import PublicParameters
from curvfed.strategies.methods.hull import Keys
from curvfed.tasks.errors import DataError
from curvfed.tasks.points.client_points import ClientPoints
from curvfed.tasks.points.data import PointSpec, load_client, load_pooled, load_test, load_test_file

log = logging.getLogger("curvfed")

Arrays = dict[str, NDArray[Any]]

KINDS: Mapping[str, Kind | Literal["auto"]] = {
    "auto": "auto",
    "depth": "depth",
    "multinomial": "plane",
    "logistic": "logistic",
    "lorentz": "lorentz",
    "svm": "poincare",
}
"""The kinds of classifiers by the values of `hull.classifier`."""

SHOWN_POINTS = 4000
"""Largest number of training points that the report draws."""


@dataclass(frozen=True, eq=False)
class KnownPoints:
    """The points that the server knows, for evaluation only.

    Attributes
    ----------
    test : ClientPoints or None
        Labelled points that no client has.
    pooled : ClientPoints or None
        All points of a simulation. The points of real clients are unknown to the server.
    clients : mapping of partition to ClientPoints
        Each client's part of `pooled`, if its digest is the one that the client told.
    """

    test: ClientPoints | None
    pooled: ClientPoints | None
    clients: Mapping[int, ClientPoints]

    @classmethod
    def read(cls, spec: PointSpec, test_data: str, federation: Federation) -> "KnownPoints":
        """Read them; `test_data` is the key of that name.

        Raises
        ------
        ConfigError
            If the test data or a simulation's data cannot be read.
        """
        described = federation.descriptions
        simulated = all(about.partition_digest for about in described.values())
        test = None
        if test_data not in ("auto", "none"):
            try:
                test = load_test_file(Path(test_data), spec)
            except DataError as error:
                raise ConfigError(f'test-data = "{test_data}": {error}') from None
        elif simulated and test_data == "auto":
            test = load_test(spec)
        else:
            log.info("global accuracy: none, because the server has no test data (test-data)")
        if not simulated:
            return cls(test, None, {})
        try:
            read = {p: load_client(spec, p, about.num_partitions) for p, about in described.items()}
            pooled = load_pooled(spec)
        except DataError as error:
            raise ConfigError(str(error)) from None
        parts = {
            partition: part
            for partition, part in read.items()
            if part.digest == described[partition].digest
        }
        if others := ", ".join(str(partition) for partition in read if partition not in parts):
            log.warning(
                "the points here are not those of partition-id %s: these are compared with nothing",
                others,
            )
        if not parts:
            return cls(test, None, {})
        return cls(_renumbered(test, pooled.class_names) if test else None, pooled, parts)


def _renumbered(test: ClientPoints, names: tuple[str, ...]) -> ClientPoints:
    """Test points with the clients' class numbers. Classes that no client has come last."""
    all_names = tuple(dict.fromkeys((*names, *test.class_names)))
    numbers = np.array([all_names.index(name) for name in test.class_names], np.int64)
    return replace(test, labels=numbers[test.labels], class_names=all_names)


@dataclass(frozen=True, eq=False)
class Scores:
    """Figures, and the names of the groups.

    Attributes
    ----------
    accuracy : float or None
        On the server's test points.
    metrics : dict
    predicted : int array (t,)
        Class of each test point; -1 for a group without a name.
    group_names : tuple of str
        "" for an unknown name.
    """

    accuracy: float | None
    metrics: dict[str, Any]
    predicted: NDArray[np.int64]
    group_names: tuple[str, ...]


def scores(
    learned: Learned,
    known: KnownPoints,
    summed: Sequence[int],
    public: PublicParameters,
    keys: Keys,
    seed: int,
) -> Scores:
    """All figures of the hulls and the classifier.

    Parameters
    ----------
    summed : sequence of int
        The partitions whose vectors are in the sum.
    """
    sizes = [len(bins) for bins in learned.hulls.bins]
    metrics: dict[str, Any] = {
        "hull_vertices_mean": float(np.mean(sizes)),
        "hull_vertices_max": max(sizes),
        "hull_count": len(sizes),
        "hull_groups": len(np.unique(learned.groups)),
        "hull_bins": public.quantizer.num_bins,
        "hull_prime": public.prime,
        "hull_symbols": public.length,
        "hull_epsilon": public.epsilon,
        "svm_c": (
            learned.classifier.c
            if np.isfinite(learned.classifier.c) or keys.svm == "hard"
            else None
        ),
        "classifier": learned.classifier.kind,
        "classifier_temperature": learned.classifier.temperature,
        "clients_odd": len(learned.outlying),
    }
    if learned.comparison.choices:
        metrics |= {
            f"left_out_{choice.kind}": choice.share for choice in learned.comparison.choices
        }
        metrics["classifiers_disagree"] = learned.comparison.disagreement
    if known.clients.keys() >= set(summed) and known.clients:
        metrics |= _against_clients_hulls(
            learned, [known.clients[partition] for partition in summed], public
        )
    if known.test is None:
        return Scores(None, metrics, np.zeros(0, np.int64), ("",) * public.num_classes)
    points = known.test.points
    labels = known.test.labels
    classes = known.test.class_names
    predicted = learned.classifier.predict(points)
    if len(points):
        metrics["confidence"] = float(learned.classifier.probabilities(points).max(axis=1).mean())
        metrics["unknown"] = float(learned.classifier.unknown(points).mean())
    names = name_groups(predicted, labels, public.num_classes, len(classes))
    return Scores(
        accuracy(predicted, labels, names),
        metrics,
        names[predicted],
        tuple("" if one == NONE else classes[one] for one in names),
    )


def learn_settings(keys: Keys, seed: int) -> Settings:
    """How the server learns from hulls."""
    return Settings(keys.grouping, KINDS[keys.classifier], keys.svm == "hard", keys.c or 0.0, seed)


def _against_clients_hulls(
    learned: Learned, clients: Sequence[ClientPoints], public: PublicParameters
) -> dict[str, Any]:
    """In a simulation: are the decoded hulls those of the clients, and are the hulls of a class in
    the same group?"""
    of_client = []
    for client in clients:
        mine = _local(client, public)
        of_client.append(
            sorted(zip([tuple(bins.tolist()) for bins in mine.hulls], mine.classes, strict=True))
        )
    # Sorted as decoded hulls are: by bins, within a client and then clients by their hulls.
    true = sorted(
        (hulls for hulls in of_client if hulls), key=lambda hulls: [bins for bins, _ in hulls]
    )
    owners = np.repeat(np.arange(len(true)), [len(hulls) for hulls in true])
    true_bins = [bins for hulls in true for bins, _ in hulls]
    decoded = [tuple(bins.tolist()) for bins in learned.hulls.bins]
    if decoded != true_bins or not np.array_equal(learned.hulls.clients, owners):
        return {"hulls_exact": False}
    classes = np.array([one for hulls in true for _, one in hulls])
    names = name_groups(learned.groups, classes, public.num_classes, public.num_classes)
    return {"hulls_exact": True, "grouping_accuracy": accuracy(learned.groups, classes, names)}


def _local(client: ClientPoints, public: PublicParameters) -> LocalHulls:
    return local_hulls(client.train_points, client.train_labels, public)


def hull_arrays(
    learned: Learned, known: KnownPoints, found: Scores, public: PublicParameters
) -> Arrays:
    """The content of `hulls.npz`: the hulls and the classifier; in a simulation also the clients'
    points and hulls."""
    arrays: Arrays = {
        "bins": np.concatenate(learned.hulls.bins),
        "points": learned.points,
        "client": learned.per_vertex(learned.hulls.clients),
        "hull": learned.per_vertex(np.arange(len(learned.hulls.bins))),
        "group": learned.per_vertex(learned.groups),
        "references": learned.classifier.references,
        "normals": learned.classifier.normals[: len(learned.classifier.references)],
        "curvature": np.array(public.curvature),
        "epsilon": np.array(public.epsilon),
        "radius": np.array(public.radius),
        "names": np.array(found.group_names),
    } | point_arrays(known, found.predicted)
    if known.pooled is not None:
        hulls = [_local(client, public) for client in known.clients.values()]
        vertices = [corners for mine in hulls for corners in mine.vertices]
        classes = [one for mine in hulls for one in mine.classes]
        sizes = list(map(len, vertices))
        arrays |= {
            "true_points": np.concatenate(vertices),
            "true_hull": np.repeat(np.arange(len(vertices)), sizes),
            "true_class": np.repeat(classes, sizes),
        }
    return arrays


def point_arrays(known: KnownPoints, predicted: NDArray[np.int64]) -> Arrays:
    """What `hulls.npz` has of the points that the server knows, with the class predicted for each
    test point."""
    arrays: Arrays = {}
    if known.test is not None:
        arrays |= {
            "class_names": np.array(known.test.class_names),
            "test_points": known.test.points[:SHOWN_POINTS],
            "test_labels": known.test.labels[:SHOWN_POINTS],
            "test_predicted": predicted[:SHOWN_POINTS],
        }
    if known.pooled is not None:
        points = known.pooled.train_points
        labels = known.pooled.train_labels
        shown = np.random.default_rng(0).permutation(len(points))[:SHOWN_POINTS]
        arrays |= {
            "class_names": np.array((known.test or known.pooled).class_names),
            "sample_points": points[shown],
            "sample_labels": labels[shown],
        }
    return arrays

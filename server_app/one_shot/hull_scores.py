"""Figures of a one-shot run. The server uses labels only here, after it has trained the
classifier."""

import itertools
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
from curvfed.strategies.hull.classifier_choice import KEYS
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
    **{key: kind for kind, key in KEYS.items()},
}
"""The kinds of classifiers by the values of `hull.classifier`."""

MAX_DRAWN_POINTS = 4000
"""Maximum number of points of a kind in the report's pictures."""


@dataclass(frozen=True, eq=False)
class ServerPoints:
    """The points that the server has, for evaluation only.

    Attributes
    ----------
    test : ClientPoints or None
        Labelled points that no client has.
    pooled : ClientPoints or None
        All points of a simulation; None for real clients, whose points stay with them.
    clients : mapping of partition to ClientPoints
        Each client's part of `pooled`, if the client reported the same digest.
    """

    test: ClientPoints | None
    pooled: ClientPoints | None
    clients: Mapping[int, ClientPoints]

    @classmethod
    def read(cls, spec: PointSpec, test_data: str, federation: Federation) -> "ServerPoints":
        """Read the points; `test_data` is the key of that name.

        Raises
        ------
        ConfigError
            If the test data or a simulation's data cannot be read.
        """
        described = federation.descriptions
        simulated = all(description.partition_digest for description in described.values())
        test = None
        if test_data not in ("auto", "none"):
            try:
                test = load_test_file(Path(test_data), spec)
            except DataError as error:
                raise ConfigError(f'test-data = "{test_data}": {error}', key="data") from None
        elif simulated and test_data == "auto":
            test = load_test(spec)
        else:
            log.info("no global accuracy: the server has no test data (test-data)")
        if not simulated:
            return cls(test, None, {})
        try:
            parts = {
                partition: load_client(spec, partition, description.num_partitions)
                for partition, description in described.items()
            }
            pooled = load_pooled(spec)
        except DataError as error:
            raise ConfigError(str(error), key="data") from None
        same = {
            partition: points
            for partition, points in parts.items()
            if points.digest == described[partition].digest
        }
        if changed := ", ".join(str(partition) for partition in parts if partition not in same):
            log.warning(
                "the server's points differ from those of partition-id %s: their hulls are not"
                " compared",
                changed,
            )
        if not same:
            return cls(test, None, {})
        return cls(_renumbered(test, pooled.class_names) if test else None, pooled, same)


def _renumbered(test: ClientPoints, names: tuple[str, ...]) -> ClientPoints:
    """Test points with the clients' class numbers; classes that no client has come last."""
    all_names = tuple(dict.fromkeys((*names, *test.class_names)))
    numbers = np.array([all_names.index(name) for name in test.class_names], np.int64)
    return replace(test, labels=numbers[test.labels], class_names=all_names)


@dataclass(frozen=True, eq=False)
class Scores:
    """Figures of a classifier, and the names of the groups.

    Attributes
    ----------
    accuracy : float or None
        On the server's test points.
    metrics : dict
    predicted : int array (t,)
        Class of each test point; -1 in a group without a name.
    group_names : tuple of str
        "" without a name.
    """

    accuracy: float | None
    metrics: dict[str, Any]
    predicted: NDArray[np.int64]
    group_names: tuple[str, ...]


def scores(
    model: Learned,
    server_points: ServerPoints,
    summed: Sequence[int],
    public: PublicParameters,
    keys: Keys,
    seed: int,
) -> Scores:
    """All figures of the hulls and the classifier.

    Parameters
    ----------
    summed : sequence of int
        The partitions in the sum.
    """
    sizes = [len(bins) for bins in model.hulls.bins]
    metrics: dict[str, Any] = {
        "hull_vertices_mean": float(np.mean(sizes)),
        "hull_vertices_max": max(sizes),
        "hull_count": len(sizes),
        "hull_groups": len(np.unique(model.groups)),
        "hull_bins": public.quantizer.num_bins,
        "hull_prime": public.prime,
        "hull_symbols": public.length,
        "hull_epsilon": public.epsilon,
        "svm_c": (
            model.classifier.c if np.isfinite(model.classifier.c) or keys.svm == "hard" else None
        ),
        "classifier": model.classifier.kind,
        "classifier_temperature": model.classifier.temperature,
        "clients_odd": len(model.outlying),
    }
    if model.comparison.choices:
        metrics |= {f"left_out_{choice.kind}": choice.share for choice in model.comparison.choices}
        metrics["classifiers_disagree"] = model.comparison.disagreement
    if server_points.clients.keys() >= set(summed) and server_points.clients:
        metrics |= _against_clients_hulls(
            model, [server_points.clients[partition] for partition in summed], public
        )
    if server_points.test is None:
        return Scores(None, metrics, np.zeros(0, np.int64), ("",) * public.num_classes)
    points = server_points.test.points
    labels = server_points.test.labels
    classes = server_points.test.class_names
    predicted = model.classifier.predict(points)
    if len(points):
        metrics["confidence"] = float(model.classifier.probabilities(points).max(axis=1).mean())
        metrics["unknown"] = float(model.classifier.unknown(points).mean())
    names = name_groups(predicted, labels, public.num_classes, len(classes))
    return Scores(
        accuracy(predicted, labels, names),
        metrics,
        names[predicted],
        tuple("" if number == NONE else classes[number] for number in names),
    )


def learn_settings(keys: Keys, seed: int) -> Settings:
    """The settings of the server's learning from hulls."""
    return Settings(keys.grouping, KINDS[keys.classifier], keys.svm == "hard", keys.c or 0.0, seed)


def _against_clients_hulls(
    model: Learned, clients: Sequence[ClientPoints], public: PublicParameters
) -> dict[str, Any]:
    """In a simulation: whether the decoded hulls equal the clients' hulls, and the accuracy of the
    groups."""
    clients_hulls = []
    for client in clients:
        hulls = _local(client, public)
        bins_of_hulls = [tuple(bins.tolist()) for bins in hulls.hulls]
        clients_hulls.append(sorted(zip(bins_of_hulls, hulls.classes, strict=True)))
    # In the order of decoded hulls: sorted by bins within a client, then clients by their hulls.
    true_hulls = sorted(
        (hulls for hulls in clients_hulls if hulls), key=lambda hulls: [bins for bins, _ in hulls]
    )
    owners = np.repeat(np.arange(len(true_hulls)), [len(hulls) for hulls in true_hulls])
    bins_and_classes = list(itertools.chain.from_iterable(true_hulls))
    true_bins = [bins for bins, _ in bins_and_classes]
    decoded = [tuple(bins.tolist()) for bins in model.hulls.bins]
    if decoded != true_bins or not np.array_equal(model.hulls.clients, owners):
        return {"hulls_exact": False}
    classes = np.array([number for _, number in bins_and_classes])
    names = name_groups(model.groups, classes, public.num_classes, public.num_classes)
    return {"hulls_exact": True, "grouping_accuracy": accuracy(model.groups, classes, names)}


def _local(client: ClientPoints, public: PublicParameters) -> LocalHulls:
    return local_hulls(client.train_points, client.train_labels, public)


def hull_arrays(
    model: Learned, server_points: ServerPoints, scores: Scores, public: PublicParameters
) -> Arrays:
    """The content of `hulls.npz`: the hulls and the classifier; in a simulation also the clients'
    points and hulls."""
    arrays: Arrays = {
        "bins": np.concatenate(model.hulls.bins),
        "points": model.points,
        "client": model.per_vertex(model.hulls.clients),
        "hull": model.per_vertex(np.arange(len(model.hulls.bins))),
        "group": model.per_vertex(model.groups),
        "references": model.classifier.references,
        "normals": model.classifier.normals[: len(model.classifier.references)],
        "curvature": np.array(public.curvature),
        "epsilon": np.array(public.epsilon),
        "radius": np.array(public.radius),
        "names": np.array(scores.group_names),
    } | point_arrays(server_points, scores.predicted)
    if server_points.pooled is not None:
        hulls = [_local(client, public) for client in server_points.clients.values()]
        vertices: list[NDArray[Any]] = []
        classes: list[int] = []
        for client_hulls in hulls:
            vertices += client_hulls.vertices
            classes += list(client_hulls.classes)
        sizes = list(map(len, vertices))
        arrays |= {
            "true_points": np.concatenate(vertices),
            "true_hull": np.repeat(np.arange(len(vertices)), sizes),
            "true_class": np.repeat(classes, sizes),
        }
    return arrays


def point_arrays(server_points: ServerPoints, predicted: NDArray[np.int64]) -> Arrays:
    """The server's points in `hulls.npz`, with the predicted class of each test point."""
    arrays: Arrays = {}
    if server_points.test is not None:
        arrays |= {
            "class_names": np.array(server_points.test.class_names),
            "test_points": server_points.test.points[:MAX_DRAWN_POINTS],
            "test_labels": server_points.test.labels[:MAX_DRAWN_POINTS],
            "test_predicted": predicted[:MAX_DRAWN_POINTS],
        }
    if server_points.pooled is not None:
        points = server_points.pooled.train_points
        labels = server_points.pooled.train_labels
        shown = np.random.default_rng(0).permutation(len(points))[:MAX_DRAWN_POINTS]
        arrays |= {
            "class_names": np.array((server_points.test or server_points.pooled).class_names),
            "sample_points": points[shown],
            "sample_labels": labels[shown],
        }
    return arrays

"""Figures of a one-shot run. Labels are seen here alone, after the classifier is trained."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app.federation import Federation
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.point_data import point_spec, public
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.hull import baselines
from curvfed.strategies.hull.classifier import Kind
from curvfed.strategies.hull.learn import Learned, Settings
from curvfed.strategies.hull.local import LocalHulls, local_hulls
from curvfed.strategies.hull.naming import NONE, accuracy, name_groups
from curvfed.strategies.hull.public import Public
from curvfed.strategies.hull.trial import trial
from curvfed.tasks.errors import DataError
from curvfed.tasks.points.client_points import ClientPoints
from curvfed.tasks.points.data import load_client, load_pooled, load_test, load_test_file

log = logging.getLogger("curvfed")

Arrays = dict[str, NDArray[Any]]

SHOWN_POINTS = 4000
"""Training points that the report draws."""


@dataclass(frozen=True, eq=False)
class Known:
    """What the server has besides the hulls.

    Attributes
    ----------
    test : ClientPoints or None
        Labelled points that no client has.
    pooled : ClientPoints or None
        All points of a simulation; real clients' points are nowhere but with them.
    clients : mapping of partition to ClientPoints
        The clients' parts of it; without those whose digest is not the one that the client told.
    """

    test: ClientPoints | None
    pooled: ClientPoints | None
    clients: Mapping[int, ClientPoints]

    @classmethod
    def of(cls, config: RunConfig, federation: Federation) -> "Known":
        """Read it; `config` is settled.

        Raises
        ------
        ConfigError
            If the test data or a simulation's are not to be had.
        """
        spec = point_spec(config)
        simulated = all(about.partition_digest for about in federation.descriptions.values())
        test = None
        if config.test_data not in ("auto", "none"):
            try:
                test = load_test_file(Path(config.test_data), spec)
            except DataError as error:
                raise ConfigError(f'test-data = "{config.test_data}": {error}') from None
        elif simulated and config.test_data == "auto":
            test = load_test(spec)
        else:
            log.info("global accuracy: none, for the server has no test data (test-data)")
        if not simulated:
            return cls(test, None, {})
        described = federation.descriptions
        try:
            read = {p: load_client(spec, p, about.num_partitions) for p, about in described.items()}
            pooled = load_pooled(spec)
        except DataError as error:
            raise ConfigError(str(error)) from None
        parts = {partition: part for partition, part in read.items() if part.digest == described[partition].digest}
        if others := ", ".join(str(partition) for partition in read if partition not in parts):
            log.warning("the points here are not those of partition-id %s: these are compared with nothing", others)
        if not parts:
            return cls(test, None, {})
        return cls(_renamed(test, pooled.class_names) if test else None, pooled, parts)


def _renamed(test: ClientPoints, names: tuple[str, ...]) -> ClientPoints:
    """Test points whose classes are numbered as the clients' are; others come after them."""
    every = tuple(dict.fromkeys((*names, *test.class_names)))
    numbers = np.array([every.index(name) for name in test.class_names], np.int64)
    return replace(test, labels=numbers[test.labels], class_names=every)


@dataclass(frozen=True, eq=False)
class Found:
    """Figures, and what the groups are called.

    Attributes
    ----------
    accuracy : float or None
        On the server's test points.
    metrics : dict
    predicted : int array (t,)
        Class of each test point; -1 for a group without a name.
    group_names : tuple of str
        "" where it is not known.
    """

    accuracy: float | None
    metrics: dict[str, Any]
    predicted: NDArray[np.int64]
    group_names: tuple[str, ...]


def scores(learned: Learned, known: Known, summed: Sequence[int], public_values: Public, config: RunConfig) -> Found:
    """Everything that the summary tells of the hulls, of the classifier and of what it is compared with.

    `summed` are the partitions whose vectors are in the sum.
    """
    groups = public_values.num_classes
    sizes = np.unique(learned.hulls, return_counts=True)[1]
    metrics: dict[str, Any] = {
        "hull_vertices_mean": float(sizes.mean()),
        "hull_vertices_max": int(sizes.max()),
        "hull_count": len(sizes),
        "hull_groups": len(np.unique(learned.groups)),
        "hull_bins": public_values.quantizer.num_bins,
        "hull_prime": public_values.prime,
        "hull_symbols": public_values.length,
        "hull_epsilon": public_values.epsilon,
        "svm_c": learned.classifier.c,
    }
    if known.clients.keys() >= set(summed) and known.clients:
        metrics |= _against_the_truth(learned, known, summed, public_values)
    if known.test is None:
        return Found(None, metrics, np.zeros(0, np.int64), ("",) * groups)
    points, labels, classes = known.test.points, known.test.labels, known.test.class_names
    predicted = learned.classifier.predict(points)
    names = name_groups(predicted, labels, groups, len(classes))
    for name in baselines.chosen(config.hull.baselines):
        if name in baselines.CENTRALISED and known.pooled is None:
            log.warning("hull.baselines: %s needs all points in one place, which only a simulation has", name)
        else:
            score = _baseline(name, learned, known, names, public_values.curvature, learn_settings(config))
            metrics[f"accuracy_{name.replace('-', '_')}"] = score
    return Found(
        accuracy(predicted, labels, names),
        metrics,
        names[predicted],
        tuple("" if one == NONE else classes[one] for one in names),
    )


def _baseline(
    name: str, learned: Learned, known: Known, names: NDArray[np.int64], curvature: float, settings: Settings
) -> float | None:
    """Accuracy on the test points; None where it cannot be trained, as with a hard margin: a run goes on without."""
    assert known.test is not None
    points, labels = known.test.points, known.test.labels
    try:
        if known.pooled is None or name == baselines.FEDERATED:
            return accuracy(baselines.federated(learned, curvature, settings).predict(points), labels, names)
        everything = known.pooled.train_points, known.pooled.train_labels
        return float((baselines.centralised(name, *everything, curvature, settings)(points) == labels).mean())
    except ValueError as error:
        log.warning("hull.baselines: nothing for %s: %s", name, error)
        return None


def learn_settings(config: RunConfig) -> Settings:
    """How the server learns from hulls."""
    keys = config.hull
    kind: Kind = "poincare" if keys.classifier == "svm" else "logistic"
    return Settings(keys.grouping, kind, keys.svm == "hard", keys.c or 0.0, config.seed)


def _against_the_truth(learned: Learned, known: Known, summed: Sequence[int], public_values: Public) -> dict[str, Any]:
    """In a simulation: are the hulls those that the clients have, and are those of one class in one group?"""
    of_client = [
        sorted(zip(map(tuple, (bins.tolist() for bins in mine.hulls)), mine.classes, strict=True))
        for mine in (_local(known.clients[partition], public_values) for partition in summed)
    ]
    # In the order that decoding gives: by what the hulls are, within a client and then clients among each other.
    true = sorted((hulls for hulls in of_client if hulls), key=lambda hulls: [bins for bins, _ in hulls])
    order = np.argsort(learned.hulls, kind="stable")
    starts = np.unique(learned.hulls[order], return_index=True)[1]
    decoded = [tuple(bins.tolist()) for bins in np.split(learned.bins[order], starts[1:])]
    owners, groups = learned.clients[order][starts], learned.groups[order][starts]
    exact = [[decoded[i] for i in np.flatnonzero(owners == one)] for one in np.unique(owners)] == [
        [bins for bins, _ in hulls] for hulls in true
    ]
    if not exact:
        return {"hulls_exact": False}
    classes = np.array([one for hulls in true for _, one in hulls])
    names = name_groups(groups, classes, public_values.num_classes, public_values.num_classes)
    return {"hulls_exact": True, "grouping_accuracy": accuracy(groups, classes, names)}


def _local(one: ClientPoints, public_values: Public) -> LocalHulls:
    return local_hulls(one.train_points, one.train_labels, public_values)


def hull_arrays(learned: Learned, known: Known, found: Found, public_values: Public) -> Arrays:
    """What `hulls.npz` holds: the hulls, the classifier's hyperplanes, and in a simulation what they are of."""
    arrays: Arrays = {
        "bins": learned.bins,
        "points": learned.points,
        "client": learned.clients,
        "hull": learned.hulls,
        "group": learned.groups,
        "references": learned.classifier.references,
        "normals": learned.classifier.normals[: len(learned.classifier.references)],
        "curvature": np.array(public_values.curvature),
        "epsilon": np.array(public_values.epsilon),
        "radius": np.array(public_values.radius),
        "names": np.array(found.group_names),
    }
    if known.test is not None:
        arrays |= {
            "class_names": np.array(known.test.class_names),
            "test_points": known.test.points[:SHOWN_POINTS],
            "test_labels": known.test.labels[:SHOWN_POINTS],
            "test_predicted": found.predicted[:SHOWN_POINTS],
        }
    if known.pooled is not None:
        points, labels = known.pooled.train_points, known.pooled.train_labels
        shown = np.random.default_rng(0).permutation(len(points))[:SHOWN_POINTS]
        locals_ = [_local(one, public_values) for one in known.clients.values()]
        true = [(v, one) for mine in locals_ for v, one in zip(mine.vertices, mine.classes)]
        sizes = [len(vertices) for vertices, _ in true]
        arrays |= {
            "class_names": np.array((known.test or known.pooled).class_names),
            "sample_points": points[shown],
            "sample_labels": labels[shown],
            "true_points": np.concatenate([vertices for vertices, _ in true]),
            "true_hull": np.repeat(np.arange(len(true)), sizes),
            "true_class": np.repeat([one for _, one in true], sizes),
        }
    return arrays


def sweep(known: Known, config: RunConfig) -> Arrays:
    """The protocol again at other epsilons, in this process; nothing where the clients' points are not here."""
    if known.test is None or known.pooled is None:
        log.warning("hull.sweep: other epsilons can be tried in a simulation with test points alone")
        return {}
    epsilons = config.hull.epsilons
    rows = [_at(epsilon, known, config) for epsilon in epsilons]
    names = ("sweep_flp", "sweep_fle", "sweep_vertices_mean", "sweep_vertices_max", "sweep_share")
    return {"sweep_epsilon": np.array(epsilons)} | {
        name: np.array(column, dtype=np.float64) for name, column in zip(names, zip(*rows), strict=True)
    }


def _at(epsilon: float, known: Known, config: RunConfig) -> Sequence[float]:
    assert known.test is not None
    assert known.pooled is not None
    settings = learn_settings(config)
    test = (known.test.points, known.test.labels)
    try:
        values = public(config, len(known.pooled.class_names), len(known.clients), epsilon)
        run = trial([(one.train_points, one.train_labels) for one in known.clients.values()], test, values, settings)
    except ValueError as error:
        log.warning("hull.sweep: nothing at epsilon = %g: %s", epsilon, error)
        return (np.nan,) * 5
    sizes = [len(bins) for mine in run.locals for bins in mine.hulls]
    revealed, points = sum(mine.num_revealed for mine in run.locals), sum(mine.num_points for mine in run.locals)
    federated = _baseline(baselines.FEDERATED, run.learned, known, run.names, values.curvature, settings)
    log.info("sweep: epsilon = %g: accuracy %.4f, %.1f vertices per hull", epsilon, run.accuracy, np.mean(sizes))
    federated = np.nan if federated is None else federated
    return (run.accuracy or 0.0, federated, float(np.mean(sizes)), float(max(sizes)), revealed / points)

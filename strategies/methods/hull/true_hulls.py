"""Decoded hulls beside the clients' own, which the server knows in a simulation; for the figures
and the pictures of a run."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.hull.classifier import accuracy, name_groups
from curvfed.strategies.hull.codec import PublicParameters
from curvfed.strategies.hull.learn import Learned
from curvfed.strategies.hull.local import LocalHulls, local_hulls
from curvfed.tasks.points.client_points import ClientPoints


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


def drawn_hulls(learned: Learned, public: PublicParameters) -> Arrays:
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


def drawn_true_hulls(clients: Iterable[ClientPoints], public: PublicParameters) -> Arrays:
    """The clients' hulls in a simulation, before quantisation."""
    vertices: list[NDArray[Any]] = []
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

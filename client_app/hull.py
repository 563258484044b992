"""The client's half of the one-shot protocol: its hulls, measured, masked, and the classifier scored on its points."""

import logging
from typing import Any

import numpy as np
from flwr.app import RecordDict

from curvfed.client_app.client import Client
from curvfed.client_app.node_config import max_share
from curvfed.client_app.secure import end, masked, receive_shares
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.point_data import public
from curvfed.strategies.hull.classifier import Classifier
from curvfed.strategies.hull.codec import encode_hulls
from curvfed.strategies.hull.local import LocalHulls, local_hulls
from curvfed.strategies.hull.naming import accuracy, name_groups
from curvfed.strategies.hull.order import draw_slots, position
from curvfed.strategies.hull.public import Public
from curvfed.strategies.wire.arrays import MessageError, decode_arrays
from curvfed.strategies.wire.messages import Facts, Request
from curvfed.tasks.errors import DataError
from curvfed.tasks.points.client_points import ClientPoints

log = logging.getLogger("curvfed")


def measure(client: Client, request: Request, state: RecordDict) -> dict[str, Any]:
    """Say, here and before anything is sent, how many points would leave; in a simulation the server is told too."""
    settings = _agreed(client, request)
    found = _hulls(client, settings)
    log.info(
        "partition %d: %d of %d training points (%.1f%%) are vertices of hulls and would leave this client, each as the "
        "bin of a grid with epsilon = %g that it lies in; the largest hull has %d",
        client.partition, found.num_revealed, found.num_points, 100 * found.share_revealed, settings.epsilon, found.largest,
    )  # fmt: skip
    if found.moved:
        log.warning(
            "partition %d: %d points lie beyond the public radius and were moved onto it (hull.radius)",
            client.partition,
            found.moved,
        )
    if found.thinned:
        log.warning(
            "partition %d: %d vertices are left out, for a hull may have %d (hull.cap)",
            client.partition,
            found.thinned,
            settings.cap,
        )
    _check_share(client, found, settings)
    if client.owns_data:  # by sizes of hulls the server could tell whose the decoded ones are
        return {}
    figures = {
        "points": found.num_points, "revealed": found.num_revealed, "vertices": found.largest, "moved": found.moved,
        "thinned": found.thinned,
    }  # fmt: skip
    return {"metrics": {name: float(value) for name, value in figures.items()}}


def hulls(client: Client, request: Request, state: RecordDict) -> dict[str, Any]:
    """The client's hulls under their labels, as symbols, under its masks."""
    member, notes = receive_shares(request, state)
    settings = _of(client, request.facts, len(member.session.clients))
    if (member.session.modulus, member.session.length) != (settings.prime, settings.length):
        raise MessageError("the sum is not of vectors as this client's configuration makes them")
    found = _hulls(client, settings)
    _check_share(client, found, settings)
    vector = encode_hulls(
        found.hulls,
        position(notes, client.partition),
        draw_slots(settings.num_classes, len(found.hulls)),
        settings,
    )
    return masked(client, member, vector, state)


def evaluate(client: Client, request: Request, state: RecordDict) -> dict[str, Any]:
    """Score the classifier on this client's test points; its groups are named by this client's own training points."""
    end(client, state)
    data = _points(client)
    try:
        classifier = Classifier.from_arrays(decode_arrays(request.arrays))
    except (KeyError, ValueError) as error:
        raise MessageError(f"the classifier cannot be read ({type(error).__name__})") from None
    if not len(data.test_labels) or not len(data.train_labels):
        return {}
    groups, classes = len(classifier.groups), len(data.class_names)
    names = name_groups(classifier.predict(data.train_points), data.train_labels, groups, classes)
    score = accuracy(classifier.predict(data.test_points), data.test_labels, names)
    return {"metrics": {"test": score}} if score is not None else {}


def _points(client: Client) -> ClientPoints:
    if not isinstance(client.data, ClientPoints):
        raise DataError("the data are no points in a disc")
    return client.data


def _agreed(client: Client, request: Request) -> Public:
    """The public values by this client's own reckoning, which must be the server's."""
    clients = request.parts.get("clients")
    if type(clients) is not int:
        raise MessageError('"clients" is no whole number')
    settings = _of(client, request.facts, clients)
    if request.parts.get("digest") != settings.digest:
        raise MessageError("the public values of the server are not those of this client's configuration")
    return settings


def _of(client: Client, facts: Facts | None, num_clients: int) -> Public:
    if facts is None:
        raise MessageError('the record "facts" is absent')
    try:
        return public(client.config, len(facts.class_names), num_clients)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _check_share(client: Client, found: LocalHulls, settings: Public) -> None:
    """Refuse to send more than the node's own configuration allows, whatever the server asks first."""
    limit = max_share(client.node_config)
    if found.share_revealed > limit:
        raise ConfigError(
            f"this node's hull-max-share is {limit:g}, and more of its points would leave it at epsilon = "
            f"{settings.epsilon:g}"
        )


def _hulls(client: Client, settings: Public) -> LocalHulls:
    data = _points(client)
    labels = data.train_labels
    if client.config.hull.switch_labels and not client.owns_data:
        generator = np.random.default_rng([client.config.seed, client.partition, 0x5A17C4])
        labels = generator.permutation(len(data.class_names))[labels]
    try:
        return local_hulls(data.train_points, labels, settings)
    except ValueError as error:
        raise DataError(str(error)) from None

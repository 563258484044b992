"""The client's replies in a one-shot run: how much it would reveal, its masked hulls, its score of
the classifier."""

import logging
from dataclasses import replace
from typing import Any

import numpy as np
from flwr.app import RecordDict

from curvfed.client_app.client import Client
from curvfed.client_app.masked_replies import figures
from curvfed.client_app.node.configuration import max_share
from curvfed.client_app.node.data_digest import keyed
from curvfed.client_app.node.inputs import Inputs
from curvfed.client_app.secure import end, masked, member_of, open_letters
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.point_data import public_parameters
from curvfed.strategies.hull.classifier import Classifier
from curvfed.strategies.hull.codec import encode_hulls
from curvfed.strategies.hull.local import LocalHulls, local_hulls
from curvfed.strategies.hull.naming import FALLEN, VOTES, accuracy, name_groups, votes_of
from curvfed.strategies.hull.order import draw_slots, position
from curvfed.strategies.hull.public_parameters import PublicParameters
from curvfed.strategies.wire.arrays import MessageError, decode_arrays
from curvfed.strategies.wire.messages import Request
from curvfed.tasks.errors import DataError
from curvfed.tasks.points.client_points import ClientPoints

log = logging.getLogger("curvfed")

FEW = 10
SHORT = 0.2
"""Test points from which on a client compares the classifier with a model of its own, and the
difference that it tells."""

MUCH = 0.1
"""A client warns if a larger share of its points would leave it."""


def measure(client: Client, request: Request, state: RecordDict) -> dict[str, Any]:
    """Log how many points would leave this client, before anything is sent. A simulated client also
    tells the server."""
    clients = request.parts.get("clients")
    if type(clients) is not int:
        raise MessageError('"clients" is not a whole number')
    public = _public_parameters(client, request, clients)
    if request.parts.get("digest") != public.digest:
        raise MessageError(
            "the server's public parameters differ from those of this client's configuration"
        )
    found = _hulls(client, public)
    log.info(
        "partition %d: %d of %d training points (%.1f%%) are vertices of hulls and would leave this"
        " client, each as the bin of a grid with epsilon = %g that it lies in; the largest hull"
        " has %d",
        client.partition,
        found.num_revealed,
        found.num_points,
        100 * found.share_revealed,
        public.epsilon,
        found.largest,
    )
    if client.owns_data:
        names = _points(client).class_names
        sizes = np.bincount(_points(client).train_labels)
        shares = (
            f"{names[one]} {len(hull)} of {sizes[one]}"
            for hull, one in zip(found.hulls, found.classes, strict=True)
        )
        log.info("partition %d, by class: %s", client.partition, ", ".join(shares) or "none")
    if found.share_revealed > MUCH:
        log.warning(
            "partition %d: %.0f%% of its training points would leave it; %s",
            client.partition,
            100 * found.share_revealed,
            _proposal(client, public),
        )
    if found.moved:
        log.warning(
            "partition %d: %d points lie beyond the public radius and were moved onto it"
            " (hull.radius)",
            client.partition,
            found.moved,
        )
    if found.thinned:
        log.warning(
            "partition %d: %d vertices are left out, because a hull may have at most %d (hull.cap)",
            client.partition,
            found.thinned,
            public.cap,
        )
    _check_share(client, found, public)
    # the server could use the sizes of hulls to find out whose the decoded hulls are
    if client.owns_data:
        return {}
    figures = {
        "points": found.num_points,
        "revealed": found.num_revealed,
        "vertices": found.largest,
        "moved": found.moved,
        "thinned": found.thinned,
    }
    return {"metrics": {name: float(value) for name, value in figures.items()}}


def hulls(client: Client, request: Request, state: RecordDict) -> dict[str, Any]:
    """The client's hulls, encoded and masked; in one-shot runs of another method the moments of its
    data."""
    if client.config.method != "hull":
        from curvfed.client_app.moments import moments

        return moments(client, request, state)
    order_numbers, complaint = open_letters(request, state)
    if complaint:
        return complaint
    session = member_of(request, state).state.session
    public = _public_parameters(client, request, session.num_asked)
    if (session.modulus, session.length) != (public.prime, public.length):
        raise MessageError(
            "the sum does not fit the vectors that this client's configuration makes"
        )
    found = _hulls(client, public)
    _check_share(client, found, public)
    if client.ledger:
        points = {
            keyed(repr(point.tolist()), client.partition, client.node_config)[:16]
            for point in found.revealed(public)
        }
        client.ledger.reveal(client.run, points, found.num_points, max_share(client.node_config))
    slots = draw_slots(public.num_classes, len(found.hulls))
    vector = encode_hulls(found.hulls, position(order_numbers, client.partition), slots, public)
    return masked(client, request, state, vector, Inputs.of_data(vector, request.header.phase))


def evaluate(client: Client, request: Request, state: RecordDict) -> dict[str, Any]:
    """Score the classifier on this client's test points. Its training points name the groups, and
    that is its vote."""
    data = _points(client)
    try:
        classifier = Classifier.from_arrays(decode_arrays(request.arrays))
    except (KeyError, ValueError) as error:
        raise MessageError(f"the classifier cannot be read ({type(error).__name__})") from None
    if request.facts is None:
        raise MessageError('the record "facts" is missing')
    score = {}
    groups = int(classifier.groups[-1]) + 1
    public = request.facts.class_names
    fallen = 0.0
    votes = np.zeros((groups, len(public)))
    if len(data.train_labels):
        predicted = classifier.predict(data.train_points)
        own = data.class_names
        names = name_groups(predicted, data.train_labels, groups, len(own))
        votes = votes_of(names, predicted, own, public)
        found = accuracy(classifier.predict(data.test_points), data.test_labels, names)
        score = {} if found is None else {"score": found}
        fallen = float(_falls_short(client, data, found))
    if client.config.secure_sum:
        return figures(client, request, state, {}, score, np.append(votes.ravel(), fallen))
    end(client, state)
    return {"metrics": score, "arrays": {VOTES: votes, FALLEN: np.array([fallen])}}


def _falls_short(client: Client, data: ClientPoints, score: float | None) -> bool:
    """Whether a model of this client's own training points alone is right far more often than the
    run's classifier."""
    few = len(data.test_labels) < FEW or len(np.unique(data.train_labels)) < 2
    if score is None or few:
        return False
    own = Classifier.train(data.train_points, data.train_labels, data.curvature, 1.0, False, 0)
    local = float((own.predict(data.test_points) == data.test_labels).mean())
    if local - score <= SHORT:
        return False
    log.warning(
        "partition %d: the run's classifier is right on %.0f%% of the test points here, a model of"
        " this client's own points on %.0f%%; check the labels and the embedding of this client, or"
        " keep a model of its own",
        client.partition,
        100 * score,
        100 * local,
    )
    return True


def _points(client: Client) -> ClientPoints:
    if not isinstance(client.data, ClientPoints):
        raise DataError("the data are not points in a disc")
    return client.data


def _public_parameters(client: Client, request: Request, num_clients: int) -> PublicParameters:
    """The public parameters, from this client's own configuration."""
    if request.facts is None:
        raise MessageError('the record "facts" is missing')
    config = client.config
    classes = len(request.facts.class_names)
    return public_parameters(config.table("hull"), config.points, classes, num_clients)


def _hulls(client: Client, public: PublicParameters) -> LocalHulls:
    data = _points(client)
    keys = client.config.table("hull")
    points = data.train_points
    labels = data.train_labels
    least = max(
        keys.min_class_size, client.policy.leaves.hull_min_class_size if client.policy else 1
    )
    stays = np.bincount(labels)[labels] < least
    points = points[~stays]
    labels = labels[~stays]
    if keys.switch_labels and not client.owns_data:
        generator = np.random.default_rng([client.config.seed, client.partition, 0x5A17C4])
        labels = generator.permutation(len(data.class_names))[labels]
    try:
        return local_hulls(points, labels, public)
    except ValueError as error:
        raise DataError(str(error)) from None


def _proposal(client: Client, public: PublicParameters) -> str:
    """Values of hull.epsilon and hull.cap, the smallest change first, with which a tenth of the
    points leaves at most."""
    for epsilon in public.epsilon * 2.0 ** np.arange(8):
        for cap in sorted({public.cap, min(public.cap, 8), min(public.cap, 6)}, reverse=True):
            if (
                share := _hulls(client, replace(public, epsilon=epsilon, cap=cap)).share_revealed
            ) <= MUCH:
                return (
                    f"with hull.epsilon = {epsilon:g} and hull.cap = {cap} it would be"
                    f" {100 * share:.0f}%"
                )
    return "it has too few points for hulls that hide any"


def _check_share(client: Client, found: LocalHulls, public: PublicParameters) -> None:
    """Refuse to reveal more than this node's own configuration allows, whatever the server asks
    for."""
    limit = max_share(client.node_config)
    if found.share_revealed > limit:
        raise ConfigError(
            f"this node's hull-max-share is {limit:g}, and more of its points would leave it at"
            f" epsilon = {public.epsilon:g}"
        )

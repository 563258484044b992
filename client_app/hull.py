"""A client's replies in a one-shot run: what it would reveal, its masked hulls, its score of the
classifier."""

import logging
from dataclasses import replace
from typing import Any

import numpy as np
from flwr.app import RecordDict

from curvfed.client_app.client import Client
from curvfed.client_app.data.points import disc_points
from curvfed.client_app.masked_replies import figures
from curvfed.client_app.node.data_digest import keyed
from curvfed.client_app.node.inputs import Inputs
from curvfed.client_app.secure import end, masked, member_of, receive_shares
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.point_data import public_parameters
from curvfed.strategies.hull.classifier import Classifier
from curvfed.strategies.hull.client_order import client_position, draw_slots
from curvfed.strategies.hull.codec import encode_hulls
from curvfed.strategies.hull.local import LocalHulls, local_hulls
from curvfed.strategies.hull.naming import FALLEN, VOTES, accuracy, client_votes, name_groups
from curvfed.strategies.hull.public_parameters import PublicParameters
from curvfed.strategies.wire.arrays import MessageError, decode_arrays
from curvfed.strategies.wire.messages import Request
from curvfed.tasks.errors import DataError
from curvfed.tasks.points.client_points import ClientPoints

log = logging.getLogger("curvfed")

MIN_TEST_POINTS = 10
"""With fewer test points a client does not compare the classifier with a model of its own."""

MAX_SHORTFALL = 0.2
"""A client warns if the classifier's accuracy lies further below that of its own model."""

MAX_SHARE = 0.1
"""A client warns if a larger share of its points would leave it."""


def measure(client: Client, request: Request, state: RecordDict) -> dict[str, Any]:
    """Log how many points would leave this client, before it sends any. A simulated client also
    reports it to the server."""
    clients = request.parts.get("clients")
    if type(clients) is not int:
        raise MessageError('"clients" is not a whole number', key="clients")
    public = _public_parameters(client, request, clients)
    if request.parts.get("digest") != public.digest:
        raise MessageError(
            "the server's public parameters differ from those of this client's configuration",
            key="public-parameters",
        )
    local = _hulls(client, public)
    log.info(
        "partition %d: %d of %d training points (%.1f%%) are vertices of hulls and would leave this"
        " client, each as its bin of a grid with epsilon = %g; the largest hull has %d",
        client.partition,
        local.num_revealed,
        local.num_points,
        100 * local.share_revealed,
        public.epsilon,
        local.largest,
    )
    if client.node.owns_data:
        data = disc_points(client.data)
        sizes = np.bincount(data.train_labels)
        shares = (
            f"{data.class_names[label]} {len(hull)} of {sizes[label]}"
            for hull, label in zip(local.hulls, local.classes, strict=True)
        )
        log.info("partition %d, by class: %s", client.partition, ", ".join(shares) or "none")
    if local.share_revealed > MAX_SHARE:
        log.warning(
            "partition %d: %.0f%% of its training points would leave it; %s",
            client.partition,
            100 * local.share_revealed,
            _proposal(client, public),
        )
    if local.moved:
        log.warning(
            "partition %d: %d points lie beyond the public radius and were moved onto it"
            " (hull.radius)",
            client.partition,
            local.moved,
        )
    if local.thinned:
        log.warning(
            "partition %d: %d vertices are left out, because a hull may have at most %d (hull.cap)",
            client.partition,
            local.thinned,
            public.cap,
        )
    _check_share(client, local, public)
    # With the sizes of hulls the server could assign the decoded hulls to clients.
    if client.node.owns_data:
        return {}
    counts = {
        "points": local.num_points,
        "revealed": local.num_revealed,
        "vertices": local.largest,
        "moved": local.moved,
        "thinned": local.thinned,
    }
    return {"metrics": {name: float(count) for name, count in counts.items()}}


def hulls(client: Client, request: Request, state: RecordDict) -> dict[str, Any]:
    """The client's hulls, encoded and masked; for other one-shot methods the moments of its
    data."""
    if client.config.method != "hull":
        from curvfed.client_app.data_moments import masked_moments

        return masked_moments(client, request, state)
    order_numbers, complaint = receive_shares(request, state)
    if complaint:
        return complaint
    session = member_of(request, state).state.session
    public = _public_parameters(client, request, session.num_asked)
    if (session.modulus, session.length) != (public.prime, public.length):
        raise MessageError(
            "the sum does not fit the vectors that this client's configuration makes",
            key="sum-size",
        )
    local = _hulls(client, public)
    _check_share(client, local, public)
    if client.ledger:
        points = {keyed(repr(point.tolist()), client.node)[:16] for point in local.revealed(public)}
        client.ledger.reveal(client.run, points, local.num_points, client.node.hull_max_share)
    slots = draw_slots(public.num_classes, len(local.hulls))
    vector = encode_hulls(
        local.hulls, client_position(order_numbers, client.partition), slots, public
    )
    return masked(client, request, state, vector, Inputs.of_data(vector, request.header.phase))


def evaluate(client: Client, request: Request, state: RecordDict) -> dict[str, Any]:
    """Score the classifier on the test points. The training points vote on the classes of
    groups."""
    data = disc_points(client.data)
    try:
        classifier = Classifier.from_arrays(decode_arrays(request.arrays))
    except (KeyError, ValueError) as error:
        raise MessageError(
            f"the classifier cannot be read ({type(error).__name__})", key="unreadable-classifier"
        ) from None
    score = {}
    groups = int(classifier.groups[-1]) + 1
    public = request.required_facts.class_names
    falls_short = 0.0
    votes = np.zeros((groups, len(public)))
    if len(data.train_labels):
        predicted = classifier.predict(data.train_points)
        names = name_groups(predicted, data.train_labels, groups, len(data.class_names))
        votes = client_votes(names, predicted, data.class_names, public)
        test_accuracy = accuracy(classifier.predict(data.test_points), data.test_labels, names)
        if test_accuracy is not None:
            score["score"] = test_accuracy
            falls_short = float(_falls_short(client, data, test_accuracy))
    if client.config.secure_sum:
        return figures(client, request, state, {}, score, np.append(votes.ravel(), falls_short))
    end(client, state)
    return {"metrics": score, "arrays": {VOTES: votes, FALLEN: np.array([falls_short])}}


def _falls_short(client: Client, data: ClientPoints, score: float) -> bool:
    """Whether the run's classifier is far less accurate than a model of this client's own training
    points."""
    if len(data.test_labels) < MIN_TEST_POINTS or len(np.unique(data.train_labels)) < 2:
        return False
    local = Classifier.train(data.train_points, data.train_labels, data.curvature, 1.0, False, 0)
    local_score = float((local.predict(data.test_points) == data.test_labels).mean())
    if local_score - score <= MAX_SHORTFALL:
        return False
    log.warning(
        "partition %d: the run's classifier is right on %.0f%% of the test points here, a model of"
        " this client's own points on %.0f%%; check the labels and the embedding of this client, or"
        " keep a model of its own",
        client.partition,
        100 * score,
        100 * local_score,
    )
    return True


def _public_parameters(client: Client, request: Request, num_clients: int) -> PublicParameters:
    """The public parameters, from this client's own configuration."""
    config = client.config
    classes = len(request.required_facts.class_names)
    return public_parameters(config.table("hull"), config.points, classes, num_clients)


def _hulls(client: Client, public: PublicParameters) -> LocalHulls:
    data = disc_points(client.data)
    keys = client.config.table("hull")
    labels = data.train_labels
    min_size = keys.min_class_size
    if client.node.rules:
        min_size = max(min_size, client.node.rules.leaves.hull_min_class_size)
    is_large = np.bincount(labels)[labels] >= min_size
    points = data.train_points[is_large]
    labels = labels[is_large]
    if keys.switch_labels and not client.node.owns_data:
        generator = np.random.default_rng([client.config.seed, client.partition, 0x5A17C4])
        labels = generator.permutation(len(data.class_names))[labels]
    try:
        return local_hulls(points, labels, public)
    except ValueError as error:
        raise DataError(str(error), key="no-hull") from None


def _proposal(client: Client, public: PublicParameters) -> str:
    """The smallest change of hull.epsilon and hull.cap with which at most `MAX_SHARE` of the points
    leave."""
    caps = sorted({public.cap, min(public.cap, 8), min(public.cap, 6)}, reverse=True)
    for epsilon in public.epsilon * 2.0 ** np.arange(8):
        for cap in caps:
            share = _hulls(client, replace(public, epsilon=epsilon, cap=cap)).share_revealed
            if share <= MAX_SHARE:
                return (
                    f"with hull.epsilon = {epsilon:g} and hull.cap = {cap} it would be"
                    f" {100 * share:.0f}%"
                )
    return "it has too few points for hulls that hide any"


def _check_share(client: Client, local: LocalHulls, public: PublicParameters) -> None:
    """Refuse to reveal more than this node's own configuration allows."""
    limit = client.node.hull_max_share
    if local.share_revealed > limit:
        raise ConfigError(
            f"this node's hull-max-share is {limit:g}, and more of its points would leave it at"
            f" epsilon = {public.epsilon:g}",
            key="hull-max-share",
        )

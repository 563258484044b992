"""A client's replies in a one-shot run: figures of its contribution, its masked vector, its scores
of the model."""

from hashlib import blake2b
from typing import Any

from flwr.app import RecordDict

from curvfed.client_app import rounds
from curvfed.client_app.client import Client
from curvfed.client_app.contribution import Contribution, check_paid
from curvfed.client_app.data import check_class_sizes
from curvfed.client_app.node import Node
from curvfed.client_app.node.keys import keyed
from curvfed.client_app.secure import OpenSum, mask_contribution, masked, masked_answer
from curvfed.client_app.start import SUMMED, check_model
from curvfed.geometry.arrays import Floats
from curvfed.strategies.base.one_shot import OneShotClient, Site
from curvfed.strategies.config.one_shot import client_half
from curvfed.strategies.config.secure_phases import vector_length
from curvfed.strategies.secure_sum.fixed_point import SUM_PRIME
from curvfed.strategies.wire.checks import MessageError
from curvfed.strategies.wire.codec import decode_arrays
from curvfed.strategies.wire.messages import Request


def measure(client: Client, request: Request, state: RecordDict) -> dict[str, Any]:
    """Figures of the client's future contribution."""
    clients = request.parts.get("clients")
    if type(clients) is not int:
        raise MessageError('"clients" is not a whole number', key="clients")
    check_class_sizes(client.data, client.node)
    return {"metrics": _half(client, request).measure(clients, request.parts)}


def contribute(client: Client, request: Request, state: RecordDict) -> dict[str, Any]:
    """The client's vector, masked."""
    return masked_answer(
        client, request, state, lambda opened: _masked_vector(client, request, state, opened)
    )


def _masked_vector(
    client: Client, request: Request, state: RecordDict, opened: OpenSum
) -> dict[str, Any]:
    if not client.run_guard.hides_classes:
        check_class_sizes(client.data, client.node)
    client.learn_holders(request)
    session = opened.session
    members = len(session.clients)
    half = _half(client, request)
    vectors = half.vectors(members)
    expected = (vectors.modulus, vectors.length)
    if not vectors.modulus:
        expected = (SUM_PRIME, vector_length(vectors.length))
    if (session.modulus, session.length) != expected:
        raise MessageError(
            "the sum does not fit the vectors that this client's configuration makes",
            key="sum-size",
        )
    client.warn_of_lost_classes(half.classes_lost(), request)
    statistics = half.contribution(members, opened.order_numbers)
    if client.node.is_real:
        client.files.notes.write(SUMMED, [request.header.round])
    if vectors.modulus:
        check_paid(client, session.phase, session.digest.hex())
        (vector,) = statistics.arrays.values()
        return masked(client, request, state, opened, vector, is_drawn=True)
    contribution = Contribution(
        statistics.arrays, statistics.weight, bound=vectors.bound, variances=vectors.variances
    )
    return mask_contribution(contribution, client, request, state, opened)


def held(client: Client, request: Request) -> set[str]:
    """The names of the classes that the client contributes to."""
    return _half(client, request).held()


def evaluate(client: Client, request: Request, state: RecordDict) -> dict[str, Any]:
    """Score the model."""
    return rounds.contribute(_score, client, request, state)


def _score(client: Client, request: Request) -> Contribution:
    received = decode_arrays(request.arrays)
    check_model(client, received)
    client.learn_holders(request)
    scores, arrays = _half(client, request).evaluate(received)
    return Contribution(arrays, 0, scores, received={})


def _half(client: Client, request: Request) -> OneShotClient:
    node = client.node

    def reveal(points: Floats, own: Floats) -> None:
        if client.ledger:
            hashes = _hashes(points, node)
            client.ledger.reveal(client.run, hashes, _hashes(own, node), node.hull_max_share)

    site = Site(
        data=client.data,
        partition=client.partition,
        owns_data=node.owns_data,
        leaving=client.leaving_in_sums,
        max_share=node.hull_max_share,
        reveal=reveal,
    )
    return client_half(client.config, request.required_facts.class_names, site)


def _hashes(points: Floats, node: Node) -> set[str]:
    """Hashes of points (n, 2), keyed by the node's secret."""
    secret = bytes.fromhex(keyed("points", node))
    return {blake2b(point.tobytes(), key=secret, digest_size=8).hexdigest() for point in points}

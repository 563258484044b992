"""Clients of an open run that claim more examples than they have, and so most of the weight."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from app_runs import Handle, forged, partition_of, phase_of, real_nodes, run
from flwr.app import Message
from graph_fixtures import user_fields

from curvfed.strategies.wire.messages import TRAIN

pytestmark = pytest.mark.usefixtures("own_home")

MILLION = 10**6
CLAIM = forged(lambda reply: replace(reply, num_examples=MILLION))


def client_2_claims(*phases: str) -> Callable[[Message, Handle], Message]:
    """In these phases client 2 claims a million examples."""

    def intercept(request: Message, handle: Handle) -> Message:
        if phase_of(request.content) not in phases:
            return handle(request)
        reply = handle(request)
        is_liar = partition_of(reply.content) == 2
        return CLAIM(request, lambda message: reply) if is_liar else reply

    return intercept


@pytest.mark.parametrize("shares", [False, True])
def test_more_examples_than_described_are_refused_by_name(shares, tmp_path, caplog):
    """Unless it shared its statistics, a client had the whole model for itself."""
    nodes = real_nodes(tmp_path / "nodes", [user_fields(40)] * 3)
    settings = {"method": "fedavg", "dataset": "own", "nodes": nodes, "num_rounds": 1}
    run(tmp_path, intercept=client_2_claims(TRAIN), share_statistics=shares, **settings)
    assert f"partition 2: claims {MILLION} examples; allowed are exactly the " in caplog.text

"""A client's reply to a message that asks for a contribution: in the open, or masked.

This is the only file of this folder that knows which of them a run uses.
"""

from collections.abc import Callable
from typing import Any

from flwr.app import RecordDict
from torch import nn

from curvfed.client_app.client import Client
from curvfed.client_app.rounds import Contribution
from curvfed.strategies.config.masked import is_masked
from curvfed.strategies.wire.messages import CONFUSION, LAST_ROUND, TRAIN, Request

Handler = Callable[[Client, Request, RecordDict], dict[str, Any]]
"""(client, request, Flower's state of this node) -> the fields of the `Reply`, apart from its
header and partition."""


Work = Callable[[Client, Request], Contribution]
"""What a client does in a phase."""


def contributing(work: Work) -> Handler:
    """The handler of a phase that asks for a contribution.

    In a secure sum the client first reads the shares of its peers, so that a complaint is sent at
    once. The personal state of a round is stored when its reply is made.
    """

    def handler(client: Client, request: Request, state: RecordDict) -> dict[str, Any]:
        masked = is_masked(client.config, request.header.phase)
        if masked:
            from curvfed.client_app.secure import receive_shares

            _, complaint = receive_shares(request, state)
            if complaint:
                return complaint
        contribution = work(client, request)
        if masked:
            from curvfed.client_app.masked_replies import masked_contribution

            fields = masked_contribution(client, request, state, contribution)
        else:
            fields = {
                "arrays": contribution.arrays,
                "num_examples": contribution.weight,
                "metrics": contribution.figures,
            }
            if contribution.scored is not None:
                fields |= _confusion(client, request, contribution.scored)
        if request.header.phase == TRAIN:
            client.commit(request.header.round, base=request.stamp)
        return fields

    return handler


def _confusion(client: Client, request: Request, model: nn.Module) -> dict[str, Any]:
    """The confusion matrix on the test examples after the last round, if statistics may leave the
    client."""
    is_last = request.header.round == client.config.num_rounds
    if client.config.may_stop_early:
        is_last = is_last or request.parts.get(LAST_ROUND) is True
    if not is_last or not client.shares_statistics:
        return {}
    counts = client.task.confusion(model)
    return {"parts": {CONFUSION: counts}} if counts else {}

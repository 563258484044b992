"""A client's masked reply: the server sees only the sum over the cohort."""

from dataclasses import replace
from functools import partial

from flwr.app import RecordDict

from curvfed.client_app.client import Client
from curvfed.client_app.contribution import Contribution, Work
from curvfed.client_app.payments import check_contribution
from curvfed.client_app.secure import Answer, OpenSum, masked_reals, open_sum, stored_answer
from curvfed.strategies.config.secure_phases import client_vector, sum_encoding, vector_length
from curvfed.strategies.run_log import log
from curvfed.strategies.wire.messages import TRAIN, WITHOUT_KEYS, Request


def masked_contribution(work: Work, client: Client, request: Request, state: RecordDict) -> Answer:
    """Do the work of a phase, and contribute the result under masks.

    A client without the keys of its peers only reports that, and does not work. In a sum that it
    has answered before it repeats its answer.
    """
    opened = open_sum(client, request, state)
    if opened is None:
        return {"parts": {WITHOUT_KEYS: True}}
    answer = stored_answer(client, opened, state)
    if answer is None:
        answer = mask_contribution(work(client, request), client, request, state, opened)
    return answer


def mask_contribution(
    contribution: Contribution,
    client: Client,
    request: Request,
    state: RecordDict,
    opened: OpenSum,
) -> Answer:
    """The reply with a contribution under masks."""
    weight = int(min(contribution.weight, opened.max_weight))
    share = weight / contribution.weight if contribution.weight else 1.0
    if share < 1:
        log.warning(
            "%s of round %d: the weight is reduced from %d examples to %d, so that the others hide"
            " this node (weight-share)",
            request.header.phase,
            request.header.round,
            contribution.weight,
            weight,
        )
    received = contribution.received or {}
    bound = contribution.bound or client.config.guard.limit(received)
    if request.header.phase == TRAIN:
        num_values = opened.session.length - vector_length(0)
        reduced = replace(contribution, weight=weight)
        vector = client.guard.update_vector(reduced, received, num_values, bound)
    else:
        values = share * contribution.flatten()
        vector = client_vector(values, weight, contribution.figures, bound)
    hide = client.guard.hide(request.header, contribution.arrays, contribution.variances, bound)
    if hide is None:
        check_contribution(client, request.header.phase, contribution)
    encoding = partial(sum_encoding, bound)
    return masked_reals(client, request, state, opened, vector, encoding, hide)

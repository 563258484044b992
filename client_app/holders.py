"""A client's part in the count of the members that contribute to each class or entity. The results
of a class or an entity with fewer members than `min-holders` stay at these, because the sum would
identify them."""

import numpy as np
from flwr.app import RecordDict

from curvfed.client_app import one_shot, rounds
from curvfed.client_app.client import Client
from curvfed.client_app.contribution import check_paid
from curvfed.client_app.secure import Answer, OpenSum, masked, masked_answer
from curvfed.strategies.config.holders import COUNT_MODULUS
from curvfed.strategies.wire.checks import MessageError
from curvfed.strategies.wire.messages import Request


def count(client: Client, request: Request, state: RecordDict) -> Answer:
    """1 for each of the federation's names that this client contributes to, 0 for the others,
    masked."""
    return masked_answer(
        client, request, state, lambda opened: _masked_count(client, request, state, opened)
    )


def _masked_count(client: Client, request: Request, state: RecordDict, opened: OpenSum) -> Answer:
    names = request.required_facts.class_names
    session = opened.session
    if (session.modulus, session.length) != (COUNT_MODULUS, len(names)):
        raise MessageError("the sum does not count one number for each name", key="sum-size")
    if client.method.is_one_shot:
        held = one_shot.held(client, request)
    else:
        rounds.prepare(client, request)
        held = client.data.held(client.node.min_class_size)
        if client.config.calibrator is not None:
            labels = client.task.train_labels.numpy(force=True)
            summed = labels[client.leaving_in_sums.examples(labels)]
            held = {names[label] for label in np.unique(summed)}
    check_paid(client, session.phase, session.digest.hex())
    presence = np.array([name in held for name in names], np.uint64)
    return masked(client, request, state, opened, presence)

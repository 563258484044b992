"""A client's masked replies: the server sees only sums over the cohort."""

from functools import partial

import numpy as np
from flwr.app import RecordDict
from numpy.typing import NDArray

from curvfed.client_app.client import Client
from curvfed.client_app.node.data_digest import keyed
from curvfed.client_app.node.inputs import NONE, Inputs
from curvfed.client_app.secure import Answer, masked_reals
from curvfed.strategies.base.figures import BEFORE
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.base.training import Trained
from curvfed.strategies.config.masked_vector import (
    client_vector,
    parameters,
    sum_encoding,
    weighted_update,
)
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.wire.messages import Request

NOTHING = np.zeros(0)


def update(
    client: Client,
    request: Request,
    state: RecordDict,
    received: Arrays,
    trained: Trained | None,
    metrics: dict[str, float],
) -> Answer:
    """The weighted change of the shared parameters, and the figures of the round."""
    if trained is None:
        raise SecureSumError(
            "a client without training examples has nothing to add", key="no-examples"
        )
    limit = client.config.secure.clip
    weight = client.task.num_examples if client.config.weights == "examples" else 1
    values, norm = weighted_update(
        client.learner.summand(received, trained), received, weight, limit
    )
    # Scores before training are left out: an evaluation of the same parameters sums them, perhaps
    # over other clients.
    summed = {name: value for name, value in metrics.items() if not name.endswith(BEFORE)}
    vector = client_vector(values, weight, summed | {"clipped": float(norm > limit)}, limit)
    inputs = _inputs(client, request, received, values / weight, vector)
    return masked_reals(client, request, state, vector, partial(sum_encoding, limit), inputs)


def figures(
    client: Client,
    request: Request,
    state: RecordDict,
    received: Arrays,
    metrics: dict[str, float],
    values: NDArray[np.float64] = NOTHING,
) -> Answer:
    """Figures of the received parameters, and values of at most 1."""
    bound = client.config.secure.clip
    vector = client_vector(values, 0, metrics, bound)
    inputs = _inputs(client, request, received, NOTHING, vector)
    return masked_reals(client, request, state, vector, partial(sum_encoding, bound), inputs)


def sums(
    client: Client, request: Request, state: RecordDict, values: NDArray[np.float64], examples: int
) -> Answer:
    """Sums over the client's examples."""
    calibration = client.config.calibration
    bound = (calibration and calibration.bound) or client.config.secure.clip
    vector = client_vector(values, examples, {}, bound)
    inputs = Inputs.of_data(vector, request.header.phase)
    return masked_reals(client, request, state, vector, partial(sum_encoding, bound), inputs)


def _inputs(
    client: Client,
    request: Request,
    received: Arrays,
    update: NDArray[np.float64],
    vector: NDArray[np.float64],
) -> Inputs:
    if not client.ledger:
        return NONE
    secret = keyed("sketch", client.node)
    return Inputs.of_parameters(parameters(received), update, vector, request.header.phase, secret)

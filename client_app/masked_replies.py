"""A client's replies whose figures and values the server sees as sums over the cohort alone."""

from functools import partial

import numpy as np
from flwr.app import RecordDict
from numpy.typing import NDArray

from curvfed.client_app.client import Client
from curvfed.client_app.node.inputs import NONE, Inputs
from curvfed.client_app.secure import Answer, masked_reals
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.base.training import Trained
from curvfed.strategies.config.masked_vector import encoding, packed, weighted_update
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.wire.messages import Request


def update(
    client: Client,
    request: Request,
    state: RecordDict,
    received: Arrays,
    trained: Trained | None,
    metrics: dict[str, float],
) -> Answer:
    """The change of the shared parameters, weighted as the run says, and the figures of the round."""
    if trained is None:
        raise SecureSumError("a client without training examples has nothing to add")
    limit, weight = client.config.secure.clip, client.task.num_examples if client.config.weights == "examples" else 1
    values, clipped = weighted_update(client.learner.summand(received, trained), received, weight, limit)
    moved = float(np.linalg.norm(values)) / weight
    return _masked(
        client,
        request,
        state,
        received,
        moved,
        packed(values, weight, metrics | {"clipped": float(clipped)}, limit),
        limit,
    )


def figures(client: Client, request: Request, state: RecordDict, received: Arrays, metrics: dict[str, float]) -> Answer:
    """Figures alone, of the parameters received."""
    bound = client.config.secure.clip
    return _masked(client, request, state, received, 0.0, packed(np.zeros(0), 0, metrics, bound), bound)


def sums(client: Client, request: Request, state: RecordDict, values: NDArray[np.float64], examples: int) -> Answer:
    """Sums over the client's examples."""
    bound = client.config.calibration.bound or client.config.secure.clip
    vector = packed(values, examples, {}, bound)
    inputs = Inputs.of_data(vector, request.header.phase)
    return masked_reals(client, request, state, vector, partial(encoding, bound), inputs)


def _masked(
    client: Client,
    request: Request,
    state: RecordDict,
    received: Arrays,
    moved: float,
    vector: NDArray[np.float64],
    bound: float,
) -> Answer:
    inputs = Inputs.of_parameters(received, moved, vector, request.header.phase) if client.ledger else NONE
    return masked_reals(client, request, state, vector, partial(encoding, bound), inputs)

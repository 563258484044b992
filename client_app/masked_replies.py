"""A client's replies whose figures and values the server sees as sums over the cohort alone."""

from functools import partial

import numpy as np
from flwr.app import RecordDict
from numpy.typing import NDArray

from curvfed.client_app.client import Client
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
    return vector(client, request, state, values, weight, metrics | {"clipped": float(clipped)}, limit)


def figures(client: Client, request: Request, state: RecordDict, metrics: dict[str, float]) -> Answer:
    """Figures alone."""
    return vector(client, request, state, np.zeros(0), 0, metrics, client.config.secure.clip)


def vector(
    client: Client,
    request: Request,
    state: RecordDict,
    values: NDArray[np.float64],
    weight: int,
    metrics: dict[str, float],
    bound: float,
) -> Answer:
    """The masked vector of values, weight and figures."""
    return masked_reals(client, request, state, packed(values, weight, metrics, bound), partial(encoding, bound))

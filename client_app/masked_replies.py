"""A client's masked reply: the server sees only the sum over the cohort."""

from functools import partial

import numpy as np
from flwr.app import RecordDict
from numpy.typing import NDArray

from curvfed.client_app.client import Client
from curvfed.client_app.node.data_digest import keyed
from curvfed.client_app.node.inputs import NONE, Inputs
from curvfed.client_app.secure import Answer, masked_reals
from curvfed.strategies.base.figures import BEFORE
from curvfed.strategies.base.statistics import Arrays, Statistics
from curvfed.strategies.config.masked_vector import (
    client_vector,
    parameters,
    sum_encoding,
    weighted_update,
)
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.wire.messages import TRAIN, Request

Vector = NDArray[np.float64]


def masked_contribution(
    client: Client,
    request: Request,
    state: RecordDict,
    contribution: Statistics,
    received: Arrays | None,
    bound: float,
) -> Answer:
    """The masked contribution, after the peers' shares were read.

    Parameters
    ----------
    received : dict of str to array or None
        The parameters that it was computed from; None for sums over the data alone.
    bound : float
        Bound on what an example adds to an entry; 0 for `secure.clip`.
    """
    bound = bound or client.config.secure.clip
    encoding = partial(sum_encoding, bound)
    if request.header.phase == TRAIN:
        vector, update = _update_vector(client, contribution, received or {})
    else:
        update = np.zeros(0)
        vector = client_vector(
            contribution.flatten(), contribution.weight, contribution.figures, bound
        )
    inputs = _inputs(client, request, received, update, vector)
    return masked_reals(client, request, state, vector, encoding, inputs)


def _update_vector(
    client: Client, contribution: Statistics, received: Arrays
) -> tuple[Vector, Vector]:
    """The weighted change of the shared parameters with the figures of the round, and the change
    itself."""
    if not contribution.weight:
        raise SecureSumError(
            "a client without training examples has nothing to add", key="no-examples"
        )
    limit = client.config.secure.clip
    weight = contribution.weight if client.config.weights == "examples" else 1
    values, norm = weighted_update(contribution.arrays, received, weight, limit)
    # Scores before training are left out: an evaluation of the same parameters sums them, perhaps
    # over other clients.
    figures = {
        name: value for name, value in contribution.figures.items() if not name.endswith(BEFORE)
    }
    figures["clipped"] = float(norm > limit)
    return client_vector(values, weight, figures, limit), values / weight


def _inputs(
    client: Client, request: Request, received: Arrays | None, update: Vector, vector: Vector
) -> Inputs:
    """What the ledger records of the vector."""
    if received is None:
        return Inputs.of_data(vector, request.header.phase)
    if not client.ledger:
        return NONE
    secret = keyed("sketch", client.node)
    return Inputs.of_parameters(parameters(received), update, vector, request.header.phase, secret)

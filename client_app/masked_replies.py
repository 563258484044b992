"""A client's masked reply: the server sees only the sum over the cohort."""

from functools import partial
from random import Random, SystemRandom

import numpy as np
from flwr.app import RecordDict
from numpy.typing import NDArray

from curvfed.client_app.client import Client
from curvfed.client_app.node.data_digest import keyed
from curvfed.client_app.node.inputs import NONE, Inputs
from curvfed.client_app.secure import Answer, masked_reals
from curvfed.strategies.base.calibration import GRID
from curvfed.strategies.base.figures import BEFORE
from curvfed.strategies.base.statistics import Arrays, Statistics
from curvfed.strategies.config.masked_vector import (
    ROUNDING,
    client_vector,
    parameters,
    sum_encoding,
    weighted_update,
)
from curvfed.strategies.config.privacy import check_enough_clients, sum_noise
from curvfed.strategies.privacy.noise_shares import add_exact, add_rounded, honest_shares
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.secure_sum.fixed_point import FixedPoint
from curvfed.strategies.secure_sum.modular import Residues
from curvfed.strategies.secure_sum.session import Session
from curvfed.strategies.wire.messages import TRAIN, Request

Vector = NDArray[np.float64]


def masked_contribution(
    client: Client,
    request: Request,
    state: RecordDict,
    contribution: Statistics,
    received: Arrays | None,
    bound: float,
    *,
    variances: Vector | None = None,
) -> Answer:
    """The masked contribution, after the peers' shares were read.

    Parameters
    ----------
    received : dict of str to array or None
        The parameters that it was computed from; None for sums over the data alone.
    bound : float
        Bound on what an example adds to an entry; 0 for `secure.clip`.
    variances : array, optional
        Of the noise on differentially private sums; see `Vectors`.
    """
    bound = bound or client.config.update_clip
    if request.header.phase == TRAIN:
        vector, update = _update_vector(client, contribution, received or {})
        if client.config.dp.unit == "client":
            variances = np.full(update.size, bound**2)
    else:
        update = np.zeros(0)
        vector = client_vector(
            contribution.flatten(), contribution.weight, contribution.figures, bound
        )
    hide = None if variances is None else partial(_with_noise, client, request, variances)
    inputs = _inputs(client, request, received, update, vector)
    encoding = partial(sum_encoding, bound)
    return masked_reals(client, request, state, vector, encoding, inputs, hide)


def _with_noise(
    client: Client,
    request: Request,
    variances: Vector,
    steps: Residues,
    encoding: FixedPoint,
    session: Session,
) -> Residues:
    """The residues plus this client's share of the noise, of these variances for a noise multiplier
    of 1. The node pays before they leave, whether the sum succeeds or not."""
    config = client.config
    check_enough_clients(config, session.num_asked)
    client.pay_for_sum(session)
    members = len(session.clients)
    factor = sum_noise(config) * encoding.scale
    scaled = variances * (factor**2 / honest_shares(members, session.needed))
    values = steps[: variances.size]  # weight and figures, which follow, are 0 or public
    if request.header.phase == TRAIN:
        noisy = add_rounded(values, np.sqrt(scaled), session.modulus, client.noise)
    elif encoding.scale < GRID**-2:
        raise SecureSumError(
            f"the grid of a secure sum over {session.num_asked} clients is too coarse for"
            " differentially private sums",
            key="coarse-grid",
        )
    else:
        # A simulation's noise is everybody's: equal runs give equal bits.
        name = f"{config.seed} {client.partition} {session.phase} {session.round}"
        generator = SystemRandom() if client.node.is_real else Random(name)
        noisy = add_exact(values, scaled, session.modulus, generator)
    return np.concatenate([noisy, steps[variances.size :]])


def _update_vector(
    client: Client, contribution: Statistics, received: Arrays
) -> tuple[Vector, Vector]:
    """The weighted change of the shared parameters with the figures of the round, and the change
    itself."""
    limit = client.config.update_clip
    if client.config.dp.unit == "client":
        # A client without data adds nothing but noise; who it is stays hidden.
        values, _ = weighted_update(contribution.arrays, received, 1, limit * (1 - ROUNDING))
        return client_vector(values, 1, {}, limit), values
    if not contribution.weight:
        raise SecureSumError(
            "a client without training examples has nothing to add", key="no-examples"
        )
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

"""A client's masked reply: the server sees only the sum over the cohort."""

from dataclasses import replace
from functools import partial
from random import Random, SystemRandom

import numpy as np
from flwr.app import RecordDict

from curvfed.client_app.client import Client
from curvfed.client_app.contribution import Contribution, Work
from curvfed.client_app.secure import Answer, OpenSum, masked_reals, open_sum, stored_answer
from curvfed.geometry.arrays import Floats
from curvfed.strategies.base import privacy_noise
from curvfed.strategies.base.calibration import GRID
from curvfed.strategies.base.figures import BEFORE
from curvfed.strategies.base.statistics import Arrays, Statistics
from curvfed.strategies.config.privacy import check_enough_clients, sum_noise
from curvfed.strategies.config.secure_phases import (
    ROUNDING,
    client_vector,
    sum_encoding,
    vector_length,
    weighted_update,
)
from curvfed.strategies.errors import SecureSumError
from curvfed.strategies.run_log import log
from curvfed.strategies.secure_sum import Session
from curvfed.strategies.secure_sum.fixed_point import FixedPoint, Residues
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
    variances = contribution.variances
    bound = contribution.bound or client.config.update_clip
    dp = client.config.dp
    if dp.clip_quantile is not None:
        _, bound = privacy_noise.split_clip(received)
    if request.header.phase == TRAIN:
        num_values = opened.session.length - vector_length(0)
        reduced = replace(contribution, weight=weight)
        vector = _update_vector(client, reduced, received, num_values, bound)
        if dp.clip_quantile is not None:
            variances = privacy_noise.variances(contribution.arrays, bound)
        elif dp.unit == "client":
            variances = np.full(num_values, bound**2)
    else:
        values = share * contribution.flatten()
        vector = client_vector(values, weight, contribution.figures, bound)
    hide = None if variances is None else partial(_with_noise, client, request, variances)
    encoding = partial(sum_encoding, bound)
    return masked_reals(client, request, state, opened, vector, encoding, hide)


def _with_noise(
    client: Client,
    request: Request,
    variances: Floats,
    steps: Residues,
    encoding: FixedPoint,
    session: Session,
) -> Residues:
    """The residues plus this client's share of the noise, of these variances for a noise multiplier
    of 1."""
    config = client.config
    members = len(session.clients)
    check_enough_clients(config, members)
    factor = sum_noise(config, session.phase) * encoding.scale
    scaled = variances * (factor**2 / privacy_noise.honest_shares(members))
    values = steps[: variances.size]  # weight and figures, which follow, are 0 or public
    if request.header.phase == TRAIN:
        noisy = privacy_noise.add_rounded(values, np.sqrt(scaled), session.modulus, client.noise)
    elif encoding.scale < GRID**-2:
        raise SecureSumError(
            f"the grid of a secure sum over {members} clients is too coarse for"
            " differentially private sums",
            key="coarse-grid",
        )
    else:
        # The noise of a simulation is public: equal runs give equal bits.
        name = f"{config.seed} {client.partition} {session.phase} {session.round}"
        generator = SystemRandom() if client.node.is_real else Random(name)
        noisy = privacy_noise.add_exact(values, scaled, session.modulus, generator)
    return np.concatenate([noisy, steps[variances.size :]])


def _update_vector(
    client: Client, contribution: Statistics, received: Arrays, num_values: int, limit: float
) -> Floats:
    """The weighted change of the shared parameters, zeros without training examples, with the
    figures of the round."""
    if client.config.dp.unit == "client":
        # A client without data adds nothing but noise; who it is stays hidden.
        arrays = contribution.arrays
        if client.config.dp.clip_quantile is not None:
            _, length = weighted_update(arrays, received, 1, limit)
            arrays = arrays | privacy_noise.within(length, limit)
        values, _ = weighted_update(arrays, received, 1, limit * (1 - ROUNDING))
        return client_vector(values, 1, {}, limit)
    weight = contribution.weight
    values = np.zeros(num_values)
    norm = 0.0
    if weight:
        weight = weight if client.config.weights == "examples" else 1
        values, norm = weighted_update(contribution.arrays, received, weight, limit)
    # Scores before training are left out: an evaluation of the same parameters sums them, perhaps
    # over other clients.
    figures = {
        name: value for name, value in contribution.figures.items() if not name.endswith(BEFORE)
    }
    figures["clipped"] = float(norm > limit)
    return client_vector(values, weight, figures, limit)

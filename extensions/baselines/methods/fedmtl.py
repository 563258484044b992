"""Federated multi-task learning (MOCHA, Smith et al., NIPS 2017) for networks: one model per
client, with a coupling."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from threadpoolctl import threadpool_limits

from curvfed.geometry.arrays import Floats
from curvfed.strategies.base.aggregation import Aggregation, Replies, check_names
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.learner import Learner, Local
from curvfed.strategies.base.method import IMAGES, Method
from curvfed.strategies.base.statistics import (
    Arrays,
    add_prefix,
    is_buffer,
    join_groups,
    select_prefix,
    split_groups,
)
from curvfed.strategies.base.tensors import load_arrays
from curvfed.strategies.base.training import GradientTerm
from curvfed.strategies.wire.checks import MessageError, check_arrays


class Keys(Table):
    """Keys of federated multi-task learning."""

    relations: Literal["mean", "learned"] = "mean"
    """Omega of tr(W Omega W^T): mean draws every model to the mean; learned weighs pairs of models
    by their relation"""
    coupling: Rate = Field(default=0.1, ge=0)
    """lambda_1, the coefficient of half that trace; 0: each client trains alone"""
    ridge: Rate = Field(default=0.0, ge=0)
    """lambda_2, the coefficient of half the squared weights, in addition to weight-decay"""


PULL = "pull/"
WEIGHT = "pull-weight"
"""Prefix of the names of b_k, and name of a_k: the gradient of the coupling in client k's model w
is a_k w + b_k."""

START = "start/"
CLIENT = "client/"
IDLE = "idle"
"""Names in the server's state: prefixes of the initial model and the clients' models, and the
clients without examples."""

RIDGE = 0.1
"""Share of the mean eigenvalue of (WᵀW)^½ that is added to each eigenvalue before the inversion."""


class FedMtlServer(Aggregation):
    """Every client has its own model w_k; the models are coupled by tr(W Ω Wᵀ)/2, W = [w_1, …, w_m]
    (Eq. 1).

    The server keeps the w_k. It sends client k its model and the two terms of the coupling's
    gradient Σ_j Ω_kj w_j: a_k = Ω_kk and b_k = Σ_{j≠k} Ω_kj w_j, with the other models from their
    last replies. Clients that have not replied yet are at the initial model. Running statistics
    lack a gradient and are not coupled.

    A client without examples lacks a task and a column in W. It is sent the mean of the others'
    models, to which the coupling "mean" alone would lead it. Learned relations are m·I before the
    first reply.
    """

    name = "multi-task"
    keys: Keys

    def begin(self, arrays: Arrays) -> None:
        """Start all clients from the initial model."""
        self._start = arrays
        self._models: dict[int, Arrays] = {}
        self._idle: set[int] = set()
        self._couple()

    def sent_to(self, partition: int) -> Arrays:
        """w_k by parameter name, b_k as "pull/name" and a_k as "pull-weight"."""
        if partition in self._idle:
            return self._sent_to_idle
        return self._sent.get(partition, self._sent_to_new)

    def expected_reply(self, partition: int) -> Arrays:
        """w_k."""
        return self._start

    def aggregate(self, replies: Replies) -> None:
        """Store the models, and compute the coupling again."""
        for partition, update in replies.items():
            check_names(update.arrays, self._start)
            if update.weight:
                self._models[partition] = update.arrays
            else:
                self._idle.add(partition)
        self._couple()

    def _couple(self) -> None:
        """Compute the messages to all clients of the next round."""
        trained = sorted(self._models)
        count = max(len(self.clients) - len(self._idle), len(trained))
        models = [self._models[partition] for partition in trained]
        models += [self._start] * (count - len(trained))
        # On a busy machine several BLAS threads, which wait for each other, take many times as long
        # as one.
        with threadpool_limits(1, user_api="blas"):
            omega = self._omega(models)
            off_diagonal = omega - np.diag(omega.diagonal())
            # All clients that have not replied are sent the same arrays, so one row of Ω is enough
            # for them.
            rows = range(min(count, len(trained) + 1))
            messages: list[Arrays] = [{WEIGHT: omega[row, row].reshape(1)} for row in rows]
            idle: Arrays = {WEIGHT: np.zeros(1)}
            # one at a time, because float64 copies of all would be too large
            for name, array in self._start.items():
                columns = _columns(name, models)
                if models:
                    mean = columns.mean(axis=0)
                    idle[name] = mean.reshape(array.shape).astype(array.dtype)
                else:
                    idle[name] = array
                pulls = (off_diagonal[: len(messages)] @ columns).astype(array.dtype)
                for message, model, pull in zip(messages, models, pulls, strict=False):
                    message[name] = model[name]
                    if not is_buffer(name):
                        message[PULL + name] = pull.reshape(array.shape)
                if not is_buffer(name):
                    idle[PULL + name] = np.zeros_like(array)
        self._sent_to_new = messages.pop() if count > len(trained) else idle
        self._sent_to_idle = idle
        self._sent = dict(zip(trained, messages, strict=True))

    def _omega(self, models: Sequence[Arrays]) -> Floats:
        if self.keys.relations == "mean":
            return mean_relations(len(models))
        if not self._models:
            return len(models) * np.eye(len(models))
        gram = np.zeros((len(models), len(models)))
        # Sorted: parameters from a checkpoint have another order, which must not change the sums.
        for name in sorted(self._start):
            if not is_buffer(name):
                columns = _columns(name, models)
                gram += columns @ columns.T
        return learned_relations(gram)

    def state(self) -> Arrays:
        """The clients' models as "client/partition/name", the initial model as "start/name", and
        idle clients."""
        idle = np.array(sorted(self._idle), np.int64)
        return add_prefix(START, self._start) | join_groups(CLIENT, self._models) | {IDLE: idle}

    def load(self, state: Arrays) -> None:
        """Continue from stored models."""
        self._start = select_prefix(state, START)
        self._models = split_groups(state, CLIENT)
        self._idle = set(state[IDLE].tolist())
        self._couple()


def mean_relations(count: int) -> Floats:
    """Ω = (I − 11ᵀ/m)² (m, m), which is I − 11ᵀ/m: the coupling is Σ_k ‖w_k − w̄‖²/2 (Appendix
    B.1)."""
    return np.eye(count) - np.full((count, count), 1 / max(count, 1))


def learned_relations(gram: Floats) -> Floats:
    """Ω (m, m) that minimises tr(W Ω Wᵀ) under tr(Ω⁻¹) = 1: Ω⁻¹ = (WᵀW)^½/tr (WᵀW)^½ (Zhang &
    Yeung, 2010).

    If models are similar or have few parameters, WᵀW has eigenvalues near 0. So `RIDGE` times the
    mean eigenvalue is added to each eigenvalue of (WᵀW)^½, and no eigenvalue of Ω is above m (1 +
    1/RIDGE). The authors' code only raises eigenvalues below 0; networks that start from one model
    would then be pulled together at once.

    Parameters
    ----------
    gram : array (m, m)
        WᵀW.
    """
    values, vectors = np.linalg.eigh(gram)
    roots = np.sqrt(np.maximum(values, 0.0))
    if not roots.sum():
        return len(gram) * np.eye(len(gram))
    roots += RIDGE * roots.mean()
    return (vectors * (roots.sum() / roots)) @ vectors.T


def _columns(name: str, models: Sequence[Arrays]) -> Floats:
    """One array of all models, (m, size)."""
    columns = [model[name].ravel() for model in models]
    if columns:
        return np.stack(columns).astype(np.float64)
    return np.zeros((0, 0))


class FedMtlClient(Learner):
    """w_k ← w_k − η (∇f_k(w_k) + λ₁ (a_k w_k + b_k) + λ₂ w_k): steps on f_k + λ₁/2 tr(W Ω Wᵀ) +
    λ₂/2 ‖W‖² (Eq. 1).

    MOCHA solves the dual problem of a linear model. A network lacks one, so these are the client's
    usual steps, from w_k at the end of its last round, while all other models are fixed; the server
    sends a_k and b_k. The paper writes both terms without the factor 1/2, its authors' code writes
    the first one with it. λ₁ is `fedmtl.coupling`, λ₂ `fedmtl.ridge`; with both 0 each client
    trains alone.
    """

    keys: Keys

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self._pulls = {
            name: torch.zeros_like(local.tensors[name].detach())
            for name in local.shared
            if not is_buffer(name)
        }
        self._weight = 0.0

    def receive(self, arrays: Arrays) -> None:
        """w_k, b_k and a_k."""
        shared = super().share()
        pulls = add_prefix(PULL, {name: shared[name] for name in self._pulls})
        check_arrays(arrays, shared | pulls | {WEIGHT: np.zeros(1)})
        self._weight = float(arrays[WEIGHT][0])
        if self._weight < 0:
            raise MessageError(
                f"{WEIGHT} is {self._weight}; allowed is a number >= 0", key="weight"
            )
        load_arrays({name: arrays[name] for name in shared}, self.local.tensors)
        load_arrays(select_prefix(arrays, PULL), self._pulls)

    def gradient_terms(self) -> list[GradientTerm]:
        """The gradients of both terms, after the row's own terms."""
        return [*super().gradient_terms(), self._add_coupling]

    def _add_coupling(self) -> None:
        keys = self.keys
        for name, constant in self._pulls.items():
            parameter = self.local.trained.get(name)
            if parameter is not None and parameter.grad is not None:
                parameter.grad.add_(
                    parameter.detach(), alpha=keys.coupling * self._weight + keys.ridge
                )
                parameter.grad.add_(constant, alpha=keys.coupling)


METHODS = {
    "fedmtl": Method(
        "a model per client, coupled by the clients' relations: MOCHA for networks (Smith et al.,"
        " 2017)",
        space="flat",
        tasks=IMAGES,
        settings={"images": {"fine_tune_epochs": 0}},
        keys={"fedmtl": Keys},
        tuned={"images": {"fedmtl.coupling": (0.01, 1.0)}},
        server=FedMtlServer,
        client=FedMtlClient,
    ),
}

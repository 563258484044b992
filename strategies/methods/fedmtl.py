"""Federated multi-task learning (MOCHA, Smith et al., NIPS 2017) for networks: a model per client, coupled."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from threadpoolctl import threadpool_limits

from curvfed.strategies.base.aggregation import Aggregation, Replies
from curvfed.strategies.base.average import Arrays, check_names
from curvfed.strategies.base.deviations import is_buffer
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.learner import Learner, Local, load_arrays, select_prefix
from curvfed.strategies.base.method import IMAGES, Method
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.training import GradientTerm
from curvfed.strategies.wire.arrays import MessageError, check_arrays


class Keys(Table):
    """Keys of federated multi-task learning."""

    relations: Literal["mean", "learned"] = Field(
        default="mean",
        description="Omega of tr(W Omega W^T): mean draws every model to the mean of all; learned goes by how the models "
        "lie to each other",
    )
    coupling: Rate = Field(default=0.1, ge=0, description="lambda_1, of half that trace; 0 is training alone")
    ridge: Rate = Field(
        default=0.0, ge=0, description="lambda_2, of half the squares of all weights, beside weight-decay"
    )


Matrix = NDArray[np.float64]

PULL, WEIGHT = "pull/", "pull-weight"
"""Of client k, b_k by the names of parameters, and a_k: the gradient of the coupling in its model w is a_k w + b_k."""

RIDGE = 0.1
"""Of the mean eigenvalue of (WᵀW)^½, what is added to each before it is inverted."""


class FedMtlServer(Aggregation):
    """Every client has a model w_k of its own, and they are coupled by tr(W Ω Wᵀ)/2, W = [w_1, …, w_m] (Eq. 1).

    The server keeps the w_k and sends client k its own, with what the gradient Σ_j Ω_kj w_j of the coupling needs:
    a_k = Ω_kk and b_k = Σ_{j≠k} Ω_kj w_j, the others as of their last replies. A client that has not replied yet is at the
    start. Running statistics have no gradient, and are each client's own.

    A client without examples has no task and no column in W. It is sent the mean of the others, which is what the coupling
    by "mean" alone would make of it.

    Parameters
    ----------
    arrays : dict of str to array
        The start.
    relations : str
        "mean" or "learned": Ω by `mean_relations` or `learned_relations`, which before the first reply is I·m.
    clients : int
        How many there are.
    """

    def __init__(self, arrays: Arrays, relations: str, clients: int) -> None:
        self._start, self._is_learned, self._clients = arrays, relations == "learned", clients
        self._models: dict[int, Arrays] = {}
        self._idle: set[int] = set()
        self._couple()

    def sent_to(self, partition: int) -> Arrays:
        """w_k under the parameters' names, b_k as "pull/name" and a_k as "pull-weight"."""
        if partition in self._idle:
            return self._idle_sent
        return self._sent.get(partition, self._unheard)

    def expected_reply(self, partition: int) -> Arrays:
        """w_k alone."""
        return self._start

    def aggregate(self, replies: Replies) -> None:
        """Note the models, and relate them anew."""
        for partition, update in replies.items():
            check_names(update.arrays, self._start)
            if update.examples:
                self._models[partition] = update.arrays
            else:
                self._idle.add(partition)
        self._couple()

    def _couple(self) -> None:
        """What everybody is sent from now on."""
        heard = sorted(self._models)
        count = max(self._clients - len(self._idle), len(heard))
        models = [self._models[partition] for partition in heard] + [self._start] * (count - len(heard))
        # On a busy machine BLAS threads that wait for each other take many times as long as one.
        with threadpool_limits(1, user_api="blas"):
            omega = self._omega(models, bool(heard))
            others = omega - np.diag(omega.diagonal())
            # Those that were never heard of are sent the same.
            letters: list[Arrays] = [{WEIGHT: omega[place, place].reshape(1)} for place in range(count)][
                : len(heard) + 1
            ]
            idle: Arrays = {WEIGHT: np.zeros(1)}
            for name, array in self._start.items():  # one by one: all in float64 would be many times what is sent
                columns = _columns(name, models)
                idle[name] = columns.mean(axis=0).reshape(array.shape).astype(array.dtype) if models else array
                pulls = (others[: len(letters)] @ columns).astype(array.dtype)
                for letter, model, pull in zip(letters, models, pulls, strict=False):
                    letter[name] = model[name]
                    if not is_buffer(name):
                        letter[PULL + name] = pull.reshape(array.shape)
                if not is_buffer(name):
                    idle[PULL + name] = np.zeros_like(array)
        self._unheard = letters.pop() if count > len(heard) else idle
        self._idle_sent, self._sent = idle, dict(zip(heard, letters, strict=True))

    def _omega(self, models: Sequence[Arrays], are_heard: bool) -> Matrix:
        if not self._is_learned:
            return mean_relations(len(models))
        if not are_heard:
            return len(models) * np.eye(len(models))
        gram = np.zeros((len(models), len(models)))
        # By name: models from a checkpoint have their parameters in another order, and sums must not tell.
        for name in sorted(self._start):
            if not is_buffer(name):
                columns = _columns(name, models)
                gram += columns @ columns.T
        return learned_relations(gram)

    def state(self) -> Arrays:
        """Every model that was heard of as "client/partition/name", the start as "start/name", and who has no examples."""
        found = {f"start/{name}": array for name, array in self._start.items()}
        for partition, model in sorted(self._models.items()):
            found |= {f"client/{partition}/{name}": array for name, array in model.items()}
        return found | {"idle": np.array(sorted(self._idle), np.int64)}

    def load(self, state: Arrays) -> None:
        """Go on from stored models."""
        self._start, self._models = {}, {}
        for key, array in state.items():
            kind, _, rest = key.partition("/")
            if kind == "start":
                self._start[rest] = array
            elif kind == "client":
                partition, _, name = rest.partition("/")
                self._models.setdefault(int(partition), {})[name] = array
        self._idle = set(state["idle"].tolist())
        self._couple()


def mean_relations(count: int) -> Matrix:
    """Ω = (I − 11ᵀ/m)² (m, m), which is I − 11ᵀ/m: the coupling is Σ_k ‖w_k − w̄‖²/2 (Appendix B.1)."""
    omega: Matrix = np.eye(count) - np.full((count, count), 1 / max(count, 1))
    return omega


def learned_relations(gram: Matrix) -> Matrix:
    """Ω (m, m) of least tr(W Ω Wᵀ) among those with tr(Ω⁻¹) = 1: Ω⁻¹ = (WᵀW)^½/tr (WᵀW)^½ (Zhang & Yeung, 2010).

    Where models are alike or few numbers make them up, WᵀW has eigenvalues of nearly 0. So `RIDGE` times the mean
    eigenvalue is added to each of (WᵀW)^½, and no eigenvalue of Ω is above m (1 + 1/RIDGE). The authors' code lifts
    eigenvalues below 0 alone; networks, which have one start, would then be pulled together at once.

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
    omega: Matrix = (vectors * (roots.sum() / roots)) @ vectors.T
    return omega


def _columns(name: str, models: Sequence[Arrays]) -> Matrix:
    """(m, n) of an array of n numbers."""
    found = [model[name].ravel() for model in models]
    return np.stack(found).astype(np.float64) if found else np.zeros((0, 0))


class FedMtlClient(Learner):
    """w_k ← w_k − η (∇f_k(w_k) + λ₁ (a_k w_k + b_k) + λ₂ w_k): steps on f_k + λ₁/2 tr(W Ω Wᵀ) + λ₂/2 ‖W‖² (Eq. 1).

    MOCHA solves the dual of a linear model's problem; a network has none, so these are the clients' usual steps, from w_k
    as the last round left it. All other models rest meanwhile: a_k and b_k come from the server
    (`curvfed.strategies.methods.fedmtl`). The paper writes both terms without the halves, its authors' code the first with
    it. λ₁ is `fedmtl.coupling`, λ₂ `fedmtl.ridge`; with both 0 each client trains alone.

    Parameters
    ----------
    local : Local
    """

    keys: Keys

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self._pulls = {
            name: torch.zeros_like(local.tensors[name].detach()) for name in local.shared if not is_buffer(name)
        }
        self._weight = 0.0

    def receive(self, arrays: Arrays) -> None:
        """w_k, b_k and a_k."""
        own = self.share()
        pulls = {f"{PULL}{name}": own[name] for name in self._pulls}
        check_arrays(arrays, own | pulls | {WEIGHT: np.zeros(1)})
        if not arrays[WEIGHT][0] >= 0:
            raise MessageError(f"{WEIGHT} is {arrays[WEIGHT][0]}; allowed is a number >= 0")
        load_arrays({name: arrays[name] for name in own}, self.local.tensors)
        load_arrays(select_prefix(arrays, PULL), self._pulls)
        self._weight = float(arrays[WEIGHT][0])

    def gradient_terms(self) -> list[GradientTerm]:
        """The gradients of both terms, beside what others ask for."""
        return [*super().gradient_terms(), self._pull]

    def _pull(self) -> None:
        keys = self.keys
        for name, constant in self._pulls.items():
            parameter = self.local.trained.get(name)
            if parameter is not None and parameter.grad is not None:
                parameter.grad.add_(parameter.detach(), alpha=keys.coupling * self._weight + keys.ridge)
                parameter.grad.add_(constant, alpha=keys.coupling)


def server(arrays: Arrays, keys: Keys, run: RunKeys, clients: int) -> Aggregation:
    """The server's half of a run."""
    return FedMtlServer(arrays, keys.relations, clients)


METHODS = {
    "fedmtl": Method(
        "a model per client, coupled by how the clients are related: MOCHA for networks (Smith et al., 2017)",
        space="flat",
        aggregation="multi-task",
        tasks=IMAGES,
        settings={"images": {"fine_tune_epochs": 0}},
        keys={"fedmtl": Keys},
        server=server,
        client=FedMtlClient,
    ),
}

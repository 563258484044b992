"""APPLE's local work (Luo & Wu, IJCAI 2022): a model combined of all clients' core models, by weights that are learnt."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from curvfed.strategies.apple import CORE, SHARES
from curvfed.strategies.base.deviations import is_buffer
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.learner import Arrays, Learner, Local, copy_in, host, part
from curvfed.strategies.base.own_model import OWN
from curvfed.strategies.base.training import Optimizer, Trained, make_optimizer, train
from curvfed.strategies.config.model_spec import named_state
from curvfed.strategies.config.schedule import apple_rounds
from curvfed.strategies.wire.arrays import MessageError, check_arrays

LAST = "last/"
"""What the names of the cores begin with that a client keeps, where it is not sent all of them."""


class Apple(Learner):
    """The model θ = Σ_j p_ij w_j, of which a step changes the client's own core w_i and the relations p_i: Algorithm 1.

    With g = ∇f(θ), w_i goes along p_ii g, and p_ij along ⟨g, w_j⟩ + λ(r) μ (p_ij − p_0j); the others' cores rest. Both
    steps are those of the run's optimiser, with moments of their own that start afresh in every round: w_i's at
    `learning-rate` and with weight decay, p_i's at `apple.rate` and without; a schedule shortens both. λ(r) falls from 1
    to 0 along half a cosine over the first `apple.last` of the rounds, as in the authors' code.

    p_0j, the share of client j in all training examples, comes with the cores. What lives on here is p_i − p_0, which is 0
    at the start; p_0 stands still once all clients have replied. θ is kept too, for predictions. With `apple.cores` the
    last core that came of every client is kept and takes part, as in the authors' code. Running statistics of θ begin at
    the clients' weighted by p_0, for by p_i a variance could be below 0.

    Parameters
    ----------
    local : Local

    Raises
    ------
    ConfigError
        If the client came when the others had begun: their relations have no room for it.
    """

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self._clients = local.partitions or (local.partition,)
        if local.partition not in self._clients:
            raise ConfigError(
                f"partition {local.partition}: allowed with apple are those that the run began with, {self._clients}"
            )
        self._place, count = self._clients.index(local.partition), len(self._clients)
        like = next(iter(local.trained.values()))
        self._relations = nn.Parameter(torch.zeros(count, dtype=like.dtype, device=like.device))
        self._shares = torch.full_like(self._relations.detach(), 1 / count)
        self._core = {name: local.tensors[name].detach().clone() for name in local.shared}
        self._last: dict[str, Tensor] = {}
        if 0 < local.config.apple.cores < count - 1:
            self._last = {name: torch.stack([core] * count) for name, core in self._core.items()}
        self._sent: Arrays = {}

    def kept(self) -> dict[str, Tensor]:
        """p_i − p_0 (m,), θ, and with `apple.cores` the others' cores (m, …)."""
        own = {f"{OWN}{name}": tensor for name, tensor in self.local.tensors.items()}
        return {"relations": self._relations} | own | {f"{LAST}{name}": cores for name, cores in self._last.items()}

    def receive(self, arrays: Arrays) -> None:
        """Cores and shares; θ is combined of them."""
        self._check(arrays)
        copy_in(_core(arrays, self.local.partition), self._core)
        self._shares.copy_(torch.tensor(arrays[SHARES]))
        for place, partition in enumerate(self._clients):
            if self._last:
                copy_in(core := _core(arrays, partition), {name: self._last[name][place] for name in core})
        self._sent = {} if self._last else arrays
        self._combine(self._cores(), self.local.shared)

    def _check(self, arrays: Arrays) -> None:
        core = {name: host(tensor) for name, tensor in self._core.items()}
        came = {name.split("/")[1] for name in arrays if name.startswith(CORE)} | {str(self.local.partition)}
        wanted = [partition for partition in self._clients if not self._last or str(partition) in came]
        expected = {f"{CORE}{partition}/{name}": array for partition in wanted for name, array in core.items()}
        check_arrays(arrays, expected | {SHARES: np.zeros(len(self._clients))})
        if (arrays[SHARES] < 0).any():
            raise MessageError(f"{SHARES} has values below 0; allowed are shares, 0 or more")

    def _cores(self) -> dict[str, Tensor]:
        """All clients' (m, …), by the names of the parameters."""
        if self._last:
            return self._last
        return {
            name: torch.tensor(np.stack([self._sent[f"{CORE}{partition}/{name}"] for partition in self._clients])).to(
                core.device
            )
            for name, core in self._core.items()
        }

    @torch.no_grad()
    def _combine(self, cores: Mapping[str, Tensor], names: Iterable[str]) -> None:
        """θ, of these names."""
        relations = self._shares + self._relations
        for name in names:
            weights = self._shares if is_buffer(name) else relations
            tensor = self.local.tensors[name]
            tensor.copy_((weights @ cores[name].flatten(1)).view_as(tensor))

    def train(self) -> Trained:
        """Epochs of steps of w_i and p_i."""
        local, config = self.local, self.local.config
        cores, penalty = self._cores(), self._penalty()
        own = {name: nn.Parameter(cores[name][self._place]) for name in local.trained}  # views: the stack moves along

        def spread() -> None:
            relations = penalty * self._relations.detach()
            for name, parameter in local.trained.items():
                if parameter.grad is not None:
                    relations += cores[name].flatten(1) @ parameter.grad.flatten()
                    own[name].grad = parameter.grad * (self._shares + self._relations.detach())[self._place]
            self._relations.grad = relations

        of_core = make_optimizer(own, config)
        of_core.learning_rate = local.optimizer.learning_rate
        of_relations = make_optimizer({"relations": self._relations}, config.model_copy(update={"weight_decay": 0.0}))
        of_relations.learning_rate = config.apple.rate * local.optimizer.learning_rate / config.learning_rate
        steps = _Behind(
            local.trained.values(), spread, (of_core, of_relations), lambda: self._combine(cores, local.trained)
        )
        loss = train(local.model, local.task, steps, config.local_epochs, (), config.clip_norm, self.loss)
        for name, core in self._core.items():
            core.copy_((local.tensors[name] if is_buffer(name) else cores[name][self._place]).detach())
        self._sent = {}  # it may be as large as all models together
        return Trained(loss, config.local_epochs * local.task.num_steps)

    def _penalty(self) -> float:
        """λ(r) μ."""
        config = self.local.config
        done, last = self.round - 1, apple_rounds(config)
        return config.apple.mu * (1 + math.cos(math.pi * done / last)) / 2 if done < last else 0.0

    def share(self) -> dict[str, NDArray[Any]]:
        """w_i."""
        return {name: host(tensor) for name, tensor in self._core.items()}

    @staticmethod
    def restored(model: nn.Module, kept: Arrays) -> nn.Module:
        """θ as it was kept."""
        copy_in(part(kept, OWN), named_state(model))
        return model


class _Behind:
    """Steps of what a model's parameters are made of, in the place of steps of these.

    Parameters
    ----------
    parameters : iterable of Parameter
        The model's.
    spread : callable
        Makes gradients of theirs.
    optimizers : sequence of Optimizer
        Who step along them.
    make : callable
        Makes the parameters anew.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        spread: Callable[[], None],
        optimizers: Sequence[Optimizer],
        make: Callable[[], None],
    ) -> None:
        self._parameters, self._spread, self._optimizers, self._make = list(parameters), spread, optimizers, make

    def zero_grad(self) -> None:
        """Drop the gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    def step(self) -> None:
        """One step of each optimiser."""
        self._spread()
        for optimizer in self._optimizers:
            optimizer.step()
        self._make()


def _core(arrays: Arrays, partition: int) -> dict[str, NDArray[Any]]:
    """A client's core, if it came."""
    return part(arrays, f"{CORE}{partition}/")


LEARNER = Apple

"""APPLE (Luo & Wu, IJCAI 2022): each client combines all clients' core models by weights that it learns."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from curvfed.strategies.base.aggregation import Aggregation, Replies
from curvfed.strategies.base.average import Arrays, check_names
from curvfed.strategies.base.deviations import is_buffer
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.learner import Learner, Local, load_arrays, select_prefix, to_numpy
from curvfed.strategies.base.method import IMAGES, Method
from curvfed.strategies.base.model_state import named_state
from curvfed.strategies.base.own_model import OWN
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.training import Optimizer, Trained, make_optimizer, train
from curvfed.strategies.wire.arrays import MessageError, check_arrays


class Keys(Table):
    """Keys of APPLE."""

    rate: Rate = Field(default=0.001, ge=0, description="learning rate of a client's weights for all clients' models")
    mu: Rate = Field(
        default=0.001,
        ge=0,
        description="mu of the term mu/2 ||p - p_0||^2, which draws these weights to the shares of examples. .001 is "
        "HyperFed's choice (Appendix B); the authors use .1 and less",
    )
    last: Rate = Field(
        default=0.2, ge=0, le=1, description="L, share of the rounds over which the term falls to 0, by half a cosine"
    )
    cores: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="models of others that a client is sent in a round, in turn, 0: all. It keeps what came last of each",
    )


CORE, SHARES = "core/", "shares"
"""What the names of core models begin with, before "partition/name"; and that of the clients' shares of all examples."""

UNKNOWN = -1
"""The number of examples of a client that has not replied yet."""


class AppleServer(Aggregation):
    """Nothing is averaged: a client's reply takes the place of its core model w_j, and every client gets all of them.

    What a client makes of them is its own affair; beside them it is sent the
    shares p₀ of all training examples, which its combination starts from; with `weights = "uniform"` all are alike.
    They are known from the replies: a client that has not replied yet counts as many as the others have on average, and
    its core is the start that all have in common. (The authors' cores start apart, by a draw each; the sum of such is
    smaller than any of them.)

    Under limited bandwidth a client gets M cores of others in a round. The authors choose first those that it never got,
    then by chance, with odds that grow a little with |p_ij|. These stay at the client here, so the server goes through the
    others in a seeded order, and through another when it is at its end; a client that does not reply loses no turn.

    Parameters
    ----------
    arrays : dict of str to array
        The start.
    most : int
        M; 0 for all.
    seed : int
    """

    def __init__(self, arrays: Arrays, most: int, seed: int) -> None:
        self._start, self._most, self._seed = arrays, most, seed
        self.set_clients(())

    def set_clients(self, partitions: Sequence[int]) -> None:
        """Give every client the start."""
        self._cores = dict.fromkeys(partitions, self._start)
        self._sizes = dict.fromkeys(partitions, UNKNOWN)
        self._turns = dict.fromkeys(partitions, 0)
        self._sent: dict[tuple[int, ...], Arrays] = {}

    def sent_to(self, partition: int) -> Arrays:
        """Cores as "core/partition/name", and the shares in the order of the partitions, float64."""
        chosen = tuple(self._chosen(partition))
        if chosen not in self._sent:
            cores = {f"{CORE}{one}/{name}": array for one in chosen for name, array in self._cores[one].items()}
            self._sent[chosen] = cores | {SHARES: self._shares()}
        return self._sent[chosen]

    def _chosen(self, partition: int) -> list[int]:
        others = [one for one in self._cores if one != partition]
        if not self._most or self._most >= len(others):
            return list(self._cores)
        first = self._turns.get(partition, 0) * self._most
        chosen = {partition} & self._cores.keys()
        for turn in range(first, first + self._most):
            cycle, place = divmod(turn, len(others))
            order = np.random.default_rng([self._seed, partition, cycle]).permutation(len(others))
            chosen.add(others[order[place]])
        return sorted(chosen)

    def _shares(self) -> NDArray[np.float64]:
        """p₀ (m,)."""
        sizes = np.array(list(self._sizes.values()), np.float64)
        known = sizes != UNKNOWN
        if sizes[known].sum() == 0:  # nobody is known to have any
            return np.full(len(sizes), 1 / max(len(sizes), 1))
        sizes[~known] = sizes[known].mean()
        shares: NDArray[np.float64] = sizes / sizes.sum()
        return shares

    def expected_reply(self, partition: int) -> Arrays:
        """The client's own core, under the parameters' names."""
        return self._start

    def aggregate(self, replies: Replies) -> None:
        """Put the replies of those with examples in the place of their cores."""
        for partition, update in replies.items():
            check_names(update.arrays, self._start)
            self._sizes[partition] = update.examples
            self._turns[partition] += 1
            if update.examples:
                self._cores[partition] = update.arrays
        self._sent = {}

    def state(self) -> Arrays:
        """Every core as "core/partition/name", and who was heard: partition, examples and number of replies (m, 3)."""
        cores = {f"{CORE}{p}/{name}": array for p, core in self._cores.items() for name, array in core.items()}
        heard = [(partition, size, self._turns[partition]) for partition, size in self._sizes.items()]
        return cores | {"heard": np.array(heard, np.int64).reshape(-1, 3)}

    def load(self, state: Arrays) -> None:
        """Go on from stored cores."""
        self.set_clients([int(partition) for partition in state["heard"][:, 0]])
        for partition, size, turns in state["heard"].tolist():
            self._sizes[partition], self._turns[partition] = size, turns
            self._cores[partition] = {name: state[f"{CORE}{partition}/{name}"] for name in self._start}


LAST = "last/"
"""What the names of the cores begin with that a client keeps, where it is not sent all of them."""


class AppleClient(Learner):
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

    keys: Keys

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
        if 0 < self.keys.cores < count - 1:
            self._last = {name: torch.stack([core] * count) for name, core in self._core.items()}
        self._sent: Arrays = {}

    def local_state(self) -> dict[str, Tensor]:
        """p_i − p_0 (m,), θ, and with `apple.cores` the others' cores (m, …)."""
        own = {f"{OWN}{name}": tensor for name, tensor in self.local.tensors.items()}
        return {"relations": self._relations} | own | {f"{LAST}{name}": cores for name, cores in self._last.items()}

    def receive(self, arrays: Arrays) -> None:
        """Cores and shares; θ is combined of them."""
        self._check(arrays)
        load_arrays(_core(arrays, self.local.partition), self._core)
        self._shares.copy_(torch.tensor(arrays[SHARES]))
        for place, partition in enumerate(self._clients):
            if self._last:
                load_arrays(core := _core(arrays, partition), {name: self._last[name][place] for name in core})
        self._sent = {} if self._last else arrays
        self._combine(self._cores(), self.local.shared)

    def _check(self, arrays: Arrays) -> None:
        core = {name: to_numpy(tensor) for name, tensor in self._core.items()}
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
        scheduled = local.optimizer.learning_rate / config.learning_rate if config.learning_rate else 0.0
        of_relations.learning_rate = self.keys.rate * scheduled
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
        done, last = self.round - 1, penalty_rounds(self.keys, self.local.config.num_rounds)
        return self.keys.mu * (1 + math.cos(math.pi * done / last)) / 2 if done < last else 0.0

    def share(self) -> dict[str, NDArray[Any]]:
        """w_i."""
        return {name: to_numpy(tensor) for name, tensor in self._core.items()}

    @staticmethod
    def restored(model: nn.Module, kept: Arrays) -> nn.Module:
        """θ as it was kept."""
        load_arrays(select_prefix(kept, OWN), named_state(model))
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
    return select_prefix(arrays, f"{CORE}{partition}/")


def penalty_rounds(keys: Keys, num_rounds: int) -> int:
    """First rounds in which the penalty is not 0."""
    return int(num_rounds * keys.last) if keys.mu else 0


def server(arrays: Arrays, keys: Keys, run: RunKeys, clients: int) -> Aggregation:
    """The server's half of a run."""
    return AppleServer(arrays, keys.cores, run.seed)


METHODS = {
    "apple": Method(
        "each client combines all clients' core models by weights that it learns (Luo & Wu, 2022)",
        space="flat",
        own_model=True,
        lists_clients=True,
        aggregation="apple",
        tasks=IMAGES,
        settings={"images": {"fine_tune_epochs": 0}},
        keys={"apple": Keys},
        server=server,
        rounds_set=penalty_rounds,
        client=AppleClient,
    ),
}

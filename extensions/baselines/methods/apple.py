"""APPLE (Luo & Wu, IJCAI 2022): each client combines all clients' core models by weights that it
learns."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from curvfed.extensions.baselines.own_model import OWN, OwnModel
from curvfed.geometry.arrays import Floats
from curvfed.strategies.base.aggregation import Aggregation, Replies, check_names
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.learner import Learner, Local
from curvfed.strategies.base.method import IMAGES, Method
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.statistics import (
    Arrays,
    add_prefix,
    is_buffer,
    join_groups,
    split_groups,
)
from curvfed.strategies.base.tensors import load_arrays
from curvfed.strategies.base.training import Trained, make_optimizer, train
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.checks import MessageError, check_arrays


class Keys(Table):
    """Keys of APPLE."""

    rate: Rate = Field(default=0.001, ge=0)
    """learning rate of a client's weights for all clients' models"""
    mu: Rate = Field(default=0.001, ge=0)
    """mu of the term mu/2 ||p - p_0||^2, which draws these weights to the shares of examples. .001
    is HyperFed's choice (Appendix B); the authors use .1 and less"""
    last: Rate = Field(default=0.2, ge=0, le=1)
    """L, share of the rounds over which the term falls to 0, along half a cosine"""
    cores: int = Field(default=0, ge=0, le=1_000_000)
    """number of other clients' models that a client receives per round, in turn; 0: all. It keeps
    the latest of each"""

    def rounds_set(self, num_rounds: int) -> int:
        """The number of first rounds in which the penalty is not 0."""
        return int(num_rounds * self.last) if self.mu else 0

    def conflicts(self, config: RunKeys) -> Iterator[tuple[str, str]]:
        """Its steps have a penalty of their own."""
        if config.proximal:
            yield "proximal method", "proximal = 0.0, for its steps have a penalty of their own"


CORE = "core/"
SHARES = "shares"
"""Prefix of the names of core models, followed by "partition/name"; and the name of the clients'
shares of all examples."""

HISTORY = "heard"
"""Name of the state's table of clients: partition, examples and number of replies."""

LAST = "last/"
"""Prefix of the names of the other clients' cores that a client keeps if it receives only some per
round."""

UNKNOWN = -1
"""Number of examples of a client that has not replied yet."""


class AppleServer(Aggregation):
    """A client's reply replaces its core model w_j, and every client receives all core models;
    nothing is averaged.

    Clients also get the shares p₀ of all training examples, the start of their combinations;
    with `weights = "uniform"` all shares are equal. A client that has not replied yet counts as the
    mean of the others, and its core is the common initial model. (The authors draw a different
    initial core for each client.)

    Under limited bandwidth a client gets M = `apple.cores` cores of other clients (0 for all).
    The authors first choose the cores that the client never got, then draw at random with odds that
    grow a little with |p_ij|. Here the p_ij stay at the client, so the server goes through the
    others in a seeded order, and draws a new order after each cycle. A client that does not reply
    loses no turn.
    """

    keys: Keys

    def begin(self, arrays: Arrays) -> None:
        """Start every client at the initial model."""
        self._start = arrays
        self._begin_clients(self.clients)

    def _begin_clients(self, partitions: Sequence[int]) -> None:
        self._cores = dict.fromkeys(partitions, self._start)
        self._sizes = dict.fromkeys(partitions, UNKNOWN)
        self._turns = dict.fromkeys(partitions, 0)
        self._sent: dict[tuple[int, ...], Arrays] = {}

    def sent_to(self, partition: int) -> Arrays:
        """Cores as "core/partition/name", and the shares in the order of the partitions,
        float64.
        """
        chosen = tuple(self._chosen(partition))
        if chosen not in self._sent:
            cores = join_groups(CORE, {client: self._cores[client] for client in chosen})
            self._sent[chosen] = cores | {SHARES: self._shares()}
        return self._sent[chosen]

    def _chosen(self, partition: int) -> list[int]:
        """The clients that provide cores to this client."""
        peers = [client for client in self._cores if client != partition]
        count = self.keys.cores
        if not count or count >= len(peers):
            return list(self._cores)
        first = self._turns.get(partition, 0) * count
        chosen = {partition} & self._cores.keys()
        for turn in range(first, first + count):
            cycle, place = divmod(turn, len(peers))
            order = np.random.default_rng([self.config.seed, partition, cycle]).permutation(
                len(peers)
            )
            chosen.add(peers[order[place]])
        return sorted(chosen)

    def _shares(self) -> Floats:
        """p₀ (m,)."""
        sizes = np.array(list(self._sizes.values()), np.float64)
        is_reported = sizes != UNKNOWN
        if sizes[is_reported].sum() == 0:  # no client is known to have examples
            return np.full(len(sizes), 1 / max(len(sizes), 1))
        sizes[~is_reported] = sizes[is_reported].mean()
        return sizes / sizes.sum()

    def expected_reply(self, partition: int) -> Arrays:
        """The client's own core, by parameter name."""
        return self._start

    def aggregate(self, replies: Replies) -> None:
        """Replace the cores of the clients that replied and have examples."""
        for partition, update in replies.items():
            check_names(update.arrays, self._start)
            self._sizes[partition] = update.weight
            self._turns[partition] += 1
            if update.weight:
                self._cores[partition] = update.arrays
        self._sent = {}

    def state(self) -> Arrays:
        """Every core as "core/partition/name"; partition, examples and number of replies of each
        client (m, 3)."""
        history = [
            (partition, size, self._turns[partition]) for partition, size in self._sizes.items()
        ]
        return join_groups(CORE, self._cores) | {
            HISTORY: np.array(history, np.int64).reshape(-1, 3)
        }

    def load(self, state: Arrays) -> None:
        """Continue from stored cores."""
        self._begin_clients(state[HISTORY][:, 0].tolist())
        self._cores |= split_groups(state, CORE)
        for partition, size, turns in state[HISTORY].tolist():
            self._sizes[partition] = size
            self._turns[partition] = turns


class AppleClient(Learner):
    """The model is θ = Σ_j p_ij w_j. A step changes the client's own core w_i and its relations p_i
    (Algorithm 1).

    With g = ∇f(θ), the gradient of w_i is p_ii g, and that of p_ij is ⟨g, w_j⟩ + λ(r) μ (p_ij −
    p_0j); the others' cores do not change. Both use the run's kind of optimiser, with new moments
    in every round: w_i with `learning-rate` and weight decay, p_i with `apple.rate` and no weight
    decay; a schedule scales both rates. SGD's rate of w_i counts once for each client, as in
    PFLlib: p_ii starts near 1/m, and would make the steps of w_i that much shorter than FedAvg's.
    λ(r) falls from 1 to 0 along half a cosine over the first `apple.last` of the rounds, as in the
    authors' code.

    p_0j, client j's share of all training examples, is sent with the cores. The client keeps p_i −
    p_0, which is 0 at the start; p_0 is constant once all clients have replied. θ is kept too, for
    predictions. With `apple.cores` the client keeps the last core that it got of every other client
    and uses it, as in the authors' code. Running statistics of θ start at the clients' mean
    weighted by p_0; weighted by p_i a variance could be negative. A client that joins after the run
    began is refused (ConfigError): the others' relations lack an entry for it.
    """

    keys: Keys
    own_model = True
    lists_clients = True

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self._clients = local.partitions or (local.partition,)
        if local.partition not in self._clients:
            raise ConfigError(
                f"partition {local.partition}: allowed with apple are the clients that the run"
                f" began with, {self._clients}",
                key="new-client",
            )
        self.place = self._clients.index(local.partition)
        count = len(self._clients)
        like = next(iter(local.trained.values()))
        # p_i - p_0
        self.relations = nn.Parameter(torch.zeros(count, dtype=like.dtype, device=like.device))
        self.shares = torch.full_like(self.relations.detach(), 1 / count)
        self._core = {name: local.tensors[name].detach().clone() for name in local.shared}
        self._last: dict[str, Tensor] = {}
        if 0 < self.keys.cores < count - 1:
            self._last = {name: torch.stack([core] * count) for name, core in self._core.items()}
        self._sent: dict[int, Arrays] = {}

    def local_state(self) -> dict[str, Tensor]:
        """p_i − p_0 (m,), θ, and with `apple.cores` the others' cores (m, …)."""
        state: dict[str, Tensor] = {"relations": self.relations}
        state |= add_prefix(OWN, self.local.tensors)
        state |= add_prefix(LAST, self._last)
        return state

    def receive(self, arrays: Arrays) -> None:
        """Cores and shares; θ is combined from them."""
        self._check(arrays)
        self.shares.copy_(torch.tensor(arrays[SHARES]))
        received = split_groups(arrays, CORE)
        load_arrays(received[self.local.partition], self._core)
        if self._last:
            for partition, core in received.items():
                place = self._clients.index(partition)
                load_arrays(core, {name: cores[place] for name, cores in self._last.items()})
        else:
            self._sent = received
        self.combine(self._cores(), self.local.shared)

    def _check(self, arrays: Arrays) -> None:
        core = {name: tensor.numpy(force=True) for name, tensor in self._core.items()}
        senders = list(self._clients)
        if self._last:
            received = {name.split("/")[1] for name in arrays if name.startswith(CORE)}
            received.add(str(self.local.partition))
            senders = [partition for partition in senders if str(partition) in received]
        expected = join_groups(CORE, dict.fromkeys(senders, core))
        check_arrays(arrays, expected | {SHARES: np.zeros(len(self._clients))})
        if (arrays[SHARES] < 0).any():
            raise MessageError(
                f"{SHARES} has values below 0; allowed are shares, 0 or more", key="shares"
            )

    def _cores(self) -> dict[str, Tensor]:
        """All clients' cores (m, …), by parameter name."""
        if self._last:
            return self._last
        cores: dict[str, Tensor] = {}
        for name, core in self._core.items():
            stacked = np.stack([self._sent[partition][name] for partition in self._clients])
            cores[name] = torch.tensor(stacked).to(core.device)
        return cores

    @torch.no_grad()
    def combine(self, cores: Mapping[str, Tensor], names: Iterable[str]) -> None:
        """Compute the tensors of θ that have these names."""
        relations = self.shares + self.relations
        for name in names:
            weights = self.shares if is_buffer(name) else relations
            tensor = self.local.tensors[name]
            tensor.copy_((weights @ cores[name].flatten(1)).view_as(tensor))

    def train(self) -> Trained:
        """Epochs of steps of w_i and p_i."""
        local = self.local
        config = self.local.config
        cores = self._cores()
        steps = _CoreSteps(self, cores)
        loss = train(
            local.model,
            local.task,
            steps,
            config.local_epochs,
            clip_norm=config.clip_norm,
            loss=self.loss,
        )
        for name, core in self._core.items():
            trained = local.tensors[name] if is_buffer(name) else cores[name][self.place]
            core.copy_(trained.detach())
        self._sent = {}  # as large as all clients' models together
        return Trained(loss, config.local_epochs * local.task.num_steps)

    @property
    def penalty(self) -> float:
        """λ(r) μ."""
        done = self.round - 1
        last = self.keys.rounds_set(self.local.config.num_rounds)
        if done < last:
            return self.keys.mu * (1 + math.cos(math.pi * done / last)) / 2
        return 0.0

    def share(self) -> Arrays:
        """w_i."""
        return {name: tensor.numpy(force=True) for name, tensor in self._core.items()}

    @staticmethod
    def restored(model: nn.Module, state: Arrays) -> nn.Module:
        """The stored θ."""
        return OwnModel.restored(model, state)


class _CoreSteps:
    """Steps of w_i and p_i along the gradient of θ; each one changes the client's row of `cores`
    and combines θ again."""

    def __init__(self, learner: AppleClient, cores: Mapping[str, Tensor]) -> None:
        local = learner.local
        config = learner.local.config
        self._learner = learner
        self._cores = cores
        self._trained = local.trained
        # views of `cores`
        self._own = {name: nn.Parameter(cores[name][learner.place]) for name in local.trained}
        of_core = make_optimizer(self._own, config)
        of_core.learning_rate = local.optimizer.learning_rate * (
            len(learner.shares) if config.optimizer == "sgd" else 1
        )
        undecayed = config.model_copy(update={"weight_decay": 0.0})
        of_relations = make_optimizer({"relations": learner.relations}, undecayed)
        scheduled = (
            local.optimizer.learning_rate / config.learning_rate if config.learning_rate else 0.0
        )
        of_relations.learning_rate = learner.keys.rate * scheduled
        self._optimizers = of_core, of_relations
        self.zero_grad = local.optimizer.zero_grad  # the gradients of θ

    def step(self) -> None:
        """One step of both, and the new θ."""
        learner = self._learner
        relations = self._learner.relations
        gradient = learner.penalty * relations.detach()
        for name, parameter in self._trained.items():
            if parameter.grad is not None:
                gradient += self._cores[name].flatten(1) @ parameter.grad.flatten()
                self._own[name].grad = (
                    parameter.grad * (learner.shares + relations.detach())[learner.place]
                )
        relations.grad = gradient
        for optimizer in self._optimizers:
            optimizer.step()
        learner.combine(self._cores, self._trained)


METHODS = {
    "apple": Method(
        "each client combines all clients' core models by weights that it learns (Luo & Wu, 2022)",
        space="flat",
        tasks=IMAGES,
        # With momentum, steps at .02 are too long where the client's weights have grown: by
        # validation on MNIST and digits, two seeds each, .01 is the best of .001 to .1.
        settings={"images": {"fine_tune_epochs": 0, "learning_rate": 0.01}},
        keys={"apple": Keys},
        tuned={"images": {"apple.rate": (0.0001, 0.01)}},
        server=AppleServer,
        client=AppleClient,
    ),
}

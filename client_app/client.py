"""A client in its process: data and model are set up once, the personal state has a known round."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from curvfed.client_app.data import check_fits, load_data, make_task, statistics
from curvfed.client_app.guard import ClientGuard, client_half
from curvfed.client_app.node import Node
from curvfed.client_app.node.keys import keyed, read_roster, read_signing_key
from curvfed.client_app.personal import TRAINED, ClientFiles, state_folder
from curvfed.client_app.resources import device_of, fitting_model
from curvfed.geometry.arrays import Array
from curvfed.strategies.base.abilities import StartsFromAll
from curvfed.strategies.base.learner import Local, Tuned
from curvfed.strategies.base.noise import Noise
from curvfed.strategies.base.optimizer import NamedOptimizer
from curvfed.strategies.base.statistics import Arrays, Leaving, named_state, rounded_names
from curvfed.strategies.base.tensors import load_arrays
from curvfed.strategies.base.training import (
    Trained,
    TrainingError,
    learning_rate,
    make_optimizer,
    seed_dropout,
)
from curvfed.strategies.config.build_method import client_head, is_fixed, learner_class, model_spec
from curvfed.strategies.config.holders import MIN_HOLDERS, holders_needed, sums_by_name
from curvfed.strategies.config.masked import is_masked
from curvfed.strategies.config.run_config import RunConfig, resolve_defaults
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.run_log import log
from curvfed.strategies.wire.checks import MessageError, check_arrays
from curvfed.strategies.wire.codec import EXACT, Precision
from curvfed.strategies.wire.messages import HOLDERS, Facts, Holders, Request
from curvfed.strategies.wire.store import Store
from curvfed.tasks.examples import FAR_FEATURES

if TYPE_CHECKING:
    from curvfed.client_app.node.ledger import Ledger


ROUND = 0
FINE_TUNING = 1
NOISE = 2
"""The random streams of a client."""


class Client:
    """A client's data, model and personal state.

    Parameters
    ----------
    config : RunConfig
    run : str
        Name of the run, written in the files of the personal state.
    node : Node
        The settings and the policy of the node's owner.

    Attributes
    ----------
    partition : int
        The node's number in the run.
    ledger : Ledger or None
        The sums that a real node was in and the points it revealed; None in a simulation.
    requested : RunConfig
        The run's configuration, before the node's own decisions.
    holders : Holders or None
        The holders in the last message.
    fixed_arrays : dict of str to array
        The fixed parameters, as they were received last.
    digest : str
        Digest of the data; keyed by the node's secret for data of its own.
    restored : int or None
        If the requested personal state is lost: the round of the state that the current message
        started from, 0 for a fresh one.
    is_private : bool
        Whether the run has a guard that hides something.
    is_masked : bool
        Whether the run has secure sums.
    is_stateful : bool
        Whether this client has personal state; known once the model is set up, as the next two.
    keeps_optimizer : bool
        Whether the optimiser's moments are part of it.
    kept_optimizer : NamedOptimizer or None
        The optimiser, if its moments are.
    guard : ClientGuard
    vectors : Store
        The last vectors of a real node in secure sums, by the number of the sum.
    shares_statistics : bool
        Whether statistics of the data may leave. Those of a real node's own data leave if the run
        requests them and the node does not refuse.

    Raises
    ------
    DataError, ConfigError
        If the data or the device are missing.
    """

    def __init__(self, config: RunConfig, run: str, node: Node) -> None:
        torch.set_num_threads(config.threads)
        self.requested = config
        self.run = run
        self.node = node
        self.partition = node.partition
        self.method = config.row
        self.ledger: Ledger | None = None
        if node.rules is not None:
            from curvfed.client_app.node.ledger import ledger_of

            self.ledger = ledger_of(node)
            config = node.rules.check_run(config, node.owns_data)
        may_share = node.share_statistics is not False
        self.is_private = config.guard.is_private
        self.shares_statistics = (
            may_share and not self.is_private and (config.share_statistics or not node.owns_data)
        )
        if node.secure_sum and not config.is_masked:
            raise ConfigError(
                "this node takes part in secure sums alone; the run has secure-sum = false",
                key="secure-sum-only",
            )
        self.noise = Noise()
        self.signing_key = None
        self.roster = None
        if node.signing_key or node.roster:
            self.signing_key = read_signing_key(node)
            self.roster = read_roster(node)
        self.data = load_data(config, node, self.ledger)
        self.digest = keyed(self.data.digest, node) if node.owns_data else self.data.digest
        self.config = resolve_defaults(config, self.data.task)
        self.is_masked = self.config.is_masked
        self.device = device_of(config, node)
        binding = {
            "run": run,
            "partition": node.partition,
            "method": config.method,
            "data": self.digest,
        }
        folder = state_folder(config.results_path, run, node)
        self.files = ClientFiles(folder, binding, durable=node.is_real)
        has_budget = node.rules is not None and node.rules.has_budget
        self.guard: ClientGuard = client_half(config.guard, has_budget)(
            config=self.config,
            run=run,
            node=node,
            data=self.data,
            ledger=self.ledger,
            replies=Store(folder / "replies"),
            source=self.noise,
        )
        self.vectors = Store(folder / "sums")
        self.precision = EXACT
        self.restored: int | None = None
        self.fixed_arrays: Arrays = {}
        self.holders: Holders | None = None
        self._ready_for: tuple[Facts, Holders | None] | None = None
        self._stamp: int | None = None

    @property
    def group(self) -> tuple[int, ...]:
        """The partitions with which a real node is summed; none in a simulation."""
        if self.ledger is None or self.node.rules is None:
            return ()
        return self.ledger.group(self.partition, self.roster, self.node.rules.sums.group_size)

    @property
    def split_digest(self) -> bytes:
        """The keyed digest of the client's own records and their split; b"" for parts of public
        data."""
        return bytes.fromhex(self.data.split_digest)

    @property
    def data_state(self) -> str:
        """The digest of the data and, for records of a node's own, of their split."""
        return self.data.split_digest or self.digest

    @property
    def hides_number(self) -> bool:
        """Whether noise on the run's sums hides this client's number of examples too."""
        return self.config.guard.hides_number

    @property
    def leaving(self) -> Leaving:
        """The classes with figures that may leave this client, by the counted holders."""
        minimum = self.node.min_class_size
        if self.holders is None:
            return Leaving(minimum)
        # Before its first sum a node without a roster is alone in its group.
        members = len(self.group) if len(self.group) > 1 else MIN_HOLDERS
        needed = max(holders_needed(self.node.min_holders, members), self.holders.needed)
        return Leaving(minimum, np.array(self.holders.counts, np.int64) < needed)

    def learn_holders(self, request: Request) -> None:
        """Store the holders of classes or entities in a message.

        Raises
        ------
        ConfigError
            If the run's sums need them, and the members have not been counted.
        MessageError
            If the number of counts differs from the number of names.
        """
        phase = request.header.phase
        holders = request.holders
        is_uncounted = holders is None and self.is_masked and phase != HOLDERS
        if (
            is_uncounted
            and is_masked(self.config, phase)
            and self.node.min_holders != 1
            and sums_by_name(self.config)
        ):
            raise ConfigError(
                "this node sums nothing of single classes or entities before the members that have"
                " each are counted: [sums] min-holders = 1 in its policy would allow it",
                key="no-holders",
            )
        if holders is not None and len(holders.counts) != len(request.required_facts.class_names):
            raise MessageError("the holders are not one number for each name", key="holders")
        self.holders = holders

    def prepare(self, facts: Facts, stamp: int) -> None:
        """Set up the model once, and load the personal state of round `stamp`. Later state is
        discarded.

        Raises
        ------
        StoreError
            If the state of that round is missing, and the node's `lost-state` is "refuse".
        DataError
            If the data's features or classes differ from the federation's.
        """
        if self._ready_for != (facts, self.holders):
            self._set_up(facts)
        if self._stamp != stamp or not self.is_stateful:
            self._restore(stamp)

    def _set_up(self, facts: Facts) -> None:
        check_fits(self.data, facts)
        may_be_far = self.config.normalize == "none" and not self.shares_statistics
        if may_be_far and (norm := statistics(self.data, self.config).get("feature_norm")):
            log.warning(
                "partition %d: features of a norm up to %g: %s", self.partition, norm, FAR_FEATURES
            )
        classes = facts.class_names or self.data.class_names
        spec = model_spec(self.config, facts, self.data.num_features, len(classes))
        self.model = fitting_model(spec, self.config, self.data, self.device)
        self.task = make_task(self.data, self.config, classes, self.device, self.model)
        self.parameters = dict(self.model.named_parameters())
        if self.config.wire_precision != "float32":
            self.precision = Precision(self.config.wire_precision, rounded_names(self.model))
        self.tensors = named_state(self.model)
        self.fixed = {
            name: tensor for name, tensor in self.tensors.items() if is_fixed(self.config, name)
        }
        personal = self.method.personal_names(self.tensors, facts.own_ends)
        self.personal = {name: tensor for name, tensor in self.tensors.items() if name in personal}
        self.shared = [
            name for name in self.tensors if name not in personal and name not in self.fixed
        ]
        if self.config.network.head_from == "client":
            load_arrays(client_head(spec, self.config.seed, self.partition), self.tensors)
        self.trained = {
            name: parameter
            for name, parameter in self.parameters.items()
            if parameter.requires_grad
        }
        self.optimizer = make_optimizer(self.trained, self.config)
        local = Local(
            config=self.config,
            keys=self.config.own_keys,
            model=self.model,
            task=self.task,
            tensors=self.tensors,
            shared=tuple(self.shared),
            trained=self.trained,
            optimizer=self.optimizer,
            partition=self.partition,
            partitions=facts.partitions,
            noise=self.noise,
            data=self.data,
            private=self.guard.steps(self.model),
            leaving=self.leaving,
        )
        self.learner = learner_class(self.method)(local)
        self.personal |= self.learner.local_state()
        self._fresh = {name: tensor.detach().clone() for name, tensor in self.personal.items()}
        self.keeps_optimizer = self.config.optimizer_state == "kept"
        if self.config.optimizer_state == "personal":
            self.keeps_optimizer = not self.trained.keys().isdisjoint(self.personal)
        self.kept_optimizer: NamedOptimizer | None = None
        if self.keeps_optimizer:
            self.kept_optimizer = self.optimizer
        self.is_stateful = bool(self.personal) or self.keeps_optimizer
        self._ready_for = (facts, self.holders)
        self._stamp = None

    def _restore(self, stamp: int) -> None:
        self._stamp = None
        round_loaded = stamp
        if stamp and self.is_stateful:
            round_loaded = self.files.load(
                stamp, self.personal, self.kept_optimizer, self.node.lost_state
            )
        if round_loaded != stamp:
            self.restored = round_loaded
        if not round_loaded or not self.is_stateful:
            self._start_fresh()
        self._stamp = stamp

    def _start_fresh(self) -> None:
        with torch.no_grad():
            for name, value in self._fresh.items():
                self.personal[name].copy_(value)
        if isinstance(self.learner, StartsFromAll):
            self.learner.start(self._ready_for[0].figures if self._ready_for else ())
        self.optimizer.reset()

    def receive(self, arrays: Arrays, fixed: Mapping[str, Array] | None = None) -> None:
        """Copy the received parameters into the model. Fixed ones are sent once and stored.

        Raises
        ------
        MessageError
            If these are not the client's shared or fixed parameters.
        StoreError
            If fixed parameters are neither sent nor stored.
        """
        if self.fixed:
            if fixed:
                check_arrays(
                    fixed, {name: tensor.numpy(force=True) for name, tensor in self.fixed.items()}
                )
                self.files.fixed.write(fixed, self.run)
            self.fixed_arrays = dict(fixed or self.files.fixed.read(self.run))
            load_arrays(self.fixed_arrays, self.tensors)
        self.learner.receive(self.config.guard.parameters(arrays))

    def fit(self, round_number: int) -> Trained | None:
        """Train for one round from the received parameters; None without training examples.

        Raises
        ------
        TrainingError
            If training diverges. The stored personal state then stays as it was.
        """
        if self.task.num_examples == 0:
            return None
        if not self.keeps_optimizer:
            self.optimizer.reset()
        self.optimizer.learning_rate = learning_rate(self.config, round_number)
        # Until `commit` the state in memory has no round: after an error the next message reloads
        # the stored one.
        self._stamp = None
        self._seed(round_number, ROUND)
        self.learner.round = round_number
        trained = self.learner.train()
        # The server checks the shared parameters; only this client sees the personal ones.
        _check_finite(self.personal, "the client's personal parameters", "local training")
        return trained

    def fine_tune(self, round_number: int) -> Tuned:
        """Train a personal model from the received parameters, and store it.

        Raises
        ------
        TrainingError
            If training diverges.
        """
        self._stamp = None  # until a later message loads the state of a round
        self._seed(round_number, FINE_TUNING)
        tuned = self.learner.fine_tune() if self.task.num_examples else Tuned(self.model)
        state = named_state(tuned.model)
        _check_finite(state, "parameters", "fine-tuning")
        self.files.save_tuned(round_number, state)
        return tuned

    def _seed(self, round_number: int, stream: int) -> None:
        """Seed the random draws by the run's seed, the client, the round and the stream."""
        entropy = [self.config.seed, self.partition, round_number] + [stream] * (stream != ROUND)
        seed_dropout(
            int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0]) >> 1, self.device
        )
        if not self.node.is_real:
            self.noise.seed([*entropy, NOISE])

    def commit(self, round_number: int, base: int) -> None:
        """Store the personal state of this round, and keep that of round `base`, which the server
        may still request. A real node notes that it has trained."""
        if self.is_stateful:
            self.files.save(round_number, self.personal, self.kept_optimizer, base)
        # A fifth of the memory of a client that waits for its next round.
        self.model.zero_grad(set_to_none=True)
        self._stamp = round_number
        if self.node.is_real:
            self.files.notes.write(TRAINED, [1])

    def scores(self) -> dict[str, float]:
        """Validation and test scores of the model that this client uses; empty in a private run,
        because nothing hides the examples in scores."""
        if self.is_private:
            return {}
        return self.task.scores(self.learner.scored)


def _check_finite(tensors: Mapping[str, Tensor], subject: str, training: str) -> None:
    if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
        raise TrainingError(f"{subject} are not finite after {training}", key="not-finite")

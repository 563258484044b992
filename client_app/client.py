"""A client in its process: its model is set up once, and its personal state has a known round."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from curvfed.client_app.client_data import ClientData
from curvfed.client_app.data import check_fits, make_task, statistics
from curvfed.client_app.node import Node
from curvfed.client_app.personal import TRAINED, ClientFiles
from curvfed.client_app.resources import fitting_model
from curvfed.geometry.arrays import Array
from curvfed.strategies.base.abilities import StartsFromAll
from curvfed.strategies.base.learner import Local, Tuned
from curvfed.strategies.base.optimizer import NamedOptimizer
from curvfed.strategies.base.statistics import Arrays, named_state, rounded_names
from curvfed.strategies.base.tensors import load_arrays
from curvfed.strategies.base.training import (
    Trained,
    TrainingError,
    learning_rate,
    make_optimizer,
    seed_dropout,
)
from curvfed.strategies.config.build_method import client_head, is_fixed, learner_class, model_spec
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.run_log import log
from curvfed.strategies.wire.checks import check_arrays
from curvfed.strategies.wire.messages import Facts, Holders
from curvfed.strategies.wire.precision import EXACT, Precision
from curvfed.tasks.examples import FAR_FEATURES

ROUND = 0
FINE_TUNING = 1
NOISE = 2
"""The random streams of a client."""


class Client(ClientData):
    """A client with its model and its personal state.

    Attributes
    ----------
    files : ClientFiles
    restored : int or None
        If the requested personal state is lost: the round of the state that the current message
        started from, 0 for a fresh one.
    fixed_arrays : dict of str to array
        The fixed parameters, as they were received last.
    is_stateful : bool
        Whether this client has personal state; known once the model is set up, as the next two.
    keeps_optimizer : bool
        Whether the optimiser's moments are part of it.
    kept_optimizer : NamedOptimizer or None
        The optimiser, if its moments are.
    """

    def __init__(self, config: RunConfig, run: str, node: Node) -> None:
        super().__init__(config, run, node)
        binding = {
            "run": run,
            "partition": node.partition,
            "method": config.method,
            "data": self.digest,
        }
        self.files = ClientFiles(self.folder, binding, durable=node.is_real)
        self.precision = EXACT
        self.restored: int | None = None
        self.fixed_arrays: Arrays = {}
        self._ready_for: tuple[Facts, Holders | None] | None = None
        self._stamp: int | None = None

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
        if self.is_private:
            arrays = self.run_guard.parameters(arrays)
        self.learner.receive(arrays)

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
        self.optimizer.zero_grad()
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
    if not all(_is_finite(tensor) for tensor in tensors.values()):
        raise TrainingError(f"{subject} are not finite after {training}", key="not-finite")


def _is_finite(tensor: Tensor) -> bool:
    if tensor.device.type == "cpu" and tensor.dtype != torch.bfloat16:
        # A tenth of the time of torch's test.
        return bool(np.isfinite(tensor.detach().numpy()).all())
    return bool(tensor.isfinite().all())

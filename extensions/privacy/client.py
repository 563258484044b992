"""A client in a private run: private rounds, noise on sums, their cost, and stored replies: a
repeated request adds no cost."""

from functools import partial
from hashlib import sha256
from random import Random, SystemRandom

import numpy as np
from torch import nn

from curvfed.client_app.client import Client
from curvfed.client_app.contribution import Contribution
from curvfed.client_app.guard import ClientGuard, Hide
from curvfed.client_app.node.policy import Policy
from curvfed.client_app.rounds import prepare
from curvfed.extensions.privacy import adaptive_clip
from curvfed.extensions.privacy.accountant import Release
from curvfed.extensions.privacy.budget import check_budget, is_paid, pay
from curvfed.extensions.privacy.conflicts import PRIVATE_TASKS, check_enough_clients
from curvfed.extensions.privacy.keys import keys_of
from curvfed.extensions.privacy.plan import (
    planned_releases,
    sum_noise,
    sum_releases,
    trains_privately,
)
from curvfed.extensions.privacy.private_steps import PrivateSteps
from curvfed.extensions.privacy.sum_noise import add_exact, add_rounded, honest_shares
from curvfed.geometry.arrays import Floats
from curvfed.strategies.base.calibration import GRID
from curvfed.strategies.base.statistics import Arrays, Statistics
from curvfed.strategies.config.masked import basis_of
from curvfed.strategies.config.secure_phases import ROUNDING, client_vector, weighted_update
from curvfed.strategies.errors import ConfigError, SecureSumError
from curvfed.strategies.secure_sum import Session
from curvfed.strategies.secure_sum.fixed_point import FixedPoint, Residues
from curvfed.strategies.wire.codec import decode_arrays
from curvfed.strategies.wire.messages import MESSAGE_TYPES, TRAIN, Header, Request
from curvfed.strategies.wire.store import LostState
from curvfed.tasks import plugins
from curvfed.tasks.draws import share_draws
from curvfed.tasks.images.nets import has_batch_norm
from curvfed.tasks.kinds import KINDS

ONE_SHOT_STREAM = "hulls"
"""Part of the seed of a simulation's noise in the sum of a one-shot method, whatever the method
names the phase."""


class PrivateClient(ClientGuard):
    """The guard of a run with `dp.unit` at a client; see `ClientGuard`.

    Attributes
    ----------
    release : Release or None
        The releases of one round of private steps.

    Raises
    ------
    ConfigError
        If a client that trains privately has neither images nor graphs, or the accountant's package
        is missing.
    """

    def __post_init__(self) -> None:
        self.release: Release | None = None
        if not trains_privately(self.config):
            return
        if self.data.task not in PRIVATE_TASKS:
            raise ConfigError(
                f"dp.unit = record: the data are {self.data.task}; allowed are"
                f" {' and '.join(PRIVATE_TASKS)}",
                key="no-records",
            )
        share_draws()  # torch.func draws the dropout of single examples without a generator
        self.release, _ = planned_releases(self.config, self._num_examples)[TRAIN]

    @property
    def _num_examples(self) -> int:
        return int(self.data.train.sum())

    def steps(self, model: nn.Module) -> PrivateSteps | None:
        """The steps of a round.

        Raises
        ------
        ConfigError
            If the model has batch normalisation, which computes an example's gradient from all
            examples of a step, or is another package's for graphs.
        """
        if self.release is None:
            return None
        is_image = KINDS[self.data.task].has_shape
        if not is_image and plugins.is_model(self.config.model or ""):
            raise ConfigError(
                "dp.unit = record: networks of other packages give no gradients of single graphs;"
                " allowed are the built-in ones",
                key="no-records",
            )
        if has_batch_norm(model):
            raise ConfigError(
                "dp.unit = record: the network has batch normalisation, which has no gradients of"
                " single examples; allowed is group normalisation",
                key="batch-norm",
            )
        return PrivateSteps(self.release.rate, keys_of(self.config).clip, self.release.noise)

    def train(self, client: Client, request: Request) -> Contribution | None:
        """Train by steps that hide the examples. Only the result leaves, and the numbers of
        examples and steps, which are public; the result of an equal earlier request leaves
        again."""
        if self.release is None:
            return None
        number = request.header.round
        basis = self._basis(request)
        arrays = self._stored_reply(number, basis)
        is_new = arrays is None
        received = prepare(client, request, stamp=None if is_new else number)
        if arrays is None:
            client.fit(number)
            arrays = client.learner.share()
            self._store_reply(number, basis, arrays)
        num_examples = client.task.num_examples
        figures = {"steps": float(self.release.times)} if num_examples else {}
        contribution = Contribution(arrays, num_examples, figures, received=received)
        if num_examples:
            self._pay_for_round(number, contribution.digest, self.release)
        if is_new:  # later replies are computed from personal state, which so has its price, too
            client.commit(number, base=request.stamp)
        return contribution

    def _basis(self, request: Request) -> str:
        """The digest of a round's inputs: requests with one basis have one reply."""
        arrays = decode_arrays(request.arrays)
        basis = basis_of(arrays, {}, request.required_facts, self.config, request.stamp)
        stamp = str(request.stamp).encode()
        return sha256(basis.parameters + basis.facts + stamp).hexdigest()

    def _stored_reply(self, number: int, basis: str) -> Arrays | None:
        """The reply of an earlier request for this round with the same basis, if it is paid for.

        Training anew would draw other noise, and so cost the round a second time. A reply that the
        budget refused may have less noise than this run has.
        """
        if self.ledger is None:
            return None
        try:
            arrays, metadata = self.replies.load(number)
        except LostState:
            return None
        is_same = metadata.get("basis") == basis
        return arrays if is_same and is_paid(self.ledger, Contribution(arrays, 0).digest) else None

    def _store_reply(self, number: int, basis: str, arrays: Arrays) -> None:
        """Keep a reply, on the disk before it is paid for."""
        if self.ledger is not None:
            metadata = {"basis": basis}
            self.replies.save(number, arrays, metadata, base=number - 1, durable=True)

    def _pay_for_round(self, number: int, reply: str, release: Release) -> None:
        """Write the cost of a reply into the ledger, before the reply leaves; once for each digest.

        Raises
        ------
        ConfigError
            If the run has had all its rounds, or the policy's budget is spent.
        """
        if self.ledger is None or self.node.rules is None:
            return
        pay(
            self.ledger,
            self.run,
            release,
            self.config.num_rounds,
            self.node.rules.privacy,
            phase=TRAIN,
            round=number,
            unit=keys_of(self.config).unit,
            reply=reply,
        )

    def check(self) -> None:
        """Refuse a run if its replies would cost more than the policy leaves.

        Raises
        ------
        ConfigError
        """
        rules = self.node.rules
        if self.ledger is None or rules is None:
            return
        if sum_releases(self.config):
            self._check_small_classes(rules)
        plan = planned_releases(self.config, self._num_examples)
        check_budget(self.ledger, self.run, plan, rules.privacy, keys_of(self.config).unit)

    def pay(self, session: Session) -> None:
        """Write the cost of a sum into the ledger, before the masked vector leaves. A vector that
        is sent again has the same noise, and costs once; see `ClientGuard`."""
        rules = self.node.rules
        if self.ledger is None or rules is None:
            return
        self._check_small_classes(rules)
        release, planned = sum_releases(self.config)[session.phase]
        pay(
            self.ledger,
            session.run,
            release,
            planned,
            rules.privacy,
            phase=session.phase,
            reply=session.digest.hex(),
            round=session.round,
            unit=keys_of(self.config).unit,
        )

    def _check_small_classes(self, rules: Policy) -> None:
        """Refuse private sums, which include small classes, at a node without a bound on epsilon.

        Raises
        ------
        ConfigError
        """
        if rules.privacy.max_epsilon is None and self.node.min_class_size > 1:
            raise ConfigError(
                "dp.unit: in private sums noise alone hides small classes: this node takes part in"
                " them with a line [privacy] max-epsilon in its policy",
                key="no-privacy-budget",
            )

    def update_vector(self, contribution: Statistics, received: Arrays, limit: float) -> Floats:
        """With hidden clients all weigh the same, and no figure leaves; see `ClientGuard`."""
        privacy = keys_of(self.config)
        if privacy.unit != "client":
            return super().update_vector(contribution, received, limit)
        # A client without data adds nothing but noise; who it is stays hidden.
        arrays = contribution.arrays
        if privacy.clip_quantile is not None:
            _, length = weighted_update(arrays, received, 1, limit)
            arrays = arrays | adaptive_clip.within(length, limit)
        values, _ = weighted_update(arrays, received, 1, limit * (1 - ROUNDING))
        return client_vector(values, 1, {}, limit)

    def hide(
        self, header: Header, arrays: Arrays, variances: Floats | None, bound: float
    ) -> Hide | None:
        """Noise of the method's variances, or with hidden clients of the clip."""
        privacy = keys_of(self.config)
        if header.phase == TRAIN and privacy.unit == "client":
            if privacy.clip_quantile is not None:
                variances = adaptive_clip.variances(arrays, bound)
            else:
                variances = np.full(sum(array.size for array in arrays.values()), bound**2)
        return None if variances is None else partial(self._with_noise, header, variances)

    def _with_noise(
        self,
        header: Header,
        variances: Floats,
        steps: Residues,
        encoding: FixedPoint,
        session: Session,
    ) -> Residues:
        """The residues plus this client's share of the noise, of these variances for a noise
        multiplier of 1."""
        config = self.config
        members = len(session.clients)
        check_enough_clients(keys_of(config), members)
        factor = sum_noise(config, session.phase) * encoding.scale
        scaled = variances * (factor**2 / honest_shares(members))
        values = steps[: variances.size]  # weight and figures, which follow, are 0 or public
        if header.phase == TRAIN:
            noisy = add_rounded(values, np.sqrt(scaled), session.modulus, self.source)
        elif encoding.scale < GRID**-2:
            raise SecureSumError(
                f"the grid of a secure sum over {members} clients is too coarse for"
                " differentially private sums",
                key="coarse-grid",
            )
        else:
            # The noise of a simulation is public: equal runs give equal bits.
            phase = session.phase if session.phase in MESSAGE_TYPES else ONE_SHOT_STREAM
            name = f"{config.seed} {self.node.partition} {phase} {session.round}"
            generator = SystemRandom() if self.node.is_real else Random(name)
            noisy = add_exact(values, scaled, session.modulus, generator)
        return np.concatenate([noisy, steps[variances.size :]])

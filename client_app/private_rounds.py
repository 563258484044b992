"""The cost of private rounds and private sums for a client, and its stored replies in rounds: a
repeated request adds no cost."""

from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np
from torch import nn

from curvfed.client_app.data import Data
from curvfed.client_app.node import Node
from curvfed.client_app.node.ledger import Ledger
from curvfed.client_app.node.policy import Policy
from curvfed.strategies.base.private_steps import PrivateSteps
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.config.masked import basis_of
from curvfed.strategies.config.privacy import PRIVATE_TASKS, planned_releases, sum_releases
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.codec import decode_arrays
from curvfed.strategies.wire.messages import TRAIN, Request
from curvfed.strategies.wire.store import LostState, Store
from curvfed.tasks import plugins
from curvfed.tasks.draws import share_draws
from curvfed.tasks.images.nets import has_batch_norm
from curvfed.tasks.kinds import KINDS

if TYPE_CHECKING:
    from curvfed.strategies.secure_sum import Session


class PrivateRounds:
    """The rounds of a client with `dp.unit = record`.

    Parameters
    ----------
    config : RunConfig
        With its defaults resolved.
    data : ClientImages or ClientGraph
    run : str
        Name of the run.
    replies : Store
        The last replies of a real node.
    ledger : Ledger or None
        None in a simulation, which stores nothing: its replies leave nobody.
    policy : Policy or None

    Attributes
    ----------
    release : Release
        The releases of one round.

    Raises
    ------
    ConfigError
        If the data are neither images nor graphs, or the accountant's package is missing.
    """

    def __init__(
        self,
        config: RunConfig,
        data: Data,
        run: str,
        replies: Store,
        ledger: Ledger | None,
        policy: Policy | None,
    ) -> None:
        if data.task not in PRIVATE_TASKS:
            raise ConfigError(
                f"dp.unit = record: the data are {data.task}; allowed are"
                f" {' and '.join(PRIVATE_TASKS)}",
                key="no-records",
            )
        share_draws()  # torch.func draws the dropout of single examples without a generator
        self._config = config
        self._data = data
        self._run = run
        self._replies = replies
        self._ledger = ledger
        self._policy = policy
        self.release, _ = planned_releases(config, int(data.train.sum()))[TRAIN]

    def steps_of(self, model: nn.Module) -> PrivateSteps:
        """The steps of a round.

        Raises
        ------
        ConfigError
            If the model has batch normalisation, which computes an example's gradient from all
            examples of a step, or is another package's for graphs.
        """
        is_image = KINDS[self._data.task].has_shape
        if not is_image and plugins.is_model(self._config.model or ""):
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
        return PrivateSteps(self.release.rate, self._config.dp.clip, self.release.noise)

    def basis(self, request: Request) -> str:
        """The digest of a round's inputs: requests with one basis have one reply."""
        arrays = decode_arrays(request.arrays)
        basis = basis_of(arrays, {}, request.required_facts, self._config, request.stamp)
        stamp = str(request.stamp).encode()
        return sha256(basis.parameters + basis.facts + stamp).hexdigest()

    def stored_reply(self, number: int, basis: str) -> Arrays | None:
        """The reply of an earlier request for this round with the same basis.

        Training anew would draw other noise, and so cost the round a second time.
        """
        if self._ledger is None:
            return None
        try:
            arrays, metadata = self._replies.load(number)
        except LostState:
            return None
        return arrays if metadata.get("basis") == basis else None

    def store_reply(self, number: int, basis: str, arrays: Arrays) -> None:
        """Keep a reply, on the disk before it is paid for."""
        if self._ledger is not None:
            metadata = {"basis": basis}
            self._replies.save(number, arrays, metadata, base=number - 1, durable=True)

    def pay(self, number: int, arrays: Arrays) -> None:
        """Write the cost of a reply into the ledger, before the reply leaves; once for each.

        Raises
        ------
        ConfigError
            If the run has had all its rounds, or the policy's budget is spent.
        """
        if self._ledger is None or self._policy is None:
            return
        digest = sha256()
        for name in sorted(arrays):
            digest.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
        self._ledger.pay(
            self._run,
            self.release,
            self._config.num_rounds,
            self._policy.privacy,
            phase=TRAIN,
            round=number,
            unit=self._config.dp.unit,
            reply=digest.hexdigest(),
        )


def check_budget(
    config: RunConfig, run: str, node: Node, ledger: Ledger | None, num_examples: int
) -> None:
    """Refuse a run if its replies would cost more than the policy leaves.

    Raises
    ------
    ConfigError
    """
    if ledger is None or node.rules is None:
        return
    if sum_releases(config):
        _check_small_classes(node, node.rules)
    plan = planned_releases(config, num_examples)
    ledger.check_budget(run, plan, node.rules.privacy, config.dp.unit)


def pay_for_sum(config: RunConfig, node: Node, ledger: Ledger | None, session: "Session") -> None:
    """Write the cost of a sum into the ledger, before the masked vector leaves. A vector that is
    sent again has the same noise, and costs once.

    Raises
    ------
    ConfigError
        If the run has had all its sums, or the policy's budget is spent.
    """
    if ledger is None or node.rules is None:
        return
    _check_small_classes(node, node.rules)
    release, planned = sum_releases(config)[session.phase]
    ledger.pay(
        session.run,
        release,
        planned,
        node.rules.privacy,
        phase=session.phase,
        reply=session.digest.hex(),
        round=session.round,
        unit=config.dp.unit,
    )


def _check_small_classes(node: Node, rules: Policy) -> None:
    """Refuse private sums, which include small classes, at a node without a bound on epsilon.

    Raises
    ------
    ConfigError
    """
    if rules.privacy.max_epsilon is None and node.min_class_size > 1:
        raise ConfigError(
            "dp.unit: in private sums noise alone hides small classes: this node takes part in"
            " them with a line [privacy] max-epsilon in its policy",
            key="no-privacy-budget",
        )

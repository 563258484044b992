"""A client's data, and the rules by which results of them leave it."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from curvfed.client_app.data import load_data
from curvfed.client_app.guard import ClientGuard, client_half
from curvfed.client_app.node import Node
from curvfed.client_app.node.keys import keyed, read_roster, read_signing_key
from curvfed.client_app.personal import state_folder
from curvfed.client_app.resources import device_of
from curvfed.strategies.base.guard import Guard
from curvfed.strategies.base.noise import Noise
from curvfed.strategies.base.statistics import Leaving
from curvfed.strategies.config.data_checks import check_secure_sum
from curvfed.strategies.config.holders import MIN_HOLDERS, holders_needed, sums_by_name
from curvfed.strategies.config.masked import is_masked
from curvfed.strategies.config.run_config import RunConfig, resolve_defaults
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.run_log import log
from curvfed.strategies.wire.checks import MessageError
from curvfed.strategies.wire.messages import HOLDERS, Holders, Request
from curvfed.strategies.wire.store import Store
from curvfed.tasks.amounts import amount, be

if TYPE_CHECKING:
    from curvfed.client_app.node.ledger import Ledger


class ClientData:
    """The data of a client and the decisions of its node's owner, for one run.

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
    method : Method
    requested : RunConfig
        The run's configuration, before the node's own decisions.
    config : RunConfig
        After them, with its defaults resolved.
    ledger : Ledger or None
        The sums that a real node was in and the points it revealed; None in a simulation.
    digest : str
        Digest of the data; keyed by the node's secret for data of its own.
    data_state : str
        The digest of the data and, for records of a node's own, of their split, and how they are
        read.
    holders : Holders or None
        The holders in the last message of a masked run.
    max_examples : float
        Maximum number of examples in sums over them, so that the other members hide this client.
    folder : Path
        The folder of the client's files.
    run_guard : Guard
        The guard of the run.
    guard : ClientGuard
        Its half here.
    is_private : bool
        Whether it hides something.
    is_masked : bool
        Whether the run has secure sums.
    has_budget : bool
        Whether the node's policy has a budget of differential privacy.
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
        # A method of one secure sum has open scores without it.
        if node.secure_sum and not config.secure_sum:
            raise ConfigError(
                "this node takes part in secure sums alone; the run has secure-sum = false, which"
                " sends updates or scores unmasked: run with secure-sum=true",
                key="secure-sum-only",
            )
        self.signing_key = None
        self.roster = None
        if node.signing_key or node.roster:
            self.signing_key = read_signing_key(node)
            self.roster = read_roster(node)
        self.data = load_data(config, node, self.ledger)
        self.digest = keyed(self.data.digest, node) if node.owns_data else self.data.digest
        self.data_state = (self.data.split_digest or self.digest) + self.data.reading
        self.config = resolve_defaults(config, self.data.task)
        if self.config.secure_sum:  # the run was checked before the kind of data was known
            check_secure_sum(self.config)
        self.run_guard: Guard = self.config.guard
        self.is_private = self.run_guard.is_private
        self.is_masked = self.config.is_masked
        self.has_budget = node.rules is not None and node.rules.has_budget
        self.shares_statistics = (
            node.share_statistics is not False
            and not self.is_private
            and (config.share_statistics or not node.owns_data)
        )
        self.device = device_of(config, node)
        self.noise = Noise()
        self.folder = state_folder(config.results_path, run, node)
        self.guard: ClientGuard = client_half(self.run_guard, self.has_budget)(
            config=self.config,
            run=run,
            node=node,
            data=self.data,
            ledger=self.ledger,
            replies=Store(self.folder / "replies"),
            source=self.noise,
        )
        self.vectors = Store(self.folder / "sums")
        self.holders: Holders | None = None
        self.max_examples = math.inf

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
    def hides_number(self) -> bool:
        """Whether noise on the run's sums hides this client's number of examples too."""
        return self.run_guard.hides_number

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

    @property
    def leaving_in_sums(self) -> Leaving:
        """As `leaving`, in sums over examples: of at most `max_examples`. All examples, with a
        smaller weight, would show their numbers in the fractions of a sum."""
        return replace(self.leaving, max_examples=self.max_examples)

    def warn_of_lost_classes(self, number: int, request: Request) -> None:
        """Tell the node's owner how many classes a reduced weight keeps out of a sum."""
        if number:
            log.warning(
                "%s of round %d: %s %s left out of the sum, because the reduced weight"
                " (weight-share) takes fewer than %d of their examples",
                request.header.phase,
                request.header.round,
                amount(number, "class"),
                be(number),
                self.node.min_class_size,
            )

    def learn_holders(self, request: Request) -> None:
        """Store the holders of classes or entities in a message of a masked run.

        Raises
        ------
        ConfigError
            If the run's sums need them, and the members have not been counted.
        MessageError
            If the number of counts differs from the number of names.
        """
        phase = request.header.phase
        holders = request.holders
        if (
            holders is None
            and phase != HOLDERS
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

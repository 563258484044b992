"""What the secure sums of a run share: their settings, the clients that are left out, and the
groups that are summed; and a check of them before a run."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.shared_tables import Secure
from curvfed.strategies.config.one_shot import server_half
from curvfed.strategies.config.privacy import check_enough_clients
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.config.secure_phases import groups
from curvfed.strategies.errors import ConfigError, SecureSumError
from curvfed.strategies.secure_sum import Session
from curvfed.strategies.secure_sum.fixed_point import SUM_PRIME
from curvfed.tasks.points.dataset import PointDataset

START_ALL = "start all nodes of a group, then start or resume the run"
"""The remedy of an incomplete group."""


@dataclass(frozen=True)
class SumsOfRun:
    """The settings and the left-out clients of all secure sums of a run.

    Attributes
    ----------
    left_out : dict of int to str
        The reason for each client that takes part in no further sum of this run.
    notes : dict of str to str
        The run's warnings by key.
    stated : dict of int to tuple of int
        The group of each real node, as it states it; empty in a simulation.
    """

    run: RunKeys
    keys: Secure
    left_out: dict[int, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    stated: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def has_groups(self) -> bool:
        """Whether a sum is over all members of a fixed group."""
        return bool(self.stated or self.keys.fixed_groups)

    def groups(self, clients: Sequence[int], number: int) -> list[list[int]]:
        """The clients of each sum.

        Parameters
        ----------
        number : int
            The number of groups of simulated clients; 0 for groups of 5 to 9.

        Raises
        ------
        SecureSumError
            If no group of real nodes is complete.
        """
        if not self.stated:
            return groups(clients, number)
        complete, reasons = complete_groups(clients, self.stated)
        if not complete:
            raise SecureSumError(f"{'; '.join(reasons)}: {START_ALL}", key="incomplete-group")
        if reasons:
            self.notes["incomplete"] = f"left out of the secure sums: {'; '.join(reasons)}"
        return complete


def complete_groups(
    clients: Collection[int], stated: Mapping[int, tuple[int, ...]]
) -> tuple[list[list[int]], list[str]]:
    """The groups of real nodes that are complete, and for the others what is missing.

    Nodes in no group, which have no roster and are summed for the first time, are divided as a
    roster would be.
    """
    complete = []
    reasons = []
    known = sorted({stated[client] for client in clients if len(stated[client]) > 1})
    for group in known:
        missing = sorted(set(group) - set(clients))
        unlike = [p for p in group if p in clients and stated[p] not in (group, (p,))]
        if missing:
            reasons.append(f"{list(group)} are not summed without partitions {missing}")
        elif unlike:
            reasons.append(
                f"{list(group)} are not summed: partitions {unlike} have other rosters or earlier"
                " sums"
            )
        else:
            complete.append(list(group))
    new = sorted(set(clients).difference(*known))
    if len(new) == 1:
        reasons.append(
            f"partition {new[0]} is in no group, and no other node is as new; once the operators of"
            " the others have run `curvfed cluster regroup`, it is summed with them"
        )
    elif new:
        complete += groups(new)
    return sorted(complete), reasons


def check_secure_sums(config: RunConfig, number: int) -> list[str]:
    """The properties of a run's secure sums over `number` clients, in words.

    Raises
    ------
    ConfigError
        If the threshold does not fit the number of clients, differential privacy cannot hide one
        among so few, or the bins, labels and cap of hulls do not fit together.
    """
    cohort = config.row.num_asked(number, config.fraction_train)
    check_enough_clients(config, cohort)
    try:
        session = Session(
            run="",
            phase="",
            round=0,
            modulus=SUM_PRIME,
            length=1,
            clients=tuple(range(cohort)),
            threshold=config.secure.threshold or 0,
            neighbours=config.secure.neighbours or 0,
        )
    except SecureSumError as error:
        raise ConfigError(
            f"num-supernodes = {number}, of whom {cohort} would be summed: {error}",
            key="secure-sum",
        ) from None
    lines = [
        f"secure sum: {session.needed} of {cohort} clients must stay to its end; each shares its"
        f" secrets with {session.degree} others"
    ]
    if config.row.sums_only and (names := tuple(map(str, range(_num_classes(config))))):
        lines += filter(None, [server_half(config, names).describe(number)])
    return lines


def _num_classes(config: RunConfig) -> int:
    """The number of classes of a run on points; 0 if it depends on the data."""
    built_in = 2 if config.dataset.lower() == "uniform" else 0
    num_kept = len(PointDataset.of_run(config).spec.selected_classes)
    return config.num_public_classes or num_kept or built_in

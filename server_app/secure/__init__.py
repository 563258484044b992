"""What the secure sums of a run share: their settings, the clients that are left out, and the
groups that are summed."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.shared_tables import Secure
from curvfed.strategies.config.masked import groups
from curvfed.strategies.errors import SecureSumError

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

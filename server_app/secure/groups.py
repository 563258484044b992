"""The groups of clients that are summed in a run, and a check of them before it."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from curvfed.strategies.base.shared_tables import GROUP_SIZE
from curvfed.strategies.config.checks import check_groups
from curvfed.strategies.config.one_shot import server_half
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.config.secure_phases import groups, session_of
from curvfed.strategies.errors import ConfigError, SecureSumError
from curvfed.strategies.run_log import log
from curvfed.strategies.secure_sum.fixed_point import SUM_PRIME
from curvfed.strategies.wire.messages import Header
from curvfed.tasks.amounts import amount
from curvfed.tasks.points.dataset import PointDataset

if TYPE_CHECKING:
    from curvfed.server_app.run import Run

Group = tuple[int, ...]
"""The partitions of a group, ascending."""

START_ALL = "start all nodes of a group, then start or resume the run"
"""The remedy of an incomplete group."""


UNSIGNED = (
    "the clients sign nothing, so the secure sums protect them only from a server that follows the"
    " protocol; give every node a signing-key and a roster"
)
"""The warning about sums without signatures."""


def group_size(config: RunConfig, number: int) -> int:
    """The minimum size of the groups in which this number of simulated clients is summed. Noise
    that hides single clients or records is added to each sum, so private runs have one group by
    default."""
    if config.secure.group_size is None and config.guard.is_private:
        return number
    return config.secure.group_size or GROUP_SIZE


def complete_groups(
    clients: Collection[int], stated: Mapping[int, tuple[int, ...]]
) -> tuple[list[list[int]], list[str]]:
    """The complete groups of real nodes, and the reasons for leaving out the others.

    Nodes without a group, which lack a roster and are summed for the first time, are divided as a
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


class Groups:
    """The clients of each secure sum of a run: the fixed groups of real nodes, or those of a
    simulation.

    Parameters
    ----------
    run : Run

    Attributes
    ----------
    stated : dict of int to tuple of int
        By partition, the group that a real node states; empty in a simulation.

    Raises
    ------
    ConfigError
        If the run asks for groups that real nodes do not have.
    """

    def __init__(self, run: "Run") -> None:
        self._run = run
        self._divided: dict[tuple[Group, int], list[Group]] = {}
        self._has_warned = False
        self.stated: dict[int, Group] = {}
        described = run.federation.descriptions
        if any(client.group for client in described.values()):
            check_groups(run.config)
            self.stated = {
                partition: client.group or (partition,) for partition, client in described.items()
            }

    def check(self, phase: str, clients: Sequence[int]) -> None:
        """Refuse clients if a secure sum over them is impossible, before any of them is asked.

        Raises
        ------
        ConfigError
            If a group has fewer than two, or too few to hide one by noise.
        """
        run = self._run
        for group in self.of(clients, 0):
            run.config.guard.check_members(len(group))
            if len(group) == 2 and not self._has_warned:
                self._has_warned = True
                log.warning("2 clients: each of them can compute the other's vector from the sum")
            try:
                session_of(Header(run.name, phase, 0), run.config, group, (SUM_PRIME, 1))
            except SecureSumError as error:
                raise ConfigError(
                    f"secure sums of {len(group)} clients: {error}", key=error.kind
                ) from None

    def of(self, clients: Sequence[int], number: int) -> list[Group]:
        """The groups of these clients.

        Parameters
        ----------
        number : int
            The number of groups of simulated clients; 0 for groups of `secure.group-size`.

        Raises
        ------
        ConfigError
            If no group of real nodes is complete.
        """
        key = tuple(clients), number
        if key not in self._divided:
            self._divided[key] = self._divide(clients, number)
        return self._divided[key]

    def _divide(self, clients: Sequence[int], number: int) -> list[Group]:
        if not self.stated:
            size = group_size(self._run.config, len(clients))
            return [tuple(group) for group in groups(clients, number, size)]
        complete, reasons = complete_groups(clients, self.stated)
        if not complete:
            raise ConfigError(f"{'; '.join(reasons)}: {START_ALL}", key="incomplete-group")
        if reasons:
            self._run.notes["incomplete"] = f"left out of the secure sums: {'; '.join(reasons)}"
        return [tuple(group) for group in complete]


def check_secure_sums(config: RunConfig, number: int) -> list[str]:
    """The properties of a run's secure sums over `number` clients, in words.

    Raises
    ------
    ConfigError
        If there are too few clients to hide one, or the bins, labels and cap of hulls do not fit
        together.
    """
    if number < 2:
        raise ConfigError(
            f"num-supernodes = {number}: a sum over one client hides nothing; allowed are 2 or"
            " more",
            key="secure-sum",
        )
    half = None
    number_of_groups = 0
    if config.row.sums_only:
        names = tuple(map(str, range(_num_classes(config))))
        half = server_half(config, names)
        number_of_groups = half.num_groups(number)
    divided = groups(range(number), number_of_groups, group_size(config, number))
    sizes = [len(group) for group in divided]
    config.guard.check_members(min(sizes))
    text = f"one group of {amount(number, 'client')}"
    if len(sizes) > 1:
        size = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} or {max(sizes)}"
        text = f"{len(sizes)} groups of {size} clients"
    lines = [f"secure sums: {text}; a group sums with all its members or not at all"]
    if half is not None and names:
        lines += filter(None, [half.describe(max(sizes))])
    return lines


def _num_classes(config: RunConfig) -> int:
    """The number of classes of a run on points; 0 if it depends on the data."""
    built_in = 2 if config.dataset.lower() == "uniform" else 0
    num_kept = len(PointDataset.of_run(config).spec.selected_classes)
    return config.num_public_classes or num_kept or built_in

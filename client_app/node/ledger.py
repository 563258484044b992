"""The node's ledger: its lines decide which sums the node joins, and which points its hulls may
reveal. The budget of a guard counts its lines, too.

A line is written and synced before its answer leaves, so a line torn by a crash belongs to no
answer. A node with a damaged ledger answers nothing, because it lacks the record of its earlier
answers.
"""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from datetime import timedelta
from hashlib import sha256
from typing import Any

from curvfed.client_app.node import Node
from curvfed.client_app.node.ledger_file import ledger_path, time_now
from curvfed.client_app.node.ledger_memory import (
    BEGUN,
    POINTS,
    REFUSAL,
    REGROUP,
    SUM,
    head_in,
    refusal_name,
    stated_head,
)
from curvfed.client_app.node.ledger_runs import LedgerOfRuns
from curvfed.strategies.base.run_keys import home
from curvfed.strategies.base.shared_tables import GROUP_SIZE
from curvfed.strategies.config.masked import sum_number
from curvfed.strategies.config.secure_phases import groups
from curvfed.strategies.errors import ConfigError, PeerError, SecureSumError
from curvfed.strategies.secure_sum import Session
from curvfed.strategies.secure_sum.messages import Basis

QUARTER = timedelta(days=90)
"""The time in which changes of a node's group are counted."""


EXCHANGES_PER_DAY = 1000
"""Maximum number of exchanges of keys on a day; a run needs one, and one after each restart."""

REFUSALS_PER_DAY = 1000
"""Maximum number of refusals that are recorded on a day: a server can ask for more than a disk
holds."""

LONGEST_REASON = 2000
"""Characters of a reason that are recorded."""


class Ledger(LedgerOfRuns):
    """The lines of one node, and the rules that they decide."""

    def refuse(self, reason: str, run: str, phase: str, round: int) -> None:
        """Record a refusal: equal ones of a run once a day, and up to `REFUSALS_PER_DAY`."""
        reason = reason[:LONGEST_REASON]
        with self.locked() as file:
            name = refusal_name({"time": time_now(), "run": run, "reason": reason})
            recorded = self.memory.refusals_like(name)
            if name in recorded or len(recorded) > REFUSALS_PER_DAY:
                return
            if len(recorded) == REFUSALS_PER_DAY:
                reason = "further refusals of this day are in the node's log alone"
            self.write(file, REFUSAL, run=run, phase=phase, round=round, reason=reason)

    def recorded_heads(self, peers: Collection[int]) -> dict[int, bytes]:
        """The head of each peer's ledger in the sums that this node has signed, as a statement.

        Read before the node sends its keys: a peer begins the sum after that, and states a later
        head, whichever sums this node signs in the meantime.
        """
        with self.locked():
            heads = self.memory.heads
            return {peer: stated_head(*heads.get(str(peer), (0, ""))) for peer in peers}

    def begin(self, run: str, recorded: Mapping[int, bytes]) -> dict[int, bytes]:
        """Record that this node exchanges keys for a run, and state to each peer the heads of two
        ledgers: of this node's own, and of the peer's as `recorded_heads` gives it.

        After a sum under these keys the peers can tell a ledger that knows of it from one that does
        not.

        Raises
        ------
        ConfigError
            If the node has exchanged keys `EXCHANGES_PER_DAY` times today.
        """
        with self.locked() as file:
            self.check_number(BEGUN, EXCHANGES_PER_DAY, "exchanges of keys")
            self.write(file, BEGUN, run=run)
            own = stated_head(self.head.size, self.head.digest)
        return {peer: own + head for peer, head in recorded.items()}

    def compare(self, sent: Mapping[int, bytes], received: Mapping[int, bytes]) -> None:
        """Compare the statements of this node and its peers about each other's ledgers in one sum.

        A stated head is on its node's disk, even if the sum failed. The node's chain keeps the head
        unless lines are removed, whichever sums its peers have signed.

        Raises
        ------
        PeerError
            If a peer's ledger has fewer lines than this node has recorded.
        SecureSumError
            If this node's ledger lacks a line that a peer has recorded.
        """
        shorter = {
            peer: "its ledger lacks lines that this node has recorded; if they are lost, `curvfed"
            f" cluster ledger STATE-PATH --accept {peer}` goes on with it"
            for peer, statement in received.items()
            if head_in(statement, 0).size < head_in(sent.get(peer, b""), 1).size
        }
        with self.locked() as file:
            ahead = [
                peer
                for peer, statement in received.items()
                if not head_in(statement, 1).is_in(file)
            ]
        if ahead:
            raise SecureSumError(
                f"this node's ledger lacks lines that partitions {ahead} have recorded; put back"
                " its last copy, or if that is lost, the operators of these nodes can go on with"
                " this one by `curvfed cluster ledger STATE-PATH --accept` and its partition-id",
                key="ledger-lacks-lines",
            )
        if shorter:
            raise PeerError(shorter)

    def group(
        self, partition: int, roster: Collection[int] | None, size: int = GROUP_SIZE
    ) -> tuple[int, ...]:
        """The nodes that this node is summed with: its group in the roster, of at least this size,
        else those of its first sum; only itself without either.

        Raises
        ------
        ConfigError
            If the roster lacks this node.
        """
        if roster is None:
            with self.locked():
                return min(self.memory.cohorts, default=(partition,))
        for group in groups(roster, size=size):
            if partition in group:
                return tuple(group)
        raise ConfigError(
            f"{partition}.pem, this node's own key, is not in the roster of its --node-config",
            key="not-in-roster",
        )

    def check(self, members: Collection[int], group: tuple[int, ...]) -> None:
        """Refuse a sum over other nodes than this node's group, and any sum after the group has
        changed.

        Two sums over different nodes reveal their difference, whatever method, start or seed they
        have (So et al., Securing secure aggregation, AAAI 2023).

        Raises
        ------
        SecureSumError
        """
        with self.locked():
            self._check_members(members, group)

    def _check_members(self, members: Collection[int], group: tuple[int, ...]) -> None:
        is_new = len(group) == 1 and not self.memory.cohorts
        expected = tuple(sorted(members)) if is_new else group
        if former := sorted(self.memory.cohorts - {expected}):
            raise SecureSumError(
                f"this node has been summed with partitions {list(former[0])}, and its group is now"
                f" {list(expected)}; `curvfed cluster regroup` says what a change reveals",
                key="changed-group",
            )
        missing = sorted(set(expected) - set(members))
        added = sorted(set(members) - set(expected))
        if missing or added:
            change = f"without {missing}" if missing else f"with {added}"
            raise SecureSumError(
                f"this node is always summed with partitions {list(expected)}; a sum {change} would"
                " reveal their difference",
                key="other-group",
            )

    def note_sum(
        self,
        session: Session,
        basis: Basis,
        data: str,
        group: tuple[int, ...],
        statements: Mapping[int, bytes],
        vector: str = "",
    ) -> None:
        """Record that this node's vector from this basis and these data, all named by their
        digests, is in a sum, with the heads of the peers' ledgers as they stated them.

        Called before the vector leaves. A sum that is recorded already is not recorded again.

        Raises
        ------
        SecureSumError
            If the node was in this sum with another vector, or with one from another basis or
            other data, the sum lies before the run's last one, or `check` refuses.
        """
        stated = {}
        for peer, statement in sorted(statements.items()):
            head = head_in(statement, 0)
            if head.size:
                stated[str(peer)] = [head.size, head.digest]
        number = sum_number(session.phase, session.round)
        digest = sha256(session.digest + basis.digest + f"{data}{vector}".encode()).hexdigest()
        with self.locked() as file:
            self._check_members(session.clients, group)
            sums = self.memory.sums.get(session.run, {})
            place = f"{session.phase} of round {session.round}"
            if str(number) in sums:
                if sums[str(number)] == digest:
                    return
                raise SecureSumError(
                    f"this node was in the sum of {place} before, with another vector, or with one"
                    " from other parameters, another configuration or other data; it is in each"
                    " sum once",
                    key="repeated-sum",
                )
            last = max(map(int, sums), default=0)
            if number < last:
                raise SecureSumError(
                    f"this node was in a later sum of the run than {place}; sums come in the order"
                    " of their rounds and phases",
                    key="repeated-sum",
                )
            self.write(
                file,
                SUM,
                run=session.run,
                phase=session.phase,
                round=session.round,
                session=digest,
                cohort=list(session.clients),
                basis=basis.short,
                heads=stated,
            )

    def was_in(self, session: Session) -> bool:
        """Whether this node's vector is in a sum of this run, phase and round."""
        with self.locked():
            sums = self.memory.sums.get(session.run, {})
            return str(sum_number(session.phase, session.round)) in sums

    def changed_cohorts(self, group: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The nodes of former sums, if they differ from this group."""
        with self.locked():
            return sorted(self.memory.cohorts - {group})

    def regroup(self, limit: int, **fields: Any) -> None:
        """Record that the node may be summed with other nodes than before.

        Parameters
        ----------
        limit : int
            Maximum number of changes in a quarter.

        Raises
        ------
        ConfigError
            If the limit is reached.
        """
        with self.locked() as file:
            since = time_now(QUARTER)
            recent = [time for time in self.memory.regroups if time > since]
            if len(recent) >= limit:
                raise ConfigError(
                    f"this node's group has changed {len(recent)} times in {QUARTER.days} days"
                    f" ({', '.join(recent)}); allowed is {limit}: [sums] regroups-per-quarter in"
                    " its policy",
                    key="regroups-per-quarter",
                )
            self.write(file, REGROUP, **fields)

    def reveal(
        self, run: str, points: AbstractSet[str], own: AbstractSet[str], limit: float
    ) -> None:
        """Record the points that the node's hulls reveal, as keyed hashes, if all runs together
        reveal at most a share of `limit` of the node's own points.

        Other splits reveal other points. So all present points of the node count, test points
        included, whichever run revealed them.

        Raises
        ------
        ConfigError
        """
        with self.locked() as file:
            if len(own & (self.memory.points | points)) > limit * len(own):
                raise ConfigError(
                    f"this node's hull-max-share is {limit:g} over all runs; with this one more of"
                    " its points would leave",
                    key="hull-max-share",
                )
            if new := sorted(points - self.memory.points):
                self.write(file, POINTS, run=run, points=new)


def ledger_of(node: Node) -> Ledger:
    """The ledger of a real node, in its `state-path`.

    Its anchor is in the folder of the signing key; without a key, or if that folder cannot be
    written, in the home of the user or in the `state-path`.
    """
    path = ledger_path(node)
    name = sha256(str(node.signing_key or path).encode()).hexdigest()[:16]
    anchors = [home() / "ledgers" / f"{name}.anchor", path.with_suffix(".anchor")]
    if node.signing_key:
        anchors.insert(0, node.signing_key.with_name(f"{node.signing_key.name}.ledger"))
    return Ledger(path, anchors)

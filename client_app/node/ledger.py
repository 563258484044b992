"""The node's ledger: its lines decide which sums the node joins, which points its hulls may reveal,
and which private replies its budget allows.

A line is written and synced before its answer leaves, so a line torn by a crash belongs to no
answer. A node with a damaged ledger answers nothing, since it no longer knows what it has revealed.
"""

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import timedelta
from hashlib import sha256
from typing import Any

from curvfed.client_app.node import Node
from curvfed.client_app.node.ledger_file import LedgerFile, time_now
from curvfed.client_app.node.ledger_memory import (
    BEGUN,
    POINTS,
    PRIVACY,
    REFUSAL,
    REGROUP,
    RUN,
    SUM,
    head_in,
    refusal_name,
    stated_head,
)
from curvfed.client_app.node.policy import Privacy
from curvfed.strategies.base.privacy_accountant import Release, epsilon_of
from curvfed.strategies.base.run_keys import home
from curvfed.strategies.base.shared_tables import GROUP_SIZE
from curvfed.strategies.config.secure_phases import groups
from curvfed.strategies.errors import ConfigError, PeerError, SecureSumError
from curvfed.strategies.secure_sum import Session
from curvfed.strategies.secure_sum.messages import Basis

QUARTER = timedelta(days=90)
"""The time in which changes of a node's group are counted."""


REFUSALS_PER_DAY = 1000
"""Maximum number of refusals that are recorded on a day: a server can ask for more than a disk
holds."""

RUNS_PER_DAY = 1000
SUMS_PER_DAY = 100_000
"""Maximum number of runs, and of secure sums, that the node begins on a day: each is a line of its
ledger, whatever becomes of it."""

LONGEST_REASON = 2000
"""Characters of a reason that are recorded."""


class Ledger(LedgerFile):
    """The lines of one node, and the rules that they decide."""

    def note_run(self, run: str, settings: Mapping[str, Any]) -> None:
        """Record a run and its keys, once.

        Raises
        ------
        ConfigError
            If the node has begun `RUNS_PER_DAY` runs today.
        """
        with self.locked() as file:
            if run not in self.memory.runs:
                self._check_number(RUN, RUNS_PER_DAY, "runs")
                self.write(file, RUN, run=run, **settings)

    def _check_number(self, kind: str, limit: int, words: str) -> None:
        """Refuse another line of a kind if today has as many as the limit."""
        if self.memory.number_on(time_now(), kind) >= limit:
            raise ConfigError(
                f"this node has begun {limit} {words} today, as many as it begins on a day (UTC)",
                key="too-many-today",
            )

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

    def begin(self, session: Session, recorded: Mapping[int, bytes]) -> dict[int, bytes]:
        """Record that this node begins a sum, and state to each peer the heads of two ledgers: of
        this node's own, and of the peer's as `recorded_heads` gives it.

        After the sum the peers can tell a ledger that knows of it from one that does not.

        Raises
        ------
        ConfigError
            If the node has begun `SUMS_PER_DAY` sums today.
        """
        with self.locked() as file:
            self._check_number(BEGUN, SUMS_PER_DAY, "secure sums")
            self.write(file, BEGUN, run=session.run, phase=session.phase, round=session.round)
            own = stated_head(self.head.size, self.head.digest)
        return {peer: own + head for peer, head in recorded.items()}

    def compare(self, sent: Mapping[int, bytes], received: Mapping[int, bytes]) -> None:
        """Compare what this node and its peers stated about each other's ledgers in one sum.

        A head that a node stated is on its disk, also if the sum failed. So its chain has the head
        as long as nothing was removed from it, whichever sums its peers have signed.

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
        else those of its first sum; itself alone if it has neither.

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

    def sign(
        self,
        session: Session,
        cohort: Collection[int],
        basis: Basis,
        group: tuple[int, ...],
        statements: Mapping[int, bytes],
    ) -> None:
        """Record that this node signs a sum over these nodes, of vectors from this basis, with the
        heads of their ledgers as they stated them, if the earlier sums allow it.

        Raises
        ------
        SecureSumError
            If it has signed this session before, or `check` refuses.
        """
        stated = {}
        for peer in sorted(cohort):
            head = head_in(statements.get(peer, b""), 0)
            if head.size:
                stated[str(peer)] = [head.size, head.digest]
        with self.locked() as file:
            digest = session.digest.hex()
            if digest in self.memory.sessions:
                raise SecureSumError(
                    "this node has signed this secure sum before, and answers once",
                    key="signed-sum",
                )
            self._check_members(cohort, group)
            self.write(
                file,
                SUM,
                run=session.run,
                phase=session.phase,
                round=session.round,
                session=digest,
                cohort=sorted(cohort),
                basis=basis.short,
                heads=stated,
            )

    def changed_cohorts(self, group: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The nodes of former sums, where they are not this group."""
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

        Other splits reveal other points. So all points count that the node has now, those to test
        on, too, whichever run revealed them.

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

    def check_budget(
        self, run: str, plan: Mapping[str, tuple[Release, int]], rules: Privacy, unit: str
    ) -> None:
        """Refuse a run whose remaining private replies would, with all earlier releases, cost more
        than the policy allows.

        Parameters
        ----------
        run : str
        plan : mapping of str to (Release, int)
            By phase, the releases of one reply, and the number of replies of the run, those given
            included.
        rules : Privacy
            The policy's budget.
        unit : str
            What the run hides, `dp.unit`.

        Raises
        ------
        ConfigError
        """
        with self.locked():
            left = []
            for phase, (release, number) in plan.items():
                replies = max(0, number - self.memory.num_answered(run, phase))
                left.append(release._replace(times=replies * release.times))
            self._check_cost(left, unit, rules)

    def pay(
        self,
        run: str,
        release: Release,
        planned: int,
        rules: Privacy,
        *,
        phase: str,
        reply: str,
        unit: str,
        **fields: Any,
    ) -> None:
        """Record the cost of a private reply, once.

        Parameters
        ----------
        run : str
        release : Release
        planned : int
            The number of replies in the phase for which the run has planned its noise.
        rules : Privacy
            The policy's budget.
        phase : str
        reply : str
            Digest of the reply.
        unit : str
            What the run hides, `dp.unit`.
        **fields
            Further fields of the line.

        Raises
        ------
        ConfigError
            If the run has had all its replies, or the budget is spent.
        """
        with self.locked() as file:
            if any(cost["reply"] == reply for cost in self.memory.costs):
                return
            answered = self.memory.num_answered(run, phase)
            if answered >= planned:
                raise ConfigError(
                    f"this node has answered {answered} rounds of the run {run} ({phase}), for"
                    " which its noise was planned; another run needs another run-name",
                    key="rounds-spent",
                )
            self._check_cost([release], unit, rules)
            costs = {"unit": unit, "phase": phase, **release._asdict()}
            self.write(file, PRIVACY, run=run, reply=reply, **costs, **fields)

    def _check_cost(self, planned: Sequence[Release], unit: str, rules: Privacy) -> None:
        if rules.max_epsilon is None:
            return
        costs = [*self.memory.costs, *({"unit": unit, **each._asdict()} for each in planned)]
        is_mixed = len({cost["unit"] for cost in costs}) > 1
        releases = []
        for cost in costs:
            # A record turns a client's update, of a length up to dp.clip, into another, which can
            # be twice as far from it as from none: beside records, clients have half the noise.
            shrink = 2 if is_mixed and cost["unit"] == "client" else 1
            releases.append(Release(cost["noise"] / shrink, cost["rate"], cost["times"]))
        epsilon = epsilon_of(releases, rules.delta)
        spent = releases[: len(self.memory.costs)]
        if epsilon > rules.max_epsilon:
            raise ConfigError(
                f"this node's privacy budget: epsilon would be {epsilon:.3g} at delta ="
                f" {rules.delta:g}, of which {epsilon_of(spent, rules.delta):.3g} is spent;"
                f" [privacy] max-epsilon = {rules.max_epsilon:g} in its policy",
                key="privacy-budget",
            )


def ledger_of(node: Node) -> Ledger:
    """The ledger of a real node, in its `state-path`.

    Its anchor is beside the signing key; without one, or if nothing can be written there, in the
    home of the user or in the `state-path`.
    """
    path = node.state_root / f"ledger-{node.partition:05d}.jsonl"
    name = sha256(str(node.signing_key or path).encode()).hexdigest()[:16]
    anchors = [home() / "ledgers" / f"{name}.anchor", path.with_suffix(".anchor")]
    if node.signing_key:
        anchors.insert(0, node.signing_key.with_name(f"{node.signing_key.name}.ledger"))
    return Ledger(path, anchors)

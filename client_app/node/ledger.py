"""The node's ledger: a line for each run, sum, private reply, set of revealed points and refusal;
it decides whether the node joins the next sum.

A line is written and synced before its answer leaves, so a line torn by a crash belongs to no
answer. A node with a damaged ledger answers nothing, since it no longer knows what it has revealed.
"""

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Self

import numpy as np

from curvfed.client_app.node.inputs import Inputs
from curvfed.client_app.node.ledger_file import Head, LedgerFile
from curvfed.client_app.node.node import Node
from curvfed.client_app.node.policy_tables import Privacy, Sums
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.run_keys import home
from curvfed.strategies.privacy.accountant import Release, epsilon_of
from curvfed.strategies.secure_sum.errors import PeerError, SecureSumError
from curvfed.strategies.secure_sum.messages import Basis
from curvfed.strategies.secure_sum.session import Session

RUN = "run"
BEGUN = "begun"
SUM = "sum"
POINTS = "points"
REFUSAL = "refusal"
PRIVACY = "privacy"
ACCEPTED = "accepted"
"""Kinds of lines."""

_OF_SUMS = ("cohort", "phase", "of", "sketch", "update", "moved")
"""The fields of a sum's line that later sums are compared with."""

_OF_COSTS = ("run", "reply", *Release._fields)
"""The fields of a private reply's line that its cost is computed from."""

_SIZE_BYTES = 8
_DIGITS = 32
"""Bytes of a ledger's size, and hexadecimal digits of its digest, as nodes state them."""

AS_GOOD = 0.95
"""Privacy floor: given all sums over the same inputs, an attacker's error on any one vector is at
least this fraction of the error from the smallest sum alone."""

ROUNDING = 1e-9
"""Tolerated relative error of a leverage, far above that of a pseudo-inverse in float64."""


@dataclass
class Memory:
    """What the rules ask of the lines.

    Attributes
    ----------
    runs, sessions, points : set of str
        Runs that asked, sums that the node signed, points that its hulls revealed.
    sums : list of dict
        The inputs and nodes of each sum.
    costs : list of dict
        Run, reply and releases of each private reply.
    heads : dict of str to list
        By the partition of a peer: size and digest of the last head that it stated in a sum which
        this node signed.
    """

    runs: set[str] = field(default_factory=set)
    sessions: set[str] = field(default_factory=set)
    points: set[str] = field(default_factory=set)
    sums: list[dict[str, Any]] = field(default_factory=list)
    costs: list[dict[str, Any]] = field(default_factory=list)
    heads: dict[str, list[Any]] = field(default_factory=dict)

    def note(self, line: Mapping[str, Any]) -> None:
        """Add a line."""
        if line["kind"] == RUN:
            self.runs.add(line["run"])
        elif line["kind"] == SUM:
            self.sessions.add(line["session"])
            self.sums.append({name: line[name] for name in _OF_SUMS if name in line})
            for peer, head in line["heads"].items():
                # Of two sums at the same time, the one that was signed first may have begun later.
                self.heads[peer] = max(head, self.heads.get(peer, head))
        elif line["kind"] == ACCEPTED:
            self.heads.pop(str(line["peer"]), None)
        elif line["kind"] == POINTS:
            self.points.update(line["points"])
        elif line["kind"] == PRIVACY:
            self.costs.append({name: line[name] for name in _OF_COSTS})

    def as_json(self) -> dict[str, Any]:
        """The memory in the types of JSON."""
        sets = {name: sorted(getattr(self, name)) for name in ("runs", "sessions", "points")}
        return {**sets, "sums": self.sums, "costs": self.costs, "heads": self.heads}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Inverse of `as_json`."""
        sets = {name: set(fields[name]) for name in ("runs", "sessions", "points")}
        return cls(**sets, sums=fields["sums"], costs=fields["costs"], heads=fields["heads"])


class Ledger(LedgerFile[Memory]):
    """The lines of one node, and the rules that they decide."""

    memory_type = Memory

    def note_run(self, run: str, settings: Mapping[str, Any]) -> None:
        """Record a run and its keys, once."""
        with self.locked() as file:
            if run not in self.memory.runs:
                self.write(file, RUN, run=run, **settings)

    def begin(self, session: Session, peers: Collection[int]) -> dict[int, bytes]:
        """Record that this node begins a sum, and state to each peer the heads of two ledgers: of
        this node's own, and of the peer's as this node has recorded it.

        After the sum the peers can tell a ledger that knows of it from one that does not.
        """
        with self.locked() as file:
            self.write(file, BEGUN, run=session.run, phase=session.phase, round=session.round)
            own = _stated(self.head.size, self.head.digest)
            heads = self.memory.heads
            return {peer: own + _stated(*heads.get(str(peer), (0, ""))) for peer in peers}

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
            if _head_in(statement, 0).size < _head_in(sent.get(peer, b""), 1).size
        }
        with self.locked() as file:
            others = [
                peer
                for peer, statement in received.items()
                if not _head_in(statement, 1).is_in(file)
            ]
        if others:
            raise SecureSumError(
                f"this node's ledger lacks lines that partitions {others} have recorded; put back"
                " its last copy, or if that is lost, the operators of these nodes can go on with"
                " this one by `curvfed cluster ledger STATE-PATH --accept` and its partition-id",
                key="ledger-lacks-lines",
            )
        if shorter:
            raise PeerError(shorter)

    def check(self, cohort: Collection[int], inputs: Inputs, rules: Sums) -> None:
        """Refuse a sum over these nodes that, with earlier sums of the same inputs, reveals more
        than a single sum.

        Raises
        ------
        SecureSumError
        """
        with self.locked():
            self._check_sum(cohort, inputs, rules)

    def _check_sum(self, cohort: Collection[int], inputs: Inputs, rules: Sums) -> None:
        former = self.memory.sums
        check_cohorts(
            [line["cohort"] for line in former if inputs.are_those_of(line, rules.nearness)],
            cohort,
            rules.contributors,
        )
        if rules.fixed_groups and any(set(line["cohort"]) != set(cohort) for line in former):
            raise SecureSumError(
                "[sums] fixed-groups = true in this node's policy: it always sums with the same"
                " nodes",
                key="fixed-groups",
            )

    def sign(
        self,
        session: Session,
        cohort: Collection[int],
        basis: Basis,
        inputs: Inputs,
        rules: Sums,
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
            head = _head_in(statements.get(peer, b""), 0)
            if head.size:
                stated[str(peer)] = [head.size, head.digest]
        with self.locked() as file:
            digest = session.digest.hex()
            if digest in self.memory.sessions:
                raise SecureSumError(
                    "this node has signed this secure sum before, and answers once",
                    key="signed-sum",
                )
            self._check_sum(cohort, inputs, rules)
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
                **inputs.as_fields(),
            )

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

    def check_budget(self, run: str, planned: Release, rounds: int, rules: Privacy) -> None:
        """Refuse a run whose remaining private rounds would, with all earlier releases, cost more
        than the policy allows.

        Parameters
        ----------
        run : str
        planned : Release
            The releases of one round.
        rounds : int
            The number of rounds of the run, those answered included.
        rules : Privacy
            The policy's budget.

        Raises
        ------
        ConfigError
        """
        with self.locked():
            left = max(0, rounds - self._num_answered(run))
            self._check_cost(planned._replace(times=left * planned.times), rules)

    def pay(
        self, run: str, release: Release, rounds: int, rules: Privacy, reply: str, **fields: Any
    ) -> None:
        """Record the cost of a private reply, once.

        Parameters
        ----------
        run : str
        release : Release
        rounds : int
            The number of rounds for which the run has planned its noise.
        rules : Privacy
            The policy's budget.
        reply : str
            Digest of the reply.
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
            answered = self._num_answered(run)
            if answered >= rounds:
                raise ConfigError(
                    f"this node has answered {answered} rounds of the run {run}, for which its"
                    " noise was planned; another run needs another run-name",
                    key="rounds-spent",
                )
            self._check_cost(release, rules)
            self.write(file, PRIVACY, run=run, reply=reply, **release._asdict(), **fields)

    def _num_answered(self, run: str) -> int:
        return sum(cost["run"] == run for cost in self.memory.costs)

    def _check_cost(self, release: Release, rules: Privacy) -> None:
        if rules.max_epsilon is None:
            return
        spent = [Release(cost["noise"], cost["rate"], cost["times"]) for cost in self.memory.costs]
        epsilon = epsilon_of([*spent, release], rules.delta)
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


def _stated(size: int, digest: str) -> bytes:
    """A head in a statement to a peer; zeros for none."""
    return size.to_bytes(_SIZE_BYTES) + bytes.fromhex(digest[:_DIGITS].ljust(_DIGITS, "0"))


def _head_in(statement: bytes, position: int) -> Head:
    """One of the two heads in a peer's statement; none if the statement is of another length."""
    length = _SIZE_BYTES + _DIGITS // 2
    if len(statement) != 2 * length:
        return Head()
    text = statement[position * length : (position + 1) * length]
    size = int.from_bytes(text[:_SIZE_BYTES])
    return Head(size=size, digest=text[_SIZE_BYTES:].hex())


def check_cohorts(former: Sequence[Collection[int]], new: Collection[int], min_size: int) -> None:
    """Refuse a sum that, with earlier sums of the same inputs, reveals more about one node than a
    single sum.

    Sums of uncorrelated vectors over the rows of a 0-1 matrix M (sums × nodes) give a linear
    estimate of node i's vector with the relative error √(1 − hᵢ), hᵢ = (M⁺M)ᵢᵢ. One sum over n
    nodes has hᵢ = 1/n; a node whose vector follows exactly has hᵢ = 1. If a combination of sums is
    a sum over m nodes, some hᵢ ≥ 1/m.

    Parameters
    ----------
    former : sequence of collections of int
        The nodes in each signed sum.
    new : collection of int
    min_size : int
        No combination may be a sum over fewer nodes.

    Raises
    ------
    SecureSumError
    """
    cohorts = {frozenset(cohort) for cohort in (*former, new)}
    if len(cohorts) == 1:
        return
    nodes = sorted(frozenset().union(*cohorts))
    rows = [np.isin(nodes, list(cohort)) for cohort in cohorts]
    sums = np.array(rows, np.float64)
    leverage = np.diag(np.linalg.pinv(sums) @ sums).max()
    alone = 1 / min(map(len, cohorts))
    # A sum over min_size - 1 nodes has exactly this leverage, and rounding can put it just below.
    too_few = leverage >= (1 - ROUNDING) / (min_size - 1)
    if leverage > 1 - AS_GOOD**2 * (1 - alone) or too_few:
        missing = sorted(set(nodes) - set(new))
        added = sorted(set(new) - frozenset.intersection(*cohorts))
        change = f"without {missing}" if missing else f"with {added}"
        raise SecureSumError(
            f"this node has signed a sum of the same inputs over other nodes; one {change} beside"
            " it would reveal too much about single nodes. Start all nodes of before and resume"
            " the run, or begin another run with another seed",
            key="revealing-difference",
        )

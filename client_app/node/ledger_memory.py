"""The kinds of lines in a node's ledger, the memory of its rules, and the head of the chain, as
nodes state it to each other."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from typing import Any, Self

from curvfed.strategies.config.masked import sum_number

DIGEST_DIGITS = 64

END = b'"}'


@dataclass(frozen=True)
class Head:
    """The end of a chain.

    Attributes
    ----------
    lines, size : int
        Number of lines, and of bytes.
    digest : str
        SHA-256 of the last line after the digest of the line before, in hexadecimal.
    """

    lines: int = 0
    size: int = 0
    digest: str = ""

    def after(self, text: bytes) -> "Head | None":
        """The head after another line, without its line break; None if it does not follow."""
        body = text[: -DIGEST_DIGITS - len(END)]
        digest = sha256(self.digest.encode() + body).hexdigest()
        if text != body + digest.encode() + END:
            return None
        return Head(self.lines + 1, self.size + len(text) + 1, digest)

    def is_in(self, file: int) -> bool:
        """Whether a line with this digest, or one that begins so, ends at this place in a file."""
        place = self.size - DIGEST_DIGITS - len(END) - 1
        if not 0 <= place < os.fstat(file).st_size:
            return not self.size
        return os.pread(file, len(self.digest), place) == self.digest.encode()


RUN = "run"
BEGUN = "begun"
SUM = "sum"
POINTS = "points"
REFUSAL = "refusal"
PRIVACY = "privacy"
ACCEPTED = "accepted"
REGROUP = "regroup"
SPLIT = "split"
CONFIGURATION = "configuration"
WEIGHT = "weight"
LIMITED = "limited"
EXPOSURE = "exposure"
"""Kinds of lines."""

OPEN = "open"
"""The configuration of all runs that a node has answered in the open from a start: they count as
one."""

IN_SUMS = "sums"
"""Beside `OPEN`: values of the data alone have left in sums."""

_TEXT_SETS = ("runs", "points", "refusals")
"""The sets of str in the memory."""

_PLAIN = (
    "sums",
    "day",
    "numbers",
    "regroups",
    "costs",
    "heads",
    "shares",
    "questions",
    "configurations",
    "weights",
    "limited",
    "exposures",
)
"""The attributes of the memory with types of JSON."""

_DAY = len("2026-01-01")

_OF_COSTS = ("run", "reply", "unit", "phase", "noise", "rate", "times")
"""The fields of a private reply's line that its cost is computed from."""


@dataclass
class Memory:
    """The facts that the rules need from the lines.

    Attributes
    ----------
    runs, points : set of str
        Runs that asked the node, by `run_name`; points that its hulls revealed.
    sums : dict of str to dict
        By run, the number and the digest of each sum that the node was in.
    refusals : set of str
        The day and a hash of each refusal on the last day that has one.
    day : str
        The day of the last line.
    numbers : dict of str to int
        By kind, the number of lines of that day.
    cohorts : set of tuple of int
        The nodes of each sum since the last change of the group.
    regroups : list of str
        The times of these changes.
    costs : list of dict
        Run, reply, unit, phase and noisy releases of each private reply.
    heads : dict of str to list
        By the partition of a peer: size and digest of the last head that it stated in a sum which
        this node was in.
    shares : dict of str to list of float
        By task: shares of training and test records.
    questions : dict of str to list of str
        By run: the names of its last questions, see `Ledger.admit`.
    configurations : dict of str to list of str
        By name of a question: the digests of the configurations that have asked it, and `OPEN`.
    weights : dict of str to list of int
        By state of the data: the node's largest weights in sums, since the last change of the
        group.
    limited : dict of str to list of str
        By kind of limited question and state of the data: the digests of those answered.
    exposures : dict of str to list of str
        By state of the data: `IN_SUMS` or `OPEN`, or both, as values of the data alone have left.
    """

    runs: set[str] = field(default_factory=set)
    sums: dict[str, dict[str, str]] = field(default_factory=dict)
    points: set[str] = field(default_factory=set)
    refusals: set[str] = field(default_factory=set)
    day: str = ""
    numbers: dict[str, int] = field(default_factory=dict)
    cohorts: set[tuple[int, ...]] = field(default_factory=set)
    regroups: list[str] = field(default_factory=list)
    costs: list[dict[str, Any]] = field(default_factory=list)
    heads: dict[str, list[Any]] = field(default_factory=dict)
    shares: dict[str, list[float]] = field(default_factory=dict)
    questions: dict[str, list[str]] = field(default_factory=dict)
    configurations: dict[str, list[str]] = field(default_factory=dict)
    weights: dict[str, list[int]] = field(default_factory=dict)
    limited: dict[str, list[str]] = field(default_factory=dict)
    exposures: dict[str, list[str]] = field(default_factory=dict)

    def note(self, line: Mapping[str, Any]) -> None:
        """Add a line."""
        kind = line["kind"]
        number = self.number_on(line["time"], kind)
        if self.day != line["time"][:_DAY]:
            self.day = line["time"][:_DAY]
            self.numbers = {}
        self.numbers[kind] = number + 1
        if kind == RUN:
            self.runs.add(run_name(line))
        elif line["kind"] == SUM:
            number = sum_number(line["phase"], line["round"])
            self.sums.setdefault(line["run"], {})[str(number)] = line["session"]
            self.cohorts.add(tuple(line["cohort"]))
            for peer, head in line["heads"].items():
                # Of two sums at the same time, the first in the ledger may have begun later.
                self.heads[peer] = max(head, self.heads.get(peer, head))
        elif line["kind"] == REFUSAL:
            name = refusal_name(line)
            self.refusals = {*self.refusals_like(name), name}
        elif line["kind"] == ACCEPTED:
            self.heads.pop(str(line["peer"]), None)
        elif line["kind"] == REGROUP:
            self.cohorts.clear()
            self.weights.clear()
            self.regroups.append(line["time"])
        elif line["kind"] == POINTS:
            self.points.update(line["points"])
        elif line["kind"] == SPLIT:
            self.shares[line["task"]] = line["shares"]
        elif line["kind"] == CONFIGURATION:
            self.questions[line["run"]] = line["questions"]
            for name in line["questions"]:
                asked = self.configurations.setdefault(name, [])
                if line["configuration"] not in asked:
                    asked.append(line["configuration"])
        elif line["kind"] == WEIGHT:
            # A line of an earlier version also has the policy's weight-share.
            data = line["data"].partition(" ")[0]
            self.weights.setdefault(data, []).append(line["weight"])
        elif line["kind"] == LIMITED:
            name = limited_name(line["question"], line["data"])
            self.limited.setdefault(name, []).append(line["answered"])
        elif line["kind"] == EXPOSURE:
            self.exposures.setdefault(line["data"], []).append(line["exposure"])
        elif line["kind"] == PRIVACY:
            self.costs.append({name: line[name] for name in _OF_COSTS if name in line})

    def number_on(self, time: str, kind: str) -> int:
        """Number of lines of a kind on the day of a time, if that is the last day."""
        return self.numbers.get(kind, 0) if time[:_DAY] == self.day else 0

    def num_answered(self, run: str, phase: str) -> int:
        """Number of private replies of a run in a phase; a line without a phase counts for every
        phase."""
        costs = [cost for cost in self.costs if cost["run"] == run]
        return sum(cost.get("phase", phase) == phase for cost in costs)

    def refusals_like(self, name: str) -> set[str]:
        """The refusals of the same day."""
        return {other for other in self.refusals if other[:_DAY] == name[:_DAY]}

    def as_json(self) -> dict[str, Any]:
        """The memory in the types of JSON."""
        sets = {name: sorted(getattr(self, name)) for name in _TEXT_SETS}
        others = {name: getattr(self, name) for name in _PLAIN}
        return {**sets, "cohorts": sorted(self.cohorts), **others}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Inverse of `as_json`."""
        sets: dict[str, Any] = {name: set(fields[name]) for name in _TEXT_SETS}
        others = {name: fields[name] for name in _PLAIN}
        return cls(**sets, cohorts=set(map(tuple, fields["cohorts"])), **others)


def run_name(line: Mapping[str, Any]) -> str:
    """A run and its settings: a run that ended before its first round leaves its name to others."""
    return f"{line['run']}\0{line.get('method')}\0{line.get('secure-sum')}"


def refusal_name(line: Mapping[str, Any]) -> str:
    """The day of a refusal, and a hash of its run and reason."""
    text = f"{line['run']}\0{line['reason']}"
    return f"{line['time'][:_DAY]} {blake2b(text.encode(), digest_size=8).hexdigest()}"


def limited_name(kind: str, data: str) -> str:
    """The key of `Memory.limited` for a kind of question and a state of the data."""
    return f"{kind}\0{data}"


_SIZE_BYTES = 8
_DIGITS = 32
"""Bytes of a ledger's size, and hexadecimal digits of its digest, as nodes state them."""


STATEMENT_BYTES = 2 * (_SIZE_BYTES + _DIGITS // 2)
"""Bytes of a statement to a peer: the heads of two ledgers."""


def stated_head(size: int, digest: str) -> bytes:
    """A head in a statement to a peer; zeros for none."""
    return size.to_bytes(_SIZE_BYTES) + bytes.fromhex(digest[:_DIGITS].ljust(_DIGITS, "0"))


def head_in(statement: bytes, position: int) -> Head:
    """One of the two heads in a peer's statement; none if the statement is of another length."""
    if len(statement) != STATEMENT_BYTES:
        return Head()
    length = STATEMENT_BYTES // 2
    text = statement[position * length : (position + 1) * length]
    size = int.from_bytes(text[:_SIZE_BYTES])
    return Head(size=size, digest=text[_SIZE_BYTES:].hex())

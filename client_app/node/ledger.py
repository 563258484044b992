"""The node's ledger: a line for each run, sum, set of revealed points and refusal; it decides
whether the node joins the next sum.

A line is written and synced before its answer leaves, so a line torn by a crash belongs to no
answer. Each line has its own digest: a node with a damaged ledger answers nothing, since it no
longer knows what it has revealed.
"""

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from curvfed.client_app.node.inputs import Inputs
from curvfed.client_app.node.node import Node
from curvfed.client_app.node.policy_tables import Sums
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.secure_sum.messages import Basis
from curvfed.strategies.secure_sum.session import Session
from curvfed.tasks.stored_files import UNSEALED, check_whole, is_whole, sealed, sync_folder

RUN = "run"
SUM = "sum"
POINTS = "points"
REFUSAL = "refusal"
"""Kinds of lines."""

_DIGEST = "digest"
"""The first field of a line."""

AS_GOOD = 0.95
"""Privacy floor: given all sums over the same inputs, an attacker's error on any one vector is at
least this fraction of the error from the smallest sum alone."""

ROUNDING = 1e-9
"""Tolerated relative error of a leverage, far above that of a pseudo-inverse in float64."""


class Ledger:
    """The lines of one node, oldest first, in a text file that is only ever appended to.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, kind: str, **fields: Any) -> None:
        """Write a line to the disk.

        Raises
        ------
        ConfigError
            If the line cannot be written: then the node must not answer.
        """
        line = {
            _DIGEST: UNSEALED,
            "time": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "kind": kind,
            **fields,
        }
        content = sealed(json.dumps(line, ensure_ascii=False).encode()) + b"\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            is_new = not self.path.exists()
            file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                stored = self.path.read_bytes()
                self._lines_in(stored)
                os.ftruncate(file, stored.rfind(b"\n") + 1)  # removes a torn line
                if os.write(file, content) < len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file)
            finally:
                os.close(file)
            if is_new:
                sync_folder(self.path.parent)
        except OSError as error:
            raise ConfigError(
                f"this node's ledger cannot be written ({error.strerror}): it answers nothing",
                key="unwritable-ledger",
            ) from None

    def lines(self, *kinds: str) -> list[dict[str, Any]]:
        """The lines of some kinds, or all, without a torn one.

        Raises
        ------
        ConfigError
            If a line is damaged.
        """
        data = self.path.read_bytes() if self.path.exists() else b""
        return [line for line in self._lines_in(data) if not kinds or line["kind"] in kinds]

    def _lines_in(self, data: bytes) -> list[dict[str, Any]]:
        lines = []
        (*complete, last) = data.split(b"\n")
        if is_whole(last[:-1]):  # not torn: its line break has become another character
            complete.append(last)
        for number, text in enumerate(complete, 1):
            try:
                check_whole(text)
            except ValueError:
                raise ConfigError(
                    f"this node's ledger is damaged: {self.path}, line {number}; restore the file"
                    " from a backup. Until then the node answers nothing, since it does not know"
                    " what it has revealed",
                    key="damaged-ledger",
                ) from None
            lines.append(json.loads(text))
        return lines

    def note_run(self, run: str, settings: Mapping[str, Any]) -> None:
        """Record a run and its keys, once."""
        if not any(line["run"] == run for line in self.lines(RUN)):
            self.append(RUN, run=run, **settings)

    def check(self, cohort: Collection[int], inputs: Inputs, rules: Sums) -> None:
        """Refuse a sum over these nodes that, with earlier sums of the same inputs, reveals more
        than a single sum.

        Raises
        ------
        SecureSumError
        """
        former = self.lines(SUM)
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
    ) -> None:
        """Record that this node signs a sum over these nodes, of vectors from this basis, if the
        earlier sums allow it.

        Raises
        ------
        SecureSumError
            If it has signed this session before, or `check` refuses.
        """
        with self._alone():
            digest = session.digest.hex()
            if any(line["session"] == digest for line in self.lines(SUM)):
                raise SecureSumError(
                    "this node has signed this secure sum before, and answers once",
                    key="signed-sum",
                )
            self.check(cohort, inputs, rules)
            self.append(
                SUM,
                run=session.run,
                phase=session.phase,
                round=session.round,
                session=digest,
                cohort=sorted(cohort),
                basis=basis.short,
                **inputs.as_fields(),
            )

    def reveal(self, run: str, points: Collection[str], total: int, limit: float) -> None:
        """Record the points that the node's hulls reveal, as keyed hashes, if all runs together
        reveal at most a share of `limit`.

        Raises
        ------
        ConfigError
        """
        with self._alone():
            revealed = {point for line in self.lines(POINTS) for point in line["points"]}
            new = sorted(set(points) - revealed)
            if len(revealed) + len(new) > limit * total:
                raise ConfigError(
                    f"this node's hull-max-share is {limit:g} over all runs; with this one more of"
                    " its points would leave",
                    key="hull-max-share",
                )
            if new:
                self.append(POINTS, run=run, points=new)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """No other process checks and appends within the block."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self.path.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def ledger_of(node: Node) -> Ledger:
    """The ledger of a real node, in its `state-path`."""
    return Ledger(node.state_root / f"ledger-{node.partition:05d}.jsonl")


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

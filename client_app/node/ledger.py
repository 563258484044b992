"""The node's ledger: a line for every run, sum, revealed point and refusal, and what follows for
the next sum.

A line is written and synced before the answer that it is about leaves. So a line that a crash tore
belongs to no answer. Each line has its own digest: a node whose ledger is damaged answers nothing,
since it no longer knows what it has told.
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

from curvfed.client_app.node.configuration import state_root
from curvfed.client_app.node.inputs import Inputs
from curvfed.client_app.node.policy import Sums
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.secure_sum.session import Session
from curvfed.tasks.stored_files import UNSEALED, check_whole, is_whole, sealed, sync_folder

RUN = "run"
SUM = "sum"
POINTS = "points"
REFUSAL = "refusal"
"""Kinds of lines."""

REGISTERED = "registered"
REVOKED = "revoked"
RESUMED = "resumed"
"""Further kinds of the server's lines, which `curvfed cluster` writes."""

_DIGEST = "digest"
"""The first field of a line."""

AS_GOOD = 0.95
"""Privacy floor: given all sums over the same inputs, an attacker's error on any one vector is at
least this fraction of the error from the smallest sum alone."""

ROUNDING = 1e-9
"""Relative error allowed for in a leverage, far above that of a pseudo-inverse in float64."""


class Ledger:
    """The lines of one node, oldest first, in a text file that is only ever appended to.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, kind: str, **fields: Any) -> None:
        """Add a line, and wait until the disk has it.

        Raises
        ------
        ConfigError
            If it cannot be written: then the node must not answer.
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
                kept = self.path.read_bytes()
                self._lines_in(kept)
                os.ftruncate(file, kept.rfind(b"\n") + 1)  # a torn line, if there is one
                if os.write(file, content) < len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file)
            finally:
                os.close(file)
            if is_new:
                sync_folder(self.path.parent)
        except OSError as error:
            raise ConfigError(
                f"this node's ledger cannot be written ({error.strerror}): it answers nothing"
            ) from None

    def lines(self, *kinds: str) -> list[dict[str, Any]]:
        """The lines of some kinds, or all; torn ones are left out.

        Raises
        ------
        ConfigError
            If a line is damaged.
        """
        data = self.path.read_bytes() if self.path.exists() else b""
        return [line for line in self._lines_in(data) if not kinds or line["kind"] in kinds]

    def _lines_in(self, data: bytes) -> list[dict[str, Any]]:
        found = []
        (*whole, last) = data.split(b"\n")
        if is_whole(last[:-1]):  # its end has become another character
            whole.append(last)
        for number, text in enumerate(whole, 1):
            try:
                check_whole(text)
            except ValueError:
                raise ConfigError(
                    f"this node's ledger is damaged: {self.path}, line {number}; restore the file"
                    " from a backup. Until then the node answers nothing, for it does not know"
                    " what it has told"
                ) from None
            found.append(json.loads(text))
        return found

    def note_run(self, run: str, settings: Mapping[str, Any]) -> None:
        """Keep on record that a run asked this node, and with which keys, once."""
        if not any(line["run"] == run for line in self.lines(RUN)):
            self.append(RUN, run=run, **settings)

    def check(self, cohort: Collection[int], inputs: Inputs, rules: Sums) -> None:
        """Refuse a sum over these nodes, if with former ones of the same inputs it tells more than
        a single sum does.

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
                "[sums] fixed-groups = true in this node's policy: it sums with the same nodes"
                " always"
            )

    def sign(self, session: Session, cohort: Collection[int], inputs: Inputs, rules: Sums) -> None:
        """Keep on record that this node signs a sum over these nodes, if its former ones allow it.

        Raises
        ------
        SecureSumError
            If it has signed this session before, or as `check` does.
        """
        with self._alone():
            digest = session.digest.hex()
            if any(line["session"] == digest for line in self.lines(SUM)):
                raise SecureSumError(
                    "this node has signed this secure sum before, and answers once"
                )
            self.check(cohort, inputs, rules)
            self.append(
                SUM,
                run=session.run,
                phase=session.phase,
                round=session.round,
                session=digest,
                cohort=sorted(cohort),
                **inputs.as_fields(),
            )

    def reveal(self, run: str, points: Collection[str], total: int, limit: float) -> None:
        """Keep on record which points the node's hulls reveal, as keyed hashes, if all runs
        together stay within a share.

        Raises
        ------
        ConfigError
        """
        with self._alone():
            known = {point for line in self.lines(POINTS) for point in line["points"]}
            if len(known | set(points)) > limit * total:
                raise ConfigError(
                    f"this node's hull-max-share is {limit:g} over all runs; with this one more of"
                    " its points would leave"
                )
            if new := sorted(set(points) - known):
                self.append(POINTS, run=run, points=new)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """No other process checks and appends meanwhile."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self.path.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def ledger_of(partition: int, node_config: Mapping[str, Any]) -> Ledger:
    """The ledger of a real node, in its `state-path`, which it may write to."""
    return Ledger(state_root(node_config) / f"ledger-{partition:05d}.jsonl")


def check_cohorts(former: Sequence[Collection[int]], new: Collection[int], least: int) -> None:
    """Refuse a sum that, with former ones over the same inputs, tells more about one node than a
    single sum does.

    Of vectors without anything in common, sums over the rows of a 0-1 matrix M (sums × nodes) leave
    a linear estimate of node i's vector the relative error √(1 − hᵢ), hᵢ = (M⁺M)ᵢᵢ. One sum over n
    nodes has hᵢ = 1/n; of a node whose vector follows exactly hᵢ is 1. A combination of sums that
    is a sum over m nodes makes some hᵢ ≥ 1/m.

    Parameters
    ----------
    former : sequence of collections of int
        The nodes in each sum that was signed.
    new : collection of int
    least : int
        No sum over fewer nodes may follow.

    Raises
    ------
    SecureSumError
    """
    cohorts = {frozenset(one) for one in (*former, new)}
    if len(cohorts) == 1:
        return
    nodes = sorted(frozenset().union(*cohorts))
    sums = np.array([[node in cohort for node in nodes] for cohort in cohorts], np.float64)
    leverage = np.diag(np.linalg.pinv(sums) @ sums).max()
    alone = 1 / min(map(len, cohorts))
    # A sum over least - 1 nodes has this leverage exactly, and rounding may leave it just below.
    too_few = leverage >= (1 - ROUNDING) / (least - 1)
    if leverage > 1 - AS_GOOD**2 * (1 - alone) or too_few:
        away = sorted({node for cohort in cohorts for node in cohort} - set(new))
        others = sorted(set(new) - frozenset.intersection(*cohorts))
        what = f"without {away}" if away else f"with {others}"
        raise SecureSumError(
            f"this node has signed a sum of the same inputs over other nodes; one {what} beside it"
            " would tell too much about single nodes. Start all nodes of before and resume the"
            " run, or begin another run with another seed"
        )

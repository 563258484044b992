"""What a node's ledger of many sums costs each message: in a process that has read it, and in a new
one."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from benchmarks.measure import Pair, Place, Row
from curvfed.client_app.node import ledger_file
from curvfed.client_app.node.ledger import Ledger
from curvfed.client_app.node.ledger_memory import BEGUN, SUM

GROUP = range(9)
MILLISECONDS = 5.0


def rows(place: Place) -> list[Row]:
    """A ledger of 10,000 sums over nine nodes."""
    number = place.size(10_000, 100)
    of = "of a ledger of 10,000 sums"

    def against(prepare: Callable[[Ledger], None], other: float) -> Pair:
        ledger = _ledger(number)

        def check() -> None:
            prepare(ledger)
            ledger.check(GROUP, tuple(GROUP))

        check()
        return check, other

    limit = f"{MILLISECONDS:g} ms"
    return [
        Row(f"check {of}", limit, lambda: against(_loaded, MILLISECONDS / 1000), 1.0, 5, 20),
        Row(f"first check {of}", limit, lambda: against(_new, MILLISECONDS / 1000), None, 5),
        Row(
            f"first check {of}, without its index",
            limit,
            lambda: against(_new_without_index, MILLISECONDS / 1000),
        ),
    ]


def _ledger(number: int) -> Ledger:
    folder = Path(tempfile.mkdtemp(prefix="curvfed-ledger-"))
    ledger = Ledger(folder / "ledger.jsonl", [folder / "anchor"])
    heads = {str(peer): [10_000_000, "0" * 32] for peer in GROUP}
    basis = dict.fromkeys(("parameters", "facts", "configuration", "code"), "0" * 16)
    names = {"run": "a-run-of-many-rounds", "phase": "train"}
    with mock.patch.object(os, "fsync"), mock.patch.object(ledger_file, "write_atomically"):
        for round in range(number):
            ledger.append(BEGUN, **names, round=round)
            ledger.append(
                SUM,
                **names,
                round=round,
                session=f"{round:064x}",
                cohort=list(GROUP),
                basis=basis,
                heads=heads,
            )
    ledger_file._checked.clear()
    ledger.append("run", run="another")  # writes index and anchor, which the others did not
    return ledger


def _loaded(ledger: Ledger) -> None:
    """The process has read the ledger."""


def _new(ledger: Ledger) -> None:
    ledger_file._checked.clear()


def _new_without_index(ledger: Ledger) -> None:
    ledger.path.with_suffix(".index").unlink(missing_ok=True)
    ledger_file._checked.clear()

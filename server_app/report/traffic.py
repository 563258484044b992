"""What a run has sent, and what could be seen of it."""

from typing import Any

import numpy as np

from curvfed.server_app.directory.run_files import Columns, RunFiles, numbers
from curvfed.server_app.report.templates import Table
from curvfed.server_app.report.units import amount, duration, is_number, size
from curvfed.strategies.base.method import ENDS
from curvfed.strategies.methods import METHODS
from curvfed.strategies.wire.messages import EVALUATE, HULLS, KEYS, MEASURE, SHARES, UNMASK

MASKING = (KEYS, SHARES, UNMASK)
"""Phases that a secure sum has besides the masked one."""

UNWRAPPED = "without what Flower wraps around them"

SENT = {
    MEASURE: "how many points would leave",
    KEYS: "public keys",
    SHARES: "secrets of the masks, in encrypted shares",
    HULLS: "hulls, encoded and masked",
    UNMASK: "the shares that take the masks off the sum",
    EVALUATE: "the classifier",
}
"""What each phase of a one-shot run is for."""


def messages(run: RunFiles) -> list[Any]:
    """Bytes of a run of rounds."""
    if not is_number(run.summary.get("bytes_up")) and not run.scores:
        return []
    rows = [_sent(run, "To the server", "bytes_up"), _sent(run, "To the clients", "bytes_down")]
    note, masked = f"Parameters alone, {UNWRAPPED}.", run.rounds.get("phase", ()).count(UNMASK)
    if masked:
        rows += [
            _masking(run, "… keys, shares and unmask, to the server", "bytes_up"),
            _masking(run, "… keys, shares and unmask, to the clients", "bytes_down"),
        ]
        note = (
            "Parameters were seen as their sum over the clients alone (secure-sum = true): "
            f"{amount(masked, 'secure sum')}, each with the phases keys, shares and unmask besides the masked one. Every "
            f"client told its number of examples, losses and accuracies. Bytes are counted {UNWRAPPED}."
        )
    method = METHODS.get(run.summary.get("method") or "")
    if personal := dict.fromkeys((method.personal if method else ()) + (ENDS if run.own_ends else ())):
        rows.append(("Personal parameters sent", "0 B", "0 B"))
        which = "all" if "*" in personal else ", ".join(personal)
        note += f" Personal parameters ({which}) stay with the client, and a reply that carries one is refused."
    return [Table(["", "per client and round", "whole run"], rows, "Messages"), note]


def _sent(run: RunFiles, title: str, name: str) -> tuple[str, str, str]:
    return title, size(run.summary.get(name)), _whole(run, name)


def _whole(run: RunFiles, name: str) -> str:
    """Bytes to or from all clients in all phases."""
    return size(float(np.nansum(numbers(run.scores, name)))) if run.scores else "–"


def _masking(run: RunFiles, title: str, name: str) -> tuple[str, str, str]:
    """What secure sums cost; phases come with a mean over the clients."""
    mean, whole = (_in_masking(columns, name) for columns in (run.rounds, run.scores))
    return title, size(mean / max(run.summary.get("rounds") or 1, 1)), size(whole) if run.scores else "–"


def _in_masking(columns: Columns, name: str) -> float:
    there = [phase in MASKING for phase in columns.get("phase", ())]
    return float(np.nansum(numbers(columns, name)[np.array(there, dtype=bool)]))


def phases(run: RunFiles) -> list[Any]:
    """Bytes and seconds of every phase of a one-shot run, in the order that they came."""
    metrics = run.summary.get("metrics") or {}
    names = [key.removeprefix("bytes_up_") for key in metrics if key.startswith("bytes_up_")]
    rows = [
        (f"{name}: {SENT[name]}" if name in SENT else name, size(metrics[f"bytes_up_{name}"]),
         size(metrics.get(f"bytes_down_{name}")), duration(metrics.get(f"seconds_{name}")))
        for name in names
    ]  # fmt: skip
    if not rows:
        return []
    seconds = duration(sum(metrics.get(f"seconds_{name}") or 0 for name in names))
    rows.append(("all phases, all clients", _whole(run, "bytes_up"), _whole(run, "bytes_down"), seconds))
    header = ["phase", "to the server", "to the clients", "time"]
    note = f"Bytes of a phase are per client, {UNWRAPPED}."
    if HULLS in names:
        note += " What one client sends in phase hulls is masked: the masks cancel in the sum over the clients alone."
    return [Table(header, rows, "Messages"), note]

"""From the files of a one-shot run to the tables of its protocol and of its hulls."""

from typing import Any

from curvfed.server_app.directory.hull_file import HullFile
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report.templates import Table
from curvfed.server_app.report.units import is_number, number, percent, printable

FIGURES = {
    "hull_points": "Training points of all clients",
    "hull_points_shared": "… that are vertices of hulls",
    "hull_share_revealed": "… as a share of the training points",
    "hull_points_moved": "… moved onto the public radius",
    "hull_count": "Hulls",
    "hull_vertices_mean": "… vertices, mean",
    "hull_vertices_max": "… vertices, at most",
    "hull_vertices_thinned": "… vertices that the public cap cost",
    "hull_groups": "Groups",
    "grouping_accuracy": "… hulls in the group of their class",
    "hulls_exact": "Decoded hulls are those of the clients",
    "hull_epsilon": "ε, hyperbolic distance",
    "hull_bins": "Bins of the quantiser",
    "hull_prime": "Prime of the sums",
    "hull_symbols": "Numbers that every client sends",
    "clients_summed": "Clients whose hulls are in the sum",
    "dropouts": "Clients that dropped out",
    "svm_c": "C of the classifier",
}
"""Figures of the protocol, by that of the summary."""

PHASE_FIGURES = ("bytes_up_", "bytes_down_", "seconds_")
"""What the names of a phase's figures begin with."""


def hull_tables(run: RunFiles) -> list[Any]:
    """The protocol and every hull; nothing for a run of rounds."""
    return [*_protocol(run), *(_hulls(run.hulls) if run.hulls is not None else [])]


def _protocol(run: RunFiles) -> list[Any]:
    metrics = run.summary.get("metrics") or {}
    rows = [(words, shown) for key, words in FIGURES.items() if (shown := _shown(key, metrics.get(key))) != "–"]
    return [Table([], rows, "Protocol")] if rows else []


def _shown(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key in ("hull_share_revealed", "grouping_accuracy"):
        return percent(value)
    return f"{value:,g}" if key in ("hull_epsilon", "svm_c") and is_number(value) else number(value, 2)


def _hulls(file: HullFile) -> list[Any]:
    rows = [
        (one + 1, hull.client + 1, f"{hull.group + 1}", printable(file.names[hull.group]) or "–", len(hull.corners))
        for one, hull in enumerate(file.hulls)
    ]
    note = "Clients are anonymous: it is known which hulls have the same one, but no number says which one that is."
    header = ["hull", "client", "group", "class", "vertices"]
    return [Table(header, rows, "Hulls", "figures wide"), note]

"""A row per client: its size, and what it last measured."""

from collections.abc import Callable
from typing import Any

import numpy as np
from markupsafe import Markup

from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report.hull_results import is_one_shot
from curvfed.server_app.report.templates import Table
from curvfed.server_app.report.units import is_number, number, percent
from curvfed.strategies.wire.messages import FINE_TUNE, TRAIN

SIZES = {
    "num_graphs": "graphs",
    "num_nodes": "nodes",
    "num_edges": "edges",
    "num_train": "training",
    "num_val": "validation",
    "num_test": "test",
}
"""What tells how large a client is."""


def client_table(run: RunFiles) -> list[Any]:
    """The table, and a note on it."""
    about = {client["partition"]: client.get("statistics") or {} for client in run.clients}
    partitions = sorted({*about, *run.partitions})
    if not partitions:
        return []

    def told(name: str, show: Callable[[Any], str] = number) -> list[Any]:
        return [show(about.get(partition, {}).get(name)) for partition in partitions]

    def measured(name: str, *phases: str, show: Callable[[Any], str] = percent) -> list[Any]:
        last = _last(run, name, *phases)
        return [show(last.get(partition)) for partition in partitions]

    name, one_shot = run.metric_name, is_one_shot(run)
    after = f"test {name}" if one_shot else f"{name} after"
    columns: dict[str, list[Any]] = {"data set": [run.data_sets.get(partition, "–") for partition in partitions]}
    columns |= {title: told(key) for key, title in SIZES.items() if key != "num_graphs" or run.examples == "graphs"}
    if all(cell == "–" for cell in columns["training"]):
        columns["training"] = measured("num_examples", TRAIN, show=lambda value: number(value, 0))
    columns |= {
        f"{name} before": measured("test_before"),
        after: measured("test"),
        "fine-tuned": measured("test", FINE_TUNE),
        f"validation {name}": measured("val"),
        "accuracy": measured("accuracy"),
        "most frequent class": told("majority_accuracy", percent),
        "curvature": measured("curvature", show=lambda value: number(value, 3)),
        "Forman–Ricci": told("forman", lambda value: number(value, 2)),
    }
    columns = {title: cells for title, cells in columns.items() if any(cell != "–" for cell in cells)}
    if after in columns:
        columns[after] = [_bar(cell) for cell in columns[after]]
    note = f"Clients by partition; sizes in {run.examples}."
    note += "" if one_shot else " Scores are from the last round that scored the client."
    if run.clients and not any(about.values()):
        theirs = "class counts and sizes" if one_shot else "class counts, sizes and curvatures"
        note += f" The clients keep their {theirs} to themselves (share-statistics = false)."
    if is_number(differ := (run.summary.get("metrics") or {}).get("heterogeneity")):
        note += f" Median Jensen–Shannon distance of two clients' classes: {differ:.3f}, of at most 0.833."
    rows = list(zip(partitions, *columns.values(), strict=True))
    return [*([Table(["client", *columns], rows, "Clients", "figures wide")] if columns else []), note]


def _bar(cell: str) -> Markup:
    share = cell if cell.endswith("%") else "0%"
    return Markup('<td class="bar" style="--share:{}">{}</td>').format(share, cell)


def _last(run: RunFiles, name: str, *phases: str) -> dict[int, float]:
    """The last figure of every client that has one; what it measured before training counts if it trained then."""
    values = run.by_client(name, *phases)[1]
    anchor = run.by_client("test")[1] if name == "test_before" else values
    found = {}
    for partition, course, seen in zip(run.partitions, values.T, anchor.T, strict=True):
        there = np.flatnonzero(np.isfinite(seen))
        if len(there) and np.isfinite(course[there[-1]]):
            found[partition] = float(course[there[-1]])
    return found

"""What the tables of a page tell: scores, one-shot accuracies, traffic, and a row for each
client.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from curvfed.server_app.directory.run_files import Columns, RunFiles, numbers
from curvfed.server_app.directory.tables import is_number
from curvfed.server_app.report import charts
from curvfed.server_app.report.units import number, percent, spread
from curvfed.strategies.base.method import ENDS
from curvfed.strategies.methods import METHODS
from curvfed.strategies.wire.messages import (
    CONFIRM,
    EVALUATE,
    FINE_TUNE,
    FORGET,
    HULLS,
    KEYS,
    MEASURE,
    SHARES,
    TRAIN,
    UNMASK,
)

SHOWN = frozenset(
    {
        "personal_accuracy_before",
        "personal_accuracy_before_worst_decile",
        "personal_accuracy_pooled",
        "validation",
        "majority_accuracy",
        "clients_left_out",
        "heterogeneity",
        "replies_dropped",
        "global_accuracy_uncalibrated",
        "global_accuracy_calibrated",
        "global_accuracy_last3",
    }
)
"""Metrics that have a place of their own; all others are listed by name."""

OWN = {
    "poincare": "Poincaré SVM",
    "logistic": "logistic model",
    "plane": "multinomial model",
    "lorentz": "Lorentz model",
    "depth": "median depth",
    "lda": "linear discriminant",
    "qda": "quadratic discriminant",
}
"""The classifier that the server trained, by the figure `classifier`."""

PROTOCOL = {
    "hull_points": "Training points of all clients",
    "hull_points_shared": "… that are vertices of hulls",
    "hull_share_revealed": "… as a share of the training points",
    "clients_mostly_sent": "… clients most of whose points are vertices",
    "hull_points_moved": "… moved onto the public radius",
    "hull_count": "Hulls",
    "hull_vertices_mean": "… vertices, mean",
    "hull_vertices_max": "… vertices, at most",
    "hull_vertices_thinned": "… vertices that the public cap cost",
    "hull_groups": "Groups",
    "grouping_accuracy": "… hulls in the group of their class",
    "votes_agreed": "… clients' votes for the names of the groups",
    "hulls_exact": "Decoded hulls are those of the clients",
    "hull_epsilon": "ε, hyperbolic distance",
    "hull_bins": "Bins of the quantiser",
    "points_summed": "Points or cells in the sum",
    "hull_prime": "Prime of the sums",
    "hull_symbols": "Numbers that every client sends",
    "clients_summed": "Clients in the sum",
    "clients_decoded": "… whose hulls were found",
    "clients_refused": "… that are left out, because what they sent is no hull",
    "groups_left_out": "Sums that failed, whose clients are left out",
    "dropouts": "Clients that dropped out",
    "svm_c": "C of the classifier",
}
"""Figures of the one-shot protocol, by their names in the summary."""

MASKING = (KEYS, SHARES, CONFIRM, UNMASK)
"""Phases that a secure sum adds to the masked one."""

WITHIN_SUM = frozenset({*MASKING, FORGET})
"""Steps of a secure sum, whose time is part of the phase that it masks."""

SENT = {
    MEASURE: "how many points would leave",
    KEYS: "public keys",
    SHARES: "secrets of the masks, in encrypted shares",
    HULLS: "what is summed, encoded and masked",
    CONFIRM: "signatures of who is in the sum",
    UNMASK: "the shares that take the masks off the sum",
    EVALUATE: "the classifier",
}
"""What each phase of a one-shot run sends."""

SIZES = {
    "num_graphs": "graphs",
    "num_nodes": "nodes",
    "num_edges": "edges",
    "num_train": "training",
    "num_val": "validation",
    "num_test": "test",
}
"""Statistics that tell the size of a client."""


def metric(summary: Mapping[str, Any], name: str) -> Any:
    """One of the metrics of a summary; None if it has none."""
    return (summary.get("metrics") or {}).get(name)


def score(summary: Mapping[str, Any], name: str) -> tuple[Any, Any]:
    """Mean and standard deviation over the clients of a metric after local training."""
    if name == "accuracy":
        return summary.get("personal_accuracy_mean"), summary.get("personal_accuracy_std")
    return metric(summary, name), metric(summary, f"{name}_std")


def score_text(summary: Mapping[str, Any], name: str) -> str:
    """The same as text."""
    return spread(*score(summary, name))


def is_one_shot(run: RunFiles) -> bool:
    """Whether the run has a protocol in place of rounds."""
    method = METHODS.get(run.summary.get("method") or "")
    return run.hulls is not None or (method is not None and method.is_one_shot)


def own_classifier(run: RunFiles) -> str:
    """The kind of classifier that the server trained."""
    named = (run.summary.get("metrics") or {}).get(
        "classifier", run.config.get("hull.classifier", "")
    )
    return OWN.get(named, OWN["poincare"])


def figures(run: RunFiles) -> dict[str, Any]:
    """Accuracies and metrics of a one-shot run by name."""
    names = ("global_accuracy", "personal_accuracy_mean", "personal_accuracy_std")
    return {**(run.summary.get("metrics") or {}), **{name: run.summary.get(name) for name in names}}


def total(columns: Columns, name: str, phases: tuple[str, ...] = ()) -> float:
    """The sum of a column of `rounds.csv` or `clients.csv`, over all phases or some."""
    values = numbers(columns, name)
    return float(
        np.nansum(
            [
                value
                for value, phase in zip(values, columns.get("phase", ()), strict=False)
                if not phases or phase in phases
            ]
        )
    )


def personal_parameters(run: RunFiles) -> list[str]:
    """The names of the parameters that stay with the clients."""
    method = METHODS.get(run.summary.get("method") or "")
    return list(dict.fromkeys((method.personal if method else ()) + (ENDS if run.own_ends else ())))


def client_table(run: RunFiles) -> tuple[list[str], list[tuple[str, ...]]]:
    """The header and the rows of the table of clients, without columns that have no value; empty if
    none has one."""
    about = {client["partition"]: client.get("statistics") or {} for client in run.clients}
    partitions = sorted({*about, *run.partitions})

    def told(name: str) -> list[Any]:
        return [about.get(partition, {}).get(name) for partition in partitions]

    def measured(name: str, *phases: str) -> list[Any]:
        last = _last_values(run, name, *phases)
        return [last.get(partition) for partition in partitions]

    name = run.metric_name
    one_shot = is_one_shot(run)
    sizes = {
        title: told(key)
        for key, title in SIZES.items()
        if key != "num_graphs" or run.examples == "graphs"
    }
    columns = {title: [number(value) for value in values] for title, values in sizes.items()}
    if set(columns["training"]) == {"–"}:
        columns["training"] = [number(value, 0) for value in measured("num_examples", TRAIN)]
    scores = {
        f"{name} before": measured("score_before"),
        f"test {name}" if one_shot else f"{name} after": measured("score"),
        "fine-tuned": measured("score", FINE_TUNE),
        f"validation {name}": measured("validation"),
        "accuracy": measured("accuracy"),
        "most frequent class": told("majority_accuracy"),
    }
    columns |= {title: [percent(value) for value in values] for title, values in scores.items()}
    columns["curvature"] = [number(value, 3) for value in measured("curvature")]
    columns["Forman–Ricci"] = [number(value, 2) for value in told("forman")]
    columns = {
        "data set": [run.data_sets.get(partition, "–") for partition in partitions]
    } | columns
    shown = {title: cells for title, cells in columns.items() if set(cells) - {"–"}}
    rows = list(zip(map(str, partitions), *shown.values(), strict=True)) if shown else []
    return ["client", *shown], rows


def _last_values(run: RunFiles, name: str, *phases: str) -> dict[int, float]:
    """The last value of every client; one from before training only if it belongs to the client's
    last score."""
    values = run.by_client(name, *phases)[1]
    if not len(values):
        return {}
    if name == "score_before":
        rows = np.arange(len(values))[:, None] * np.isfinite(run.by_client("score")[1])
        values = np.take_along_axis(values, rows.max(axis=0, keepdims=True), axis=0)
    last = charts.known(values)[-1]
    return {
        partition: float(value)
        for partition, value in zip(run.partitions, last, strict=True)
        if is_number(value)
    }

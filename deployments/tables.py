"""The figures of a run as a table for the terminal."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from curvfed.strategies.methods import METHODS

LABELS = {
    "rounds": "round",
    "global_accuracy": "global accuracy",
    "global_accuracy_last3": "· in the rounds, mean of the last 3",
    "global_accuracy_uncalibrated": "· classifier as in the rounds",
    "global_accuracy_calibrated": "· classifier calibrated",
    "accuracy_fle": "· Euclidean SVM on the same hulls",
    "accuracy_cp": "· all points in one place, Poincaré SVM",
    "accuracy_ce": "· all points in one place, Euclidean SVM",
    "accuracy_ch_cp": "· their classes' hulls, Poincaré SVM",
    "accuracy_ch_ce": "· their classes' hulls, Euclidean SVM",
    "accuracy_logistic": "· all points, logistic on tangent vectors",
    "accuracy_multinomial": "· all points, multinomial on x and y",
    "personal_accuracy_mean": "personal accuracy",
    "personal_accuracy_worst_decile": "· of the worst tenth of clients",
    "personal_accuracy_before": "· of the model as received",
    "personal_accuracy_before_worst_decile": "· of that, worst tenth of clients",
    "personal_accuracy_pooled": "· pooled over the clients",
    "clients_left_out": "· clients left out",
    "majority_accuracy": "· of each client's majority class",
    "bytes_up": "bytes up, per client and round",
    "bytes_down": "bytes down, per client and round",
}
"""Words for figures whose names are not clear, in the order of the table."""

ONE_SHOT_LABELS = {key: words for key, words in LABELS.items() if "accuracy" in key} | {
    "hull_share_revealed": "share of points that hulls reveal",
    "hull_count": "hulls",
    "hull_groups": "groups",
    "grouping_accuracy": "· hulls in the group of their class",
    "dropouts": "clients that dropped out",
    "bytes_up": "bytes up, per client",
    "bytes_down": "bytes down, per client",
    "seconds": "seconds",
}
"""The figures that are shown of a one-shot run; the report tells the others, phase by phase."""

FIRST = ("status", "error", "method", "dataset", "seed", "num_clients")


def summary_table(summary: Mapping[str, Any]) -> Table:
    """Lay out the figures of a run: the last round, and beside it the best validation round if
    there is one."""
    best: Mapping[str, Any] = summary.get("best_validation") or {}
    last = _figures(summary)
    at_best = _figures(best)
    method = METHODS.get(summary.get("method") or "")
    one_shot = method is not None and method.is_one_shot
    table = (
        Table("", "one shot")
        if one_shot
        else Table("", "last round", *(["best validation"] if best else []))
    )
    labels = ONE_SHOT_LABELS if one_shot else LABELS
    keys = [key for key in (*FIRST, *labels) if key in last]
    if not one_shot:
        keys += [key for key in last if key not in keys]
    for key in keys:
        cells = [_words(key, figures.get(key)) for figures in (last, *([at_best] if best else []))]
        if any(cells):
            table.add_row(labels.get(key, key.replace("_", " ")), *cells)
    return table


def _figures(part: Mapping[str, Any]) -> dict[str, Any]:
    """Figures and metrics on one level, with mean and deviation in one cell."""
    figures = {
        key: value for key, value in part.items() if not isinstance(value, Mapping | list)
    } | (part.get("metrics") or {})
    mean = figures.get("personal_accuracy_mean")
    spread = figures.pop("personal_accuracy_std", None)
    if mean is not None and spread is not None:
        figures["personal_accuracy_mean"] = f"{mean:.4f} ± {spread:.4f}"
    return {"rounds" if key == "round" else key: value for key, value in figures.items()}


def _words(key: str, value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 or key.startswith("bytes") else f"{value:.4f}"
    return "" if value is None else str(value)

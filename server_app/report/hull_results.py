"""What a one-shot run reached, as tables: the classifier's accuracies, the baselines', and other figures."""

from typing import Any

from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report.hull_tables import FIGURES, PHASE_FIGURES
from curvfed.server_app.report.round_results import SHOWN, other_figures
from curvfed.server_app.report.templates import Table
from curvfed.server_app.report.units import is_number, number, percent, spread
from curvfed.strategies.methods import METHODS

SHARED, POOLED, EXTREME = "the clients' hulls", "all points in one place", "hulls of all points in one place"

ACCURACIES = {
    "global_accuracy": ("this run", "", SHARED),
    "accuracy_fle": ("FLE", "Euclidean SVM", SHARED),
    "accuracy_cp": ("CP", "Poincaré SVM", POOLED),
    "accuracy_ce": ("CE", "Euclidean SVM", POOLED),
    "accuracy_ch_cp": ("CH-CP", "Poincaré SVM", EXTREME),
    "accuracy_ch_ce": ("CH-CE", "Euclidean SVM", EXTREME),
    "accuracy_logistic": ("logistic", "logistic model of tangent vectors", POOLED),
}
"""Classifiers by the figure of the summary: the short name, what it is, and what it is trained on. The run's own is one
of `OWN`."""

OWN = {"svm": "Poincaré SVM", "logistic": "logistic model"}
"""What the server trains, by the key `hull.classifier`."""


def is_one_shot(run: RunFiles) -> bool:
    """Whether the run has a protocol in the place of rounds."""
    method = METHODS.get(run.summary.get("method") or "")
    return run.hulls is not None or (method is not None and method.is_one_shot)


def own_classifier(run: RunFiles) -> str:
    """What the server trained, in words."""
    return OWN.get(run.config.get("hull.classifier", ""), OWN["svm"])


def pooled(run: RunFiles) -> list[str]:
    """What classifiers reach that have all points in one place, and their names."""
    told = figures(run)
    return [f"{percent(told[key])} ({short})" for key, (short, _, source) in ACCURACIES.items()
            if source != SHARED and is_number(told.get(key))]  # fmt: skip


def figures(run: RunFiles) -> dict[str, Any]:
    """All figures of the summary by name."""
    names = ("global_accuracy", "personal_accuracy_mean", "personal_accuracy_std")
    return {**(run.summary.get("metrics") or {}), **{name: run.summary.get(name) for name in names}}


def results(run: RunFiles) -> list[Any]:
    """The classifier's accuracies and the baselines', and what has no other place."""
    told, parts = figures(run), []
    accuracies = [(short, what or own_classifier(run), source, percent(told[key]))
                  for key, (short, what, source) in ACCURACIES.items() if is_number(told.get(key))]  # fmt: skip
    if accuracies:
        note = "On the same test points. The names of groups are those that make most test points right."
        parts = [Table(["", "classifier", "trained on", "test accuracy"], accuracies, "Accuracies", "text"), note]
    scored = is_number(told["personal_accuracy_mean"])
    rows = {
        "Accuracy on the clients' own test points": spread(told["personal_accuracy_mean"], told["personal_accuracy_std"]),
        "… pooled over the clients": percent(told.get("personal_accuracy_pooled")),
        "… of the most frequent class alone": percent(told.get("majority_accuracy")),
        "… clients left out, without test points": number(told.get("clients_left_out")),
    } if scored else {}  # fmt: skip
    shown = {*ACCURACIES, *FIGURES, *SHOWN, "nodes_refused"}
    names = [name for name in told if name not in shown and not name.startswith(PHASE_FIGURES)]
    rows |= {title: cell for title, (cell,) in other_figures(names, [run.summary]).items()}
    if told_rows := [(title, cell) for title, cell in rows.items() if cell != "–"]:
        parts.append(Table([], told_rows, "Other figures"))
    if scored:
        parts.append(
            "Every client counts the same in a mean, and ± is the standard deviation over the clients; there, groups have "
            "the names that make most of the client's training points right."
        )
    return parts

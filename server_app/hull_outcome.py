"""What came of a one-shot run: in a sentence or two, and as a table."""

from typing import Any

from curvfed.server_app.hull_tables import FIGURES, PHASE_FIGURES
from curvfed.server_app.outcome import SHOWN, other_figures, spread
from curvfed.server_app.page import Html, element, is_number, number, percent, table
from curvfed.server_app.run_files import RunFiles
from curvfed.strategies.methods import METHODS
from curvfed.strategies.wire.messages import UNMASK

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


def lead(run: RunFiles) -> Html | None:
    """The result in a sentence or two."""
    completed = run.summary.get("status") == "completed"
    if completed and run.config.get("hull.dry-run"):
        text = f"A dry run: the clients have counted, and nothing else was sent. {_would_leave(run)}"
        return element("p", text, class_="lead")
    if completed or run.hulls is not None:
        return element("p", *_reached(run), _left(run), class_="lead")
    if run.rounds and UNMASK not in run.rounds["phase"]:
        return element("p", "No mask was taken off: the server has seen no hull.", class_="lead")
    return None


def _reached(run: RunFiles) -> list[Any]:
    """What the classifier scores, beside what it is compared with."""
    told, mean, own = _told(run), run.summary.get("personal_accuracy_mean"), own_classifier(run)
    whose = f"{len({hull.client for hull in run.hulls.hulls}):,}" if run.hulls is not None else "the"
    source = f"the secure sum of {whose} clients' convex hulls"
    if not is_number(told["global_accuracy"]) and not is_number(mean):
        return [f"A {own} is trained on {source}; there are no test points to score it on."]
    who = f"The {own} trained on {source}"
    parts: list[Any] = []
    if is_number(told["global_accuracy"]):
        parts += [f"{who} has a test accuracy of ", element("strong", percent(told["global_accuracy"]))]
        who = " It"
        if is_number(told.get("accuracy_fle")):
            parts.append(f"; a Euclidean SVM on the same hulls (FLE) has {percent(told['accuracy_fle'])}")
        parts.append(".")
    pooled = [
        f"{percent(told[key])} ({short})"
        for key, (short, _, source) in ACCURACIES.items()
        if source != SHARED and is_number(told.get(key))
    ]
    if pooled:
        who_else = "classifiers reach" if len(pooled) > 1 else "a classifier reaches"
        parts.append(f" With all points in one place, {who_else} {', '.join(pooled)}.")
    if is_number(mean):
        score = element("strong", percent(mean))
        deviation = percent(run.summary.get("personal_accuracy_std"))
        parts += [f"{who} has a mean accuracy of ", score, " on the clients' own test points (standard deviation over "
                  f"clients {deviation})."]  # fmt: skip
    return parts


def _left(run: RunFiles) -> str:
    """What of the points the server has seen; nothing of those clients that dropped out."""
    told = _told(run)
    share = "" if told.get("dropouts") else _share(told)
    if not share and run.hulls is not None:
        share = f"{len(run.hulls.points):,} vertices of hulls"
    return f" {share} left the clients, {_as_bins(told.get('hull_epsilon'))}" if share else ""


def _would_leave(run: RunFiles) -> str:
    share = _share(_told(run))
    if not share:
        return "How many of a client's points would leave it is in that client's own log."
    return f"{share} would leave the clients, {_as_bins(run.config.get('hull.epsilon'))}"


def _share(told: dict[str, Any]) -> str:
    """How many of the points are vertices of hulls; nothing where the clients do not tell."""
    shared, points, share = (told.get(f"hull_{name}") for name in ("points_shared", "points", "share_revealed"))
    if not (is_number(shared) and is_number(points) and is_number(share)):
        return ""
    return f"{shared:,} of {points:,} training points ({percent(share)})"


def _as_bins(epsilon: Any) -> str:
    wide = f" (ε = {epsilon:g})" if is_number(epsilon) else ""
    return f"each as the bin{wide} that it lies in."


def result(run: RunFiles) -> list[Html]:
    """The classifier's accuracies and the baselines', and what has no other place."""
    return [*_accuracies(run), *_others(run)]


def _accuracies(run: RunFiles) -> list[Html]:
    told = _told(run)
    rows = [
        (short, what or own_classifier(run), source, percent(told[key]))
        for key, (short, what, source) in ACCURACIES.items()
        if is_number(told.get(key))
    ]
    if not rows:
        return []
    header = ["", "classifier", "trained on", "test accuracy"]
    note = "On the same test points. The names of groups are those that make most test points right."
    return [table(header, rows, "text", label="Accuracies"), element("p", note, class_="note")]


def _others(run: RunFiles) -> list[Html]:
    """Figures of the clients' own test points, and those that nothing else tells."""
    told = _told(run)
    own = {
        "Accuracy on the clients' own test points": spread(
            told["personal_accuracy_mean"], told["personal_accuracy_std"]
        ),
        "… pooled over the clients": percent(told.get("personal_accuracy_pooled")),
        "… of the most frequent class alone": percent(told.get("majority_accuracy")),
        "… clients left out, without test points": number(told.get("clients_left_out")),
    }
    scored = is_number(told["personal_accuracy_mean"])
    rows = [(title, cell) for title, cell in own.items() if scored and cell != "–"]
    shown = {*ACCURACIES, *FIGURES, *SHOWN, "nodes_refused"}
    names = [name for name in told if name not in shown and not name.startswith(PHASE_FIGURES)]
    rows += [(title, cell) for title, (cell,) in other_figures(names, [run.summary]).items() if cell != "–"]
    if not rows:
        return []
    note = (
        "Every client counts the same in a mean, and ± is the standard deviation over the clients; there, groups have the "
        "names that make most of the client's training points right."
    )
    return [table([], rows, label="Other figures"), *([element("p", note, class_="note")] if scored else [])]


def _told(run: RunFiles) -> dict[str, Any]:
    """All figures of the summary by name."""
    metrics = run.summary.get("metrics") or {}
    names = ("global_accuracy", "personal_accuracy_mean", "personal_accuracy_std")
    return {**metrics, **{name: run.summary.get(name) for name in names}}

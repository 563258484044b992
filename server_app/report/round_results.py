"""What a run of rounds reached, as a table: the last round and the best-validation round, side by side."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report.templates import Table
from curvfed.server_app.report.units import number, percent, spread
from curvfed.strategies.wire.messages import TRAIN

SHOWN = frozenset(
    {"personal_accuracy_before", "personal_accuracy_pooled", "validation", "majority_accuracy", "clients_left_out",
     "heterogeneity", "replies_dropped", "global_accuracy_uncalibrated", "global_accuracy_calibrated",
     "global_accuracy_last3"}
)  # fmt: skip
"""Metrics that have a place of their own; all others are listed by name."""

Summary = Mapping[str, Any]


def score(summary: Summary, metric: str) -> tuple[Any, Any]:
    """Mean and standard deviation of the data set's own metric after local training."""
    if metric == "accuracy":
        return summary.get("personal_accuracy_mean"), summary.get("personal_accuracy_std")
    return metric_of(summary, metric), metric_of(summary, f"{metric}_std")


def metric_of(summary: Summary, name: str) -> Any:
    """One of the metrics of a summary; None where it has none."""
    return (summary.get("metrics") or {}).get(name)


def results(run: RunFiles) -> list[Any]:
    """The table, and a note on it."""
    if not run.summary.get("metrics"):
        return []
    best = run.summary.get("best_validation")
    columns = [run.summary, *([best] if best else [])]
    name, key, majority = run.metric_name, run.metric, metric_of(run.summary, "majority_accuracy")

    def scores(metric: str) -> list[str]:
        return [spread(*score(summary, metric)) for summary in columns]

    def metrics(metric: str, show: Callable[[Any], str] = percent) -> list[str]:
        return [show(metric_of(summary, metric)) for summary in columns]

    rows: dict[str, list[str]] = {}
    if key != "accuracy":
        rows = {
            f"{name} after local training": scores(key),
            f"{name} before local training": metrics(f"{key}_before"),
            f"{name}: clients left out, with one class": metrics(f"{key}_clients_left_out", number),
        }
    after, before = scores("accuracy"), metrics("personal_accuracy_before")
    if run.fine_tuned:
        # The figures of the last round are those of fine-tuning, the best round's those of local training.
        dashes = ["–"] * (len(columns) - 1)
        rows |= {"Accuracy after fine-tuning": [after[0], *dashes], "Accuracy before fine-tuning": [before[0], *dashes]}
        trained = [run.by_round(f"personal_accuracy_{part}", TRAIN)[1][-1:].tolist() for part in ("mean", "std")]
        after[0], before[0] = spread(*(part[0] for part in trained)) if all(trained) else "–", "–"
    rows |= {
        "Accuracy after local training": after,
        "Accuracy before local training": before,
        "Accuracy, pooled over all test data": metrics("personal_accuracy_pooled"),
        "Accuracy of the shared model at the server": [percent(summary.get("global_accuracy")) for summary in columns],
        "… with its classifier as trained": metrics("global_accuracy_uncalibrated"),
        "… with its classifier calibrated": metrics("global_accuracy_calibrated"),
        "… mean of the last three scored rounds": metrics("global_accuracy_last3"),
        # A matter of the data: the same in every round.
        "Accuracy of the most frequent class alone": [percent(majority) for _ in columns],
        "Clients left out, without test data": metrics("clients_left_out", number),
        f"Validation {name}": metrics("validation"),
    }
    shown = {key, f"{key}_std", f"{key}_before", f"{key}_clients_left_out", *SHOWN}
    rows |= other_figures([other for other in run.summary["metrics"] if other not in shown], columns)
    header = ["", f"Last round ({run.summary.get('rounds')})"]
    header += [f"Best validation (round {best.get('round')})"] if best else []
    told = [(title, *cells) for title, cells in rows.items() if any(cell != "–" for cell in cells)]
    note = "Every client counts the same in a mean; ± is the standard deviation over the clients."
    note += " Before fine-tuning is the global model on the clients' own test data." if run.fine_tuned else ""
    note += " Validation data alone choose the best round." if best else ""
    return [Table(header, told, "Result"), note]


def other_figures(names: Iterable[str], columns: Sequence[Summary]) -> dict[str, list[str]]:
    """Metrics without words of their own, by what is read off their names: a cell from each summary."""
    return {
        name.replace("_", " ").capitalize(): [
            (percent if "accuracy" in name else number)(metric_of(summary, name)) for summary in columns
        ]
        for name in names
    }

"""What came of a run: in a sentence or two, and as a table."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from curvfed.server_app.page import Html, amount, element, is_number, number, percent, table
from curvfed.server_app.run_files import RunFiles
from curvfed.strategies.wire.messages import TRAIN

SHOWN = frozenset(
    {"personal_accuracy_before", "personal_accuracy_pooled", "validation", "majority_accuracy", "clients_left_out",
     "heterogeneity", "replies_dropped", "global_accuracy_uncalibrated", "global_accuracy_calibrated",
     "global_accuracy_last3"}
)  # fmt: skip
"""Metrics that have a place of their own; all others are listed by name."""


def lead(run: RunFiles) -> Html | None:
    """The result in a sentence or two."""
    mean, std = _score(run.summary, run.metric)
    ours = _global(run)
    if not is_number(mean):
        return element("p", *ours, class_="lead") if ours else None
    clients = run.summary["num_clients"]
    majority = _metric(run.summary, "majority_accuracy")
    spread = f" (standard deviation over clients {percent(std)})" if clients > 1 else ""
    against = ""
    if run.metric == "roc_auc":
        against = "; a guess would have 50.00%"
    elif is_number(majority):
        against = f"; always answering the most frequent class would have {percent(majority)}"
    name = f"test {run.metric_name} of "
    return element(
        "p",
        *ours,
        f"{_whose(run, bool(ours))} {name}",
        element("strong", percent(mean)),
        f"{spread}{against}.",
        class_="lead",
    )


def _whose(run: RunFiles, goes_on: bool) -> str:
    """Whose models reach what follows; `goes_on` after a sentence about the global one."""
    clients, when = run.summary["num_clients"], _when(run.summary["rounds"])
    if not goes_on:
        several, one = f"{when} the {clients:,} clients reach a mean", f"{when} the client reaches a"
    elif run.fine_tuned:
        several = f" The copies of it that the {clients:,} clients fine-tuned reach a mean"
        one = " The copy of it that the client fine-tuned reaches a"
    else:
        several = f" The personal models of the {clients:,} clients reach a mean"
        one = " The client's own model reaches a"
    return several if clients > 1 else one


def _when(rounds: int) -> str:
    return f"After {amount(rounds, 'round')}" if rounds else "Before any training"


def _global(run: RunFiles) -> list[Any]:
    """What the global model scores at the server, in a sentence; nothing where it was not scored."""
    accuracy = run.summary.get("global_accuracy")
    before, after = (_metric(run.summary, f"global_accuracy_{head}calibrated") for head in ("un", ""))
    if is_number(before) and is_number(after):
        then = [", and ", element("strong", percent(after)), " with its classifier calibrated."]
    else:
        before, then = accuracy, ["."]
    if not is_number(before):
        return []
    when = _when(run.summary["rounds"])
    return [f"{when} the global model has a test accuracy of ", element("strong", percent(before)), *then]


def _trained_last(run: RunFiles) -> str:
    """What local training came to in the last round."""
    mean, std = (run.by_round(f"personal_accuracy_{name}", TRAIN)[1][-1:] for name in ("mean", "std"))
    return spread(float(mean[0]), float(std[0])) if len(mean) and len(std) else "–"


def spread(mean: Any, std: Any) -> str:
    """Mean ± standard deviation in percent; a dash for no mean."""
    return f"{percent(mean)} ± {percent(std)}" if is_number(mean) else "–"


def _score(figures: Mapping[str, Any], metric: str) -> tuple[Any, Any]:
    """Mean and standard deviation of the data set's own metric after local training."""
    if metric == "accuracy":
        return figures.get("personal_accuracy_mean"), figures.get("personal_accuracy_std")
    return _metric(figures, metric), _metric(figures, f"{metric}_std")


def _metric(figures: Mapping[str, Any], name: str) -> Any:
    return (figures.get("metrics") or {}).get(name)


def result(run: RunFiles) -> list[Html]:
    """The last round and the best-validation round, side by side."""
    if not run.summary.get("metrics"):
        return []
    best = run.summary.get("best_validation")
    columns = [run.summary, *([best] if best else [])]
    name, key, majority = run.metric_name, run.metric, _metric(run.summary, "majority_accuracy")

    def scores(metric: str) -> list[str]:
        return [spread(*_score(figures, metric)) for figures in columns]

    def metrics(metric: str, show: Callable[[Any], str] = percent) -> list[str]:
        return [show(_metric(figures, metric)) for figures in columns]

    own = {
        f"{name} after local training": scores(key),
        f"{name} before local training": metrics(f"{key}_before"),
        f"{name}: clients left out, with one class": metrics(f"{key}_clients_left_out", number),
    }
    personal = {"after": scores("accuracy"), "before": metrics("personal_accuracy_before")}
    tuned = {}
    if run.fine_tuned:
        # The figures of the last round are those of fine-tuning, the best round's those of local training.
        tuned = {
            f"Accuracy {when} fine-tuning": [cells[0], *("–" for _ in cells[1:])] for when, cells in personal.items()
        }
        personal["after"][0], personal["before"][0] = _trained_last(run), "–"
    rows = (
        (own if key != "accuracy" else {})
        | tuned
        | {f"Accuracy {when} local training": cells for when, cells in personal.items()}
    )
    rows |= {
        "Accuracy, pooled over all test data": metrics("personal_accuracy_pooled"),
        "Accuracy of the shared model at the server": [percent(figures.get("global_accuracy")) for figures in columns],
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
    caption = "Every client counts the same in a mean; ± is the standard deviation over the clients."
    if run.fine_tuned:
        caption += " Before fine-tuning is the global model on the clients' own test data."
    if best:
        caption += " Validation data alone choose the best round."
    return [table(header, told, label="Result"), element("p", caption, class_="note")]


def other_figures(names: Iterable[str], columns: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Metrics without words of their own, by what is read off their names: a cell from each summary."""
    return {
        name.replace("_", " ").capitalize(): [
            (percent if "accuracy" in name else number)(_metric(figures, name)) for figures in columns
        ]
        for name in names
    }

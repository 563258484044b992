"""The tables of the page of a run: its scores, result, clients, phases and dropped replies."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from curvfed.extensions.reports.array_files import global_test_of, hulls_of
from curvfed.extensions.reports.intervals import mean_interval, wilson
from curvfed.extensions.reports.run_clients import examples_of
from curvfed.server_app.directory import is_number
from curvfed.server_app.directory.run_files import RunFiles, numbers
from curvfed.server_app.report import charts
from curvfed.server_app.report.page import Cell, Table, number, percent
from curvfed.strategies.base.figure import DETAIL
from curvfed.strategies.base.figures import (
    BEST,
    EXAMPLES,
    FIGURES,
    GLOBAL_ACCURACY,
    PER_ROUND,
    PERSONAL_ACCURACY,
    STD,
    VALIDATION,
    find,
    words_of,
)
from curvfed.strategies.base.method import INPUT_OUTPUT_LAYERS
from curvfed.strategies.base.score_words import examples_text, scored_text
from curvfed.strategies.methods import METHODS
from curvfed.strategies.wire.messages import AGREE, EVALUATE, FINE_TUNE, SUM
from curvfed.tasks.amounts import amount
from curvfed.tasks.kinds import GUESSES, TRIVIAL, TRIVIAL_OF

TableRow = tuple[list[str], list[Cell]]
"""The names at the head of a row, and its cells."""

MOST_DROPPED = 100
"""Dropped replies that are listed."""

SIZES = {
    "num_graphs": "graphs",
    "num_nodes": "nodes",
    "num_edges": "edges",
    "num_train": "training data",
    "num_val": "validation data",
    "num_test": "test data",
    "majority_accuracy": "most frequent class",
    "frequent_mrr": "most frequent tails",
    "forman": "Forman–Ricci",
}
"""Figures that a client reports about its data, with the heads of the columns."""


def size(count: Any) -> str:
    """Bytes, in units of 1000."""
    if not is_number(count):
        return "–"
    unit, *larger = "B", "kB", "MB", "GB", "TB"
    while larger and abs(count) >= 999.95:
        count = count / 1000
        unit = larger.pop(0)
    if unit == "B":
        return f"{count:.0f} {unit}"
    return f"{count:.1f} {unit}"


def duration(seconds: Any) -> str:
    """Seconds with a sensible number of digits; from a minute on, minutes and hours."""
    if not is_number(seconds):
        return "–"
    if seconds < 60:
        if seconds < 0.1:
            return f"{seconds:.4f} s"
        return f"{seconds:.2f} s"
    minutes, remainder = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {remainder:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def headline(run: RunFiles) -> Table:
    """The run's scores with their 95% intervals, each above the score of its trivial answer."""
    return Table("", [""], ["test score", "95% interval"], [*_of_server(run), *_of_clients(run)])


def _of_server(run: RunFiles) -> list[TableRow]:
    """The score on the server's test data; empty without any."""
    figures = summary_figures(run.summary)
    test = global_test_of(run)
    hulls = hulls_of(run)
    tested = test.labels if test is not None else None
    tested = hulls.test.labels if hulls is not None else tested
    by_metric = f"global_{run.metric}"
    shared = by_metric if by_metric in figures else GLOBAL_ACCURACY
    reached: Any = figures.get(shared)
    if not is_number(reached):
        return []
    count = 0 if tested is None else len(tested)
    interval = wilson(round(reached * count), count) if count else None
    words = f"{words_of(shared, figures)}{_examples(shared, figures)}"
    rows = [_accuracy(words, reached, interval)]
    trivial = f"global_{_trivial(run)}"
    score: Any = figures.get(trivial)
    if score is None and tested is not None and count:
        _, class_sizes = np.unique(tested, return_counts=True)
        score = float(class_sizes.max() / count)
    if is_number(score):
        rows.append(_accuracy(find(trivial).words, score, None))
    return rows


def _of_clients(run: RunFiles) -> list[TableRow]:
    """The mean of the clients' scores; empty without any."""
    figures = summary_figures(run.summary)
    name = run.metric if run.metric in figures else PERSONAL_ACCURACY
    mean: Any = figures.get(name)
    if not is_number(mean):
        return []
    spread: Any = figures.get(f"{name.removesuffix('_mean')}{STD}")
    clients = run.summary.get("num_clients") or 0
    left_out = "clients_left_out" if name == PERSONAL_ACCURACY else f"{name}_clients_left_out"
    measured = clients - (figures.get(left_out) or 0)
    mean_words = f"mean of {amount(measured, 'client')}"
    words = f"{words_of(name, figures)}, {mean_words}{_examples(name, figures)}"
    rows = [_accuracy(words, mean, mean_interval(mean, spread, measured))]
    if name in GUESSES:
        rows.append(_accuracy("a guess", GUESSES[name], None))
    trivial = _trivial(run)
    score: Any = figures.get(trivial)
    if is_number(score):
        rows.append(_accuracy(find(trivial).words, score, None))
    return rows


def _trivial(run: RunFiles) -> str:
    """The figure with the score of the trivial answer at the clients."""
    return TRIVIAL_OF.get(run.metric, TRIVIAL_OF["accuracy"])


def _examples(name: str, figures: Mapping[str, Any]) -> str:
    """The number of test examples of a score, after a comma; "" if it is not known."""
    number: Any = figures.get(find(name).examples)
    return f", {examples_text(number)}" if is_number(number) else ""


def _accuracy(words: str, value: float, interval: tuple[float, float] | None) -> TableRow:
    text = " – ".join(map(percent, interval)) if interval else ""
    return [words], [Cell(percent(value), is_best=interval is not None), Cell(text)]


def summary_figures(section: Mapping[str, Any]) -> dict[str, Any]:
    """Figures and metrics on one level."""
    single = {key: value for key, value in section.items() if not isinstance(value, Mapping | list)}
    return single | (section.get("metrics") or {})


def result_tables(run: RunFiles) -> list[Table]:
    """All figures of the summary: of the last round and of the best validation round, and those of
    a one-shot run about its protocol."""
    best = run.summary.get(BEST) or {}
    columns = [summary_figures(run.summary), *([summary_figures(best)] if best else [])]
    method = METHODS.get(run.summary.get("method") or "")
    heads = ["Last round" if method is None else method.stage.capitalize()]
    if run.fine_tuned:
        heads = [f"{heads[0]}, fine-tuned"]
    heads += [f"Best validation: round {best.get('round')}"] if best else []
    skipped = {"status", "error", "error_key", "method", "dataset", "seed", "num_clients"}
    skipped |= {"rounds", "round", *EXAMPLES}
    names = [name for name in columns[0] if name not in skipped and not name.endswith(STD)]
    order = list(FIGURES)
    names.sort(key=lambda name: order.index(name) if name in order else len(order))
    of_phase = ("bytes_up_", "bytes_down_", "seconds_")
    details = [
        name
        for name in names
        if DETAIL in find(name).levels and (name in FIGURES or not name.startswith(of_phase))
    ]
    shown = [name for name in names if DETAIL not in find(name).levels]
    legend = "Every client counts the same in a mean; ± is the standard deviation over the clients."
    ending = PER_ROUND if method is not None and method.is_one_shot else ""
    if run.metric not in columns[0] and columns[0].get(PERSONAL_ACCURACY) is None:
        legend = ""
    return [
        Table("Result", [""], heads, _figure_rows(shown, columns, ending), legend),
        Table("Protocol", [""], [""], _figure_rows(details, columns[:1], ending)),
    ]


def _figure_rows(
    names: Sequence[str], columns: Sequence[Mapping[str, Any]], ending: str
) -> list[tuple[list[str], list[Cell]]]:
    """A row for each figure that any column has, without this ending of its words."""
    rows = []
    for name in names:
        texts = [scored_text(name, figures, columns[0]) for figures in columns]
        if any(texts):
            words = words_of(name, columns[0]).removesuffix(ending)
            rows.append(([words], [Cell(text or "–") for text in texts]))
    return rows


def client_table(run: RunFiles) -> Table:
    """A row for each client; columns without values are left out."""
    statistics = {client["partition"]: client.get("statistics") or {} for client in run.clients}
    spaces = {client["partition"]: client.get("space") for client in run.clients}
    partitions = sorted({*statistics, *run.partitions})
    columns = {"data set": [spaces.get(partition) or "" for partition in partitions]}
    for key, title in SIZES.items():
        write = percent if key in TRIVIAL else number
        columns[title] = [write(statistics.get(client, {}).get(key)) for client in partitions]
    scores = {
        f"{run.metric_name} before": _last_values(run, "score_before"),
        run.metric_name: _last_values(run, "score"),
        "fine-tuned": _last_values(run, "score", FINE_TUNE),
        find(VALIDATION).words: _last_values(run, VALIDATION),
    }
    for title, values in scores.items():
        columns[title] = [percent(values.get(client)) for client in partitions]
    curvatures = _last_values(run, "curvature")
    columns["curvature"] = [number(curvatures.get(client), 3) for client in partitions]
    shown = {title: texts for title, texts in columns.items() if set(texts) - {"–", ""}}
    rows = [
        ([f"{partition}"], [Cell(texts[place]) for texts in shown.values()])
        for place, partition in enumerate(partitions)
    ]
    legend = (
        f"Clients by partition; sizes in {examples_of(run)}; scores of the last round with one."
    )
    if run.clients and not any(statistics.values()):
        legend += " The clients keep their statistics to themselves (share-statistics = false)."
    return Table(
        "Clients",
        ["client"],
        list(shown),
        rows if shown else [],
        legend,
        "figures wide",
        optional=["data set", *SIZES.values(), "curvature"],
    )


def _last_values(run: RunFiles, name: str, *phases: str) -> dict[int, float]:
    """The last value of every client; one from before training only if it belongs to the client's
    last score."""
    values = run.by_client(name, *phases)[1]
    if not len(values):
        return {}
    if name == "score_before":
        rows = np.arange(len(values))[:, None] * np.isfinite(run.by_client("score")[1])
        values = np.take_along_axis(values, rows.max(axis=0, keepdims=True), axis=0)
    last = charts.carried_forward(values)[-1]
    return {
        partition: float(value)
        for partition, value in zip(run.partitions, last, strict=True)
        if is_number(value)
    }


def phase_table(run: RunFiles) -> Table:
    """Messages and time of each phase."""
    phases = np.array(run.rounds.get("phase", ()), dtype=str)
    up, down, seconds = (
        numbers(run.rounds, name) for name in ("bytes_up", "bytes_down", "seconds")
    )
    rows = []
    for phase in dict.fromkeys(phases.tolist()):
        of_phase = phases == phase
        rounds = int(of_phase.sum())
        texts = [
            f"{rounds}",
            *(size(np.nansum(column[of_phase]) / rounds) for column in (up, down)),
        ]
        texts.append(duration(float(np.nansum(seconds[of_phase]))))
        rows.append(([phase], [Cell(text) for text in texts]))
    legend = "Bytes of parameters per client and time of the phase, without Flower's wrapping."
    if AGREE in phases:
        legend += _masked_words(run, phases.tolist())
    if personal := personal_parameters(run):
        names = "all" if "*" in personal else ", ".join(personal)
        legend += f" Personal parameters ({names}) stay with the client."
    heads = ["times", "to the server", "to the clients", "time, all"]
    return Table("Messages and time", ["phase"], heads, rows, legend, optional=["times"])


def _masked_words(run: RunFiles, phases: Sequence[str]) -> str:
    """The replies that the server saw only as their sum, in words."""
    if run.config.get("secure-sum"):
        return " The server saw updates only as their sum over the clients (secure-sum = true)."
    # A method of one secure sum has no other one without the key.
    method = METHODS.get(run.summary.get("method") or "")
    name = getattr(method, "phase", SUM)
    words = f" The server saw the replies of phase {name} only as their sum over the clients"
    if EVALUATE in phases:
        words += ", but each client's scores (clients.csv; secure-sum = false)"
    return f"{words}."


def personal_parameters(run: RunFiles) -> list[str]:
    """The names of the parameters that stay with the clients."""
    method = METHODS.get(run.summary.get("method") or "")
    names = [*(method.personal if method else ())]
    if run.described.get("facts", {}).get("own_ends"):
        names += INPUT_OUTPUT_LAYERS
    return list(dict.fromkeys(names))


def dropped_table(run: RunFiles) -> Table:
    """Replies that did not count and nodes that were refused, with the reasons."""
    lines = [("start", name, reason) for name, reason in run.described.get("refused", {}).items()]
    columns = (run.scores.get(name, ()) for name in ("round", "phase", "partition", "dropped"))
    lines += [
        (f"round {number}, {phase}", f"partition {partition}", reason)
        for number, phase, partition, reason in zip(*columns, strict=False)
        if reason
    ]
    rows = [([when], [Cell(who), Cell(reason)]) for when, who, reason in lines[:MOST_DROPPED]]
    left_out = len(lines) - len(rows)
    legend = f"{left_out:,} more are in clients.csv." if left_out else ""
    title = "Dropped replies and refused nodes"
    return Table(title, ["when"], ["who", "reason"], rows, legend, "text")

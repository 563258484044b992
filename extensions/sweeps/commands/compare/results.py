"""The results of a comparison: paired differences to the method at curvature 0, to the best rival
and to the best method; the answers, a table and a figure."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console

from curvfed.deployments.arguments import NOTE
from curvfed.extensions.sweeps.commands.compare import CHOSEN_BY, TRIVIAL
from curvfed.extensions.sweeps.commands.compare.answers import (
    CURVATURE,
    DIFFERENCE,
    USE,
    Row,
    answers,
    best_rival,
    points,
    trivial_words,
)
from curvfed.extensions.sweeps.commands.compare.comparison import Comparison
from curvfed.extensions.sweeps.commands.compare.printed import print_table
from curvfed.extensions.sweeps.commands.compare.tuning import Choice, compared_figure
from curvfed.extensions.sweeps.commands.pages import legends
from curvfed.extensions.sweeps.commands.pages.selection import Run, fewest_examples
from curvfed.extensions.sweeps.commands.pages.sweep_page import run_notes
from curvfed.extensions.sweeps.commands.pages.texts import markdown_page
from curvfed.extensions.sweeps.commands.paired import LEVEL, MIN_PAIRS, paired_difference
from curvfed.server_app.directory import frame_csv
from curvfed.server_app.report import charts, style
from curvfed.server_app.report.page import (
    Cell,
    Page,
    Picture,
    Table,
    html_page,
)
from curvfed.strategies.base.figures import BEST, GLOBAL_ACCURACY, VALIDATION, find, words_of
from curvfed.strategies.base.keys import AUTO
from curvfed.tasks.amounts import amount
from curvfed.tasks.kinds import KINDS
from curvfed.tasks.stored_files import write_atomically

WORST = f"{BEST}.personal_accuracy_worst_decile"
LEGEND = (
    "Mean ± standard deviation over {seeds}, {when}. Each configuration is the best of"
    " {tried} by {chooser} on {tuning}, by which the best rival is chosen, too: learning rates,"
    " decays, and at most {budget} other configurations (budget). {intervals}"
    " Start: score of the model before the first round. Worst tenth: mean {measure} of the tenth of"
    " the clients with the lowest. Times and bytes are medians;"
    " runs were timed side by side on this machine, whatever else it did."
)
INTERVALS = (
    "Differences have intervals of the paired t-test over the seeds, Bonferroni-corrected, within"
    " the 100 points that scores allow: with {level:.0%} those to the best method hold together,"
    " and with {level:.0%} the others."
)
EARLIER_RESULTS = (
    "These methods were compared before on {} seeds. The intervals hold only if the number of seeds"
    " was not chosen by those results."
)
NO_INTERVALS = "Differences have intervals from {fewest} seeds on."
GLOBAL_LEGEND = (
    " Global: {measure} of the global model on the server's test {examples} after the last round,"
    " if there is one."
)
COLUMNS = {
    DIFFERENCE: "difference to the best",
    CURVATURE: "to itself at curvature 0, or its control",
    USE: "to the best rival",
}
"""The headers of the columns of differences."""

START = "score_before"
"""The column of `rounds.csv` whose first value is the score of the model before training."""

COSTS = ("seconds", "bytes_up", "bytes_down")
"""The costs of a method."""


def result(comparison: Comparison, name: str, choice: Choice, runs: Sequence[Run]) -> Row:
    """The row of an entrant; it has a mean if all runs have the compared figure.

    Parameters
    ----------
    comparison : Comparison
    name : str
        The entrant.
    choice : Choice
    runs : sequence of Run
        The runs with fresh seeds.
    """
    figure = compared_figure(comparison.score, runs)
    scores = [run.figure(figure) for run in runs]
    errors = [run.error or f"a run has no {figure}" for run in runs if run.figure(figure) is None]
    entrant = comparison.entrants[name]
    configuration = {**entrant.settings, **choice.configuration}
    if configuration["method"] == name:
        del configuration["method"]
    row: Row = {
        "method": name,
        "at_zero": entrant.at_zero,
        "control": entrant.control,
        "is_rival": entrant.is_rival and comparison.against in (AUTO, name),
        "error": choice.error or next(iter(errors), ""),
        "figure": figure,
        VALIDATION: choice.validation,
        "configuration": {} if choice.error else configuration,
        "tried": choice.tried,
        "seeds": [run.seed for run in runs],
        "scores": scores,
    }
    if row["error"]:
        return row
    row["mean"] = float(np.mean(scores))  # type: ignore[arg-type]
    row["std"] = float(np.std(scores, ddof=1))  # type: ignore[arg-type]
    row["examples"] = fewest_examples(figure, runs)
    row["worst_decile"] = _mean([run.figure(WORST) for run in runs])
    row["start"] = _mean([run.first_of_rounds(START) for run in runs])
    trivial = TRIVIAL[figure]
    row["trivial"] = trivial
    if isinstance(trivial, str):
        row["trivial"] = _mean([run.figure(trivial) for run in runs])
    # Medians: the imports of a first run do not change them.
    for cost in COSTS:
        row[cost] = float(np.median([run.figure(cost) or 0.0 for run in runs]))
    row["bytes"] = row["bytes_up"] + row["bytes_down"]
    global_scores = [run.figure(GLOBAL_ACCURACY) for run in runs]
    if comparison.score == "personal" and None not in global_scores:
        row["global_mean"] = float(np.mean(global_scores))  # type: ignore[arg-type]
        row["global_std"] = float(np.std(global_scores, ddof=1))  # type: ignore[arg-type]
    return row


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean, if no value is missing."""
    return None if None in values else float(np.mean(values))  # type: ignore[arg-type]


def add_differences(rows: Sequence[Row]) -> None:
    """Add to each row the `difference` to the first and best, and to that of a method that is
    curved or has a control its `curvature`, the difference to itself at curvature 0 or to the
    control, and its `use`, that to the best rival; each with its interval.

    Intervals are those of the paired t-test. Those to the best are Bonferroni-corrected for all
    pairs of methods, since the same scores have chosen it; the others for the number of both kinds.
    """
    by_name = {row["method"]: row for row in rows}
    rival = best_rival(rows)
    pairs: list[tuple[Row, Sequence[str], Row]] = []
    for row in rows:
        if row is not rows[0]:
            number_of_pairs = len(rows) * (len(rows) - 1) / 2
            _add_difference(row, DIFFERENCE, rows[0], number_of_pairs)
        reference = by_name.get(row["at_zero"] or row["control"])
        if reference is not None:
            pairs.append((row, CURVATURE, reference))
        has_question = row["at_zero"] or row["control"]
        if has_question and rival is not None and rival is not row:
            pairs.append((row, USE, rival))
    for row, names, reference in pairs:
        _add_difference(row, names, reference, len(pairs))


def _add_difference(row: Row, names: Sequence[str], reference: Row, number: float) -> None:
    """Add the difference to another row, with its interval or None, by these names."""
    difference = paired_difference(row["scores"], reference["scores"], number)
    ends = (difference.low, difference.high)
    # Scores are between 0 and 1, and so their means differ by at most 1, whatever the seeds.
    bounded = [None if np.isnan(end) else min(max(end, -1.0), 1.0) for end in ends]
    row |= zip(names, (difference.mean, *bounded), strict=True)


def write_results(
    comparison: Comparison,
    rows: Sequence[Row],
    runs: Sequence[Run],
    folder: Path,
    console: Console,
    earlier_seeds: Sequence[int] = (),
) -> int:
    """Write `comparison.*` into the folder, and print the table and the answer.

    Parameters
    ----------
    rows : sequence of dict
    runs : sequence of Run
        All runs of the comparison, failed ones too.
    earlier_seeds : sequence of int
        Other numbers of seeds with which results were written before.

    Returns
    -------
    int
        0, or 1 if a method has no score.
    """
    rows = sorted(rows, key=lambda row: -row.get("mean", -np.inf))
    scored = [row for row in rows if not row["error"]]
    add_differences(scored)
    sentences = answers(scored, comparison.data)
    if comparison.score == "personal" and (about := KINDS[comparison.task].comparison.personal):
        sentences.append(about)
    sentences += _expected(comparison, scored)
    failures = [f"{row['method']} is not compared: {row['error']}" for row in rows if row["error"]]
    pictures = [_differences(scored, folder / "comparison")] if len(scored) > 1 else []
    table = _table(comparison, rows, scored, failures)
    title = f"Which method for {comparison.data}?"
    notes = [note.removeprefix(NOTE) for note in comparison.notes]
    notes += run_notes(runs)
    if earlier_seeds:
        numbers = " and ".join(map(str, earlier_seeds))
        notes.append(EARLIER_RESULTS.format(numbers))
    page = Page(title, sentences, notes, pictures, [table])
    files = {
        "md": markdown_page(page, folder),
        "html": html_page(page),
        "csv": frame_csv(pd.json_normalize(rows)),
        "json": json.dumps(
            {"answers": sentences, "level": LEVEL, "plan": comparison.plan, "methods": rows},
            indent=1,
        ),
    }
    for suffix, text in files.items():
        write_atomically(folder / f"comparison.{suffix}", text.encode())
    print_table(table, console)
    for line in (*page.notes, *failures, f"report: {folder / 'comparison.html'}", *sentences):
        console.print(line)
    return int(len(scored) < len(rows))


def _expected(comparison: Comparison, scored: Sequence[Row]) -> list[str]:
    """The gain that the shape of the data let expect of curvature, beside the measured one."""
    kind = KINDS[comparison.task]
    expectation = kind.part("expectation")
    if expectation is None or comparison.score != "personal":
        return []
    expected = expectation(comparison.first_config)
    # Without an interval nothing can be said about a measured gain.
    gains = [
        tuple(100 * row[key] for key in USE)
        for row in scored
        if row["method"] == kind.comparison.curved and row.get("use_low") is not None
    ]
    if expected is None:
        return []
    return [expected.sentence(next(iter(gains), None))]


def _table(
    comparison: Comparison, rows: Sequence[Row], scored: Sequence[Row], failures: Sequence[str]
) -> Table:
    """The table of all methods and of the trivial answer; methods with an error have dashes."""
    is_personal = comparison.score == "personal"
    figure = rows[0]["figure"].rpartition(".")[2]
    measure = words_of("accuracy", [figure]).removeprefix("test ")
    # Named beside another score; next to an accuracy it goes without saying.
    of_measure = "" if "accuracy" in figure else f" {measure}"
    tried = [row["tried"] for row in rows]
    minimum = min(tried)
    maximum = max(tried)
    has_validation = KINDS[comparison.task].has_validation
    intervals = NO_INTERVALS if comparison.numbers["seeds"] < MIN_PAIRS else INTERVALS
    num_tuning = comparison.numbers["tuning-seeds"]
    legend = LEGEND.format(
        seeds=amount(comparison.numbers["seeds"], "seed"),
        tuning="another seed" if num_tuning == 1 else f"{num_tuning} other seeds",
        budget=comparison.numbers["budget"],
        tried=f"{minimum}" if minimum == maximum else f"{minimum} to {maximum}",
        chooser="validation" if has_validation and comparison.score in CHOSEN_BY else "this score",
        when="at the round of best validation" if is_personal else "after the last round",
        intervals=intervals.format(level=LEVEL, fewest=MIN_PAIRS),
        measure=measure,
    )
    columns = [find(figure).label]
    differences = [keys for keys in COLUMNS if any(keys[0] in row for row in scored)]
    columns += [COLUMNS[keys] for keys in differences]
    shares = {"start": "start (%)"}
    if is_personal:
        shares["worst_decile"] = f"worst tenth{of_measure and f',{of_measure}'} (%)"
    columns += shares.values()
    has_global = any("global_mean" in row for row in scored)
    if has_global:
        columns.append(f"global{of_measure} (%)")
        legend += GLOBAL_LEGEND.format(measure=measure, examples=comparison.task)
    columns += [find(name).label for name in COSTS]
    lines = [
        _line(row, row in scored[:1], differences, [*shares], has_global, len(columns))
        for row in rows
    ]
    if scored and scored[0]["trivial"] is not None:
        trivial = f"{100 * scored[0]['trivial']:.1f}"
        cells = [Cell(trivial), *[Cell("–")] * (len(columns) - 1)]
        lines.append(([trivial_words(scored), ""], cells))
    return Table(
        "",
        ["method", "configuration"],
        columns,
        lines,
        " ".join([legend, *failures]),
        "figures wide",
        optional=columns[1 + len(differences) :],
        is_folded=True,
    )


def _line(
    row: Row,
    is_best: bool,
    differences: Sequence[Sequence[str]],
    shares: Sequence[str],
    has_global: bool,
    num_columns: int,
) -> tuple[list[str], list[Cell]]:
    """The names and the cells of a row, with these differences and shares, and the global accuracy
    if it has a column."""
    configuration = [f"{key}={json.dumps(value)}" for key, value in row["configuration"].items()]
    names = [row["method"], " ".join(configuration)]
    if row["error"]:
        return names, [Cell("failed", hint=row["error"]), *[Cell("–")] * (num_columns - 1)]
    texts = [points(row, keys) for keys in differences]
    texts += ["–" if row[name] is None else f"{100 * row[name]:.1f}" for name in shares]
    if has_global:
        is_scored = "global_mean" in row
        texts.append(_spread(row["global_mean"], row["global_std"]) if is_scored else "–")
    texts += [find(name).number(find(name).scale * row[name]) for name in COSTS]
    return names, [Cell(_spread(row["mean"], row["std"]), is_best=is_best), *map(Cell, texts)]


def _spread(mean: float, std: float) -> str:
    """Mean and standard deviation in percent."""
    return f"{100 * mean:.1f} ± {100 * std:.1f}"


def _differences(rows: Sequence[Row], stem: Path) -> Picture:
    """The picture of the differences to the best method, the first row, in percentage points."""
    best = rows[0]["method"]
    names = [row["method"] for row in rows[1:]]
    intervals = np.array([[row[key] for key in DIFFERENCE] for row in rows[1:]], float)
    means, low, high = 100 * intervals.T  # NaN without an interval, of which no bar is drawn
    bars = {"fmt": "o", "color": style.MEAN, "capsize": 4}
    with style.applied():
        figure, (axes,) = style.panels(1)
        axes.axhline(0, color=style.SOFT, linewidth=1.2, linestyle=":")
        axes.errorbar(range(len(names)), means, [means - low, high - means], **bars)
        legends.categories(axes, names)
        axes.set_xlim(-0.5, len(names) - 0.5)
        charts.name(axes, "", f"difference to {best} (points)")
    title = f"Differences to {best}, with their intervals"
    caption = f"{title}. Where one contains 0, the data show no difference."
    return Picture(figure, title, caption).saved(stem)

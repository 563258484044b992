"""The answers of a comparison, in sentences, for readers who are new to its intervals."""

from collections.abc import Sequence
from typing import Any

from curvfed.extensions.sweeps.commands.compare import TRIVIAL
from curvfed.extensions.sweeps.commands.paired import LEVEL, MIN_PAIRS
from curvfed.server_app.report.page import number
from curvfed.strategies.base.figures import VALIDATION, find
from curvfed.strategies.base.score_words import FEW_TESTS, examples_text, few_examples
from curvfed.tasks.amounts import amount, be

Row = dict[str, Any]
"""A row of the results, for one method."""

DIFFERENCE = ("difference", "low", "high")
CURVATURE = ("curvature", "curvature_low", "curvature_high")
USE = ("use", "use_low", "use_high")
"""Keys of a row's differences to the best method, to itself at curvature 0 or its control, and to
the best rival."""

SAME = 1e-9
"""Differences of scores below this are rounding."""

NARROW = 0.02
"""The largest difference that an interval may leave open to show that there is hardly any."""

IS_CURVATURE = "Is it the curvature?"
IS_USEFUL = "Should I use it?"
WHICH_IS_BEST = "Which is best?"


def best_rival(rows: Sequence[Row]) -> Row | None:
    """The rival with the best score on the tuning seeds."""
    rivals = [row for row in rows if row["is_rival"]]
    return max(rivals, key=lambda row: row[VALIDATION], default=None)


def answers(rows: Sequence[Row], data: str) -> list[str]:
    """The gain by curvature, the gain over the best rival, how to read the intervals, which methods
    are below the trivial answer, and the best method or the methods without a significant
    difference; the first row is the best."""
    if len(rows) < 2:
        scored = f"only {rows[0]['method']} has scores" if rows else "no method has scores"
        return [f"Nothing can be compared on {data}: {scored}."]
    rival = best_rival(rows)
    is_chosen = sum(row["is_rival"] for row in rows) > 1
    title = "the best rival by the tuning seeds," if is_chosen else "the rival"
    sentences = []
    for row in rows:
        if "curvature" in row:
            reference = (
                "itself at curvature 0" if row["at_zero"] else f"its control {row['control']}"
            )
            sentences.append(f"{IS_CURVATURE} {_relation(row, CURVATURE, reference)}")
        if "use" in row and rival is not None:
            reference = f"{title} {rival['method']}"
            sentences.append(f"{IS_USEFUL} {_relation(row, USE, reference)}")
    sentences.append(_reading(rows))
    below = [row for row in rows if row["trivial"] is not None and row["mean"] < row["trivial"]]
    if below:
        names = listed([row["method"] for row in below])
        trivial = 100 * rows[0]["trivial"]
        level = f"{trivial_words(rows)} ({trivial:.1f}%)"
        sentences.append(f"Below the trivial line, {level}: {names}.")
    counts = [count for row in rows if (count := row.get("examples")) is not None]
    fewest = min(counts, default=None)
    if fewest is not None and fewest < FEW_TESTS:
        sentences.append(f"The scores show little: {few_examples('score of a run', fewest)}.")
    elif fewest is not None:
        sentences.append(f"The score of a run is of {examples_text(fewest)} or more.")
    return [*sentences, f"{WHICH_IS_BEST} {_about_the_best(rows, data)}"]


def _relation(row: Row, keys: Sequence[str], reference: str) -> str:
    """The answer to a question by the difference of these keys: yes, no, or not known."""
    mean, low, high = (row[key] for key in keys)
    name = row["method"]
    seeds = len(row["scores"])
    difference = f"{number(abs(100 * mean), 1)} points {'less' if mean < 0 else 'more'}"
    scored = f"{name} scores {difference} than {reference}"
    if is_constant(low, high):
        if abs(mean) < SAME:
            return f"No: {name} scores the same as {reference}, on each of {seeds} seeds."
        return f"{'Yes' if mean > 0 else 'No'}: {scored}, on each of {seeds} seeds."
    scored += f", the mean over {amount(seeds, 'seed')}"
    if low is None:
        return f"Not known: {scored}, too few for an interval."
    interval = f"the {LEVEL:.0%} interval, {_span(low, high)},"
    if low > 0:
        return f"Yes: {scored}; {interval} lies above 0."
    if high < 0:
        return f"No: {scored}; {interval} lies below 0."
    if max(-low, high) <= NARROW:
        return (
            f"It makes hardly a difference: {scored}; {interval} holds 0 and reaches at most"
            f" {number(100 * NARROW, 0)} points from it."
        )
    return (
        f"Not known: {scored}; {interval} holds 0, so that it may as well be a loss as a gain."
        " More seeds narrow the interval."
    )


def _reading(rows: Sequence[Row]) -> str:
    """The number of pairs, and the meaning of an interval."""
    seeds = len(rows[0]["scores"])
    compared = (
        f"How to read it: all methods ran with the same {amount(seeds, 'seed')}, which tuning did"
        " not use, and a difference is the mean of those at each seed."
    )
    if seeds < MIN_PAIRS:
        return (
            f"{compared} From {MIN_PAIRS} seeds on it has an interval, which says what other seeds"
            " may show; run again with seeds=5."
        )
    has_questions = any("curvature" in row or "use" in row for row in rows)
    of_all = "of both questions" if has_questions else "of differences to the best"
    return (
        f"{compared} The interval says where this mean may lie over all seeds, each with clients,"
        f" splits and first models of its own; with {LEVEL:.0%} all intervals {of_all}"
        " hold. It says nothing about other data."
    )


def is_constant(low: float | None, high: float | None) -> bool:
    """Whether a difference is the same in every run: its interval tells nothing."""
    return low is not None and high is not None and high - low < SAME


def trivial_words(rows: Sequence[Row]) -> str:
    """The answer for which no model is needed, in words."""
    name = TRIVIAL[rows[0]["figure"]]
    if isinstance(name, float):
        return "chance"
    return find(name.rpartition(".")[2]).words


def _about_the_best(rows: Sequence[Row], data: str) -> str:
    """The best method, those that cannot be told apart from it, and the others."""
    first, second = rows[:2]
    best = f"{first['method']} ({100 * first['mean']:.1f}%)"
    seeds = len(first["scores"])
    highest = f"{best} has the highest mean of these {len(rows)} methods on {data}"
    if any(row["low"] is None for row in rows[1:]):
        few = f"{amount(seeds, 'seed')} {be(seeds)} too few"
        return f"{highest}, but {few} to show that it is the best."
    tied = [first, *(row for row in rows[1:] if row["low"] <= 0 <= row["high"])]
    if len(tied) == 1:
        mean, low, high = (-second[key] for key in ("difference", "high", "low"))
        interval = f"{LEVEL:.0%} interval {_span(low, high)}, above 0"
        if is_constant(low, high):
            interval = "on each seed, so that there is no interval"
        return (
            f"{best} is the best of these {len(rows)} methods on {data}:"
            f" {number(100 * mean, 1)} points more than {second['method']}, the next, over {seeds}"
            f" seeds ({interval})."
        )
    tied_names = listed([row["method"] for row in tied[1:]])
    is_level = all(is_constant(row["low"], row["high"]) for row in tied[1:])
    reason = "they score the same" if is_level else f"the {LEVEL:.0%} intervals hold 0"
    worse = [row["method"] for row in rows if row not in tied]
    end = f"; {listed(worse)} scored less." if worse else "."
    return (
        f"{highest}, but {seeds} seeds do not show it to be better than {tied_names}:"
        f" {reason}{_cheapest(tied)}{end}"
    )


def _cheapest(rows: Sequence[Row]) -> str:
    """The methods that send the fewest bytes, in brackets; "" if all send as many. Seconds depend
    on what else the machine did."""
    lowest = min(row["bytes"] for row in rows)
    methods = [row["method"] for row in rows if row["bytes"] == lowest]
    return f" (cheapest in bytes: {listed(methods)})" if len(methods) < len(rows) else ""


def _span(low: float, high: float) -> str:
    """An interval in percentage points."""
    return f"{number(100 * low, 1)} to {number(100 * high, 1)}"


def points(row: Row, keys: Sequence[str]) -> str:
    """A difference with its interval, in percentage points, or in words where it is the same in
    every run; "" if the row has none."""
    if keys[0] not in row:
        return ""
    mean, low, high = (row[key] for key in keys)
    text = number(100 * mean, 1)
    if is_constant(low, high):
        return "same in every run" if abs(mean) < SAME else f"{text} in every run"
    return text if low is None else f"{text} ({_span(low, high)})"


def listed(names: Sequence[str]) -> str:
    """Names as words: "a, b and c"."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))

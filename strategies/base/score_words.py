"""Scores in words, with the number of test examples that they rest on."""

from collections.abc import Mapping
from typing import Any

from curvfed.strategies.base.figures import STD, find
from curvfed.tasks.amounts import amount

FEW_TESTS = 20
"""Minimum number of test examples of a score without a warning."""


def scored_text(name: str, figures: Mapping[str, Any], counts: Mapping[str, Any]) -> str:
    """A score with its standard deviation and number of test examples, if they are known; another
    figure as plain text; "" for a figure that tables omit.

    Parameters
    ----------
    name : str
    figures : mapping
        The figures of a run, or of its best round.
    counts : mapping
        Those with the numbers of test examples.

    Examples
    --------
    >>> run = {"mrr": 0.5, "mrr_std": 0.125, "personal_examples": 1300}
    >>> scored_text("mrr", run, run)
    '50.0% ± 12.5%, 1,300 test examples'
    >>> scored_text("mrr", run, {"personal_examples": None})  # nodes that keep their numbers
    '50.0% ± 12.5%, number of test examples not shared'
    """
    row = find(name)
    is_hidden = row.hides_zero and not figures.get(name)
    if is_hidden or (row.left_out_of and figures.get(row.left_out_of) is None):
        return ""
    text = row.text(figures.get(name))
    if not text:
        return ""
    spread = figures.get(f"{name.removesuffix('_mean')}{STD}")
    if isinstance(spread, int | float):
        text += f" ± {row.text(spread)}"
    number = counts.get(row.examples) if row.examples else None
    if isinstance(number, int | float):
        text += f", {examples_text(number)}"
    elif row.examples in counts:
        text += ", number of test examples not shared"
    return text


def examples_text(number: float) -> str:
    """A number of test examples in words."""
    return amount(f"{number:,.0f}", "test example")


def few_examples(words: str, number: float) -> str:
    """A warning about a score of fewer than `FEW_TESTS` test examples."""
    return (
        f"the {words} is of {examples_text(number)}, each of which counts"
        f" {100 / number:.0f} points: give the clients more test data (test-size), or more data"
    )

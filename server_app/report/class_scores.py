"""How well classes are recognised: by class, by client, and a picture of which are taken for
which.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report import charts, style
from curvfed.server_app.report.page import Picture
from curvfed.server_app.report.units import printable

if TYPE_CHECKING:  # which needs torch
    from curvfed.server_app.directory.hull_file import HullFile

Counts = Counter[tuple[int, int]]
"""Numbers of test examples by true and predicted class; -1 is no class."""

Z = 1.959964
"""Standard normal quantile of two-sided intervals of 95%."""


NOT_FINITE = "the model's output is not finite"
"""Why there is no prediction, except in one-shot runs, whose groups may lack a name."""

BANDS = (0.0, 0.5, 0.7, 0.9, 1.0)
"""Bounds of probability between which the share of right answers is told."""

MOST_CLIENTS = 10
"""Clients whose shares are told."""

MOST_NUMBERED = 12
"""Classes up to which the cells of a confusion matrix have numbers."""

ON_COLOUR = "#0e1317"
"""Colour of text on a deep colour, on light paper and on dark paper."""


class Share(NamedTuple):
    """A share of `of` points with its interval, and what it is a share of."""

    name: str
    of: int
    share: float
    low: float
    high: float
    note: str = ""


def wilson(right: int, of: int) -> tuple[float, float]:
    """The 95% interval of a binomial share (Wilson, 1927), which holds for few points and for
    shares of 0 and 1 too.

    Examples
    --------
    >>> [round(bound, 3) for bound in wilson(8, 10)]
    [0.49, 0.943]
    """
    middle = (right + Z * Z / 2) / (of + Z * Z)
    half = Z * np.sqrt(right * (of - right) / of + Z * Z / 4) / (of + Z * Z)
    return max(0.0, float(middle - half)), min(1.0, float(middle + half))


def named(names: Sequence[str], least: int) -> list[str]:
    """The names of at least so many classes; a class without a name is called by its number."""
    return [*names, *map(str, range(len(names), least))]


def counted(labels: NDArray[np.intp], predicted: NDArray[np.intp]) -> Counts:
    """The number of examples of each pair of a true and a predicted class, from their numbers
    (n,).
    """
    return Counter(zip(labels.tolist(), predicted.tolist(), strict=True))


def of_run(run: RunFiles) -> Counts:
    """Of the server's test data, or where it has none of all clients', after the last round; empty
    where nobody tells."""
    if run.global_test is not None:
        return counted(run.global_test.labels, run.global_test.predicted)
    return sum(_by_client(run).values(), Counter())


def by_client(run: RunFiles) -> list[Share]:
    """Of each client that tells it the share of its own test data that is right, the worst first,
    and its worst class."""
    found = []
    for partition, counts in _by_client(run).items():
        right = sum(count for (true, other), count in counts.items() if true == other)
        of = counts.total()
        worst = recalls(counts, run.class_names)[0]
        told = f"{worst.name} ({round(worst.share * worst.of)} of {worst.of})" if right < of else ""
        found.append(Share(f"client {partition}", of, right / of, *wilson(right, of), told))
    return sorted(found, key=lambda one: one.share)


def _by_client(run: RunFiles) -> dict[int, Counts]:
    """By partition, of the rows that make sense."""
    numbers = {name: number for number, name in enumerate(run.class_names)}
    found: dict[int, Counts] = {}
    columns = (
        run.confusion.get(name, ()) for name in ("partition", "class", "predicted", "examples")
    )
    for partition, true, predicted, count in zip(*columns, strict=False):
        if true in numbers and count.isdecimal() and int(count):
            pair = numbers[true], numbers.get(predicted, -1)
            found.setdefault(int(partition), Counter())[pair] += int(count)
    return found


def recalls(counts: Counts, names: Sequence[str], lost: str = NOT_FINITE) -> list[Share]:
    """Of each class with test data the share that is recognised, the worst first, and what it is
    most often taken for.

    Parameters
    ----------
    counts : Counter of (int, int)
        By the numbers of the true and of the predicted class; a prediction of -1 is no class.
    names : sequence of str
        A class without a name is called by its number.
    lost : str
        What -1 is.
    """
    names = named(names, 1 + max(map(max, counts), default=-1))
    found = []
    for number in sorted({true for true, _ in counts}):
        given = {other: count for (true, other), count in counts.items() if true == number}
        of = sum(given.values())
        right = given.pop(number, 0)
        often = max(sorted(given), key=given.__getitem__, default=None)
        told = "" if often is None else f"{names[often] if often >= 0 else lost} ({given[often]})"
        found.append(Share(names[number], of, right / of, *wilson(right, of), told))
    return sorted(found, key=lambda one: one.share)


def confusion(run: RunFiles) -> Picture | None:
    """True by predicted classes of the test examples."""
    counts = of_run(run)
    return confusion_of(counts, run.class_names, run.examples) if counts else None


def confusion_of(counts: Counts, names: Sequence[str], examples: str) -> Picture:
    """The matrix of true by predicted classes, of the most frequent classes if there are many."""
    names = named(names, 1 + max(map(max, counts)))
    totals = np.zeros(len(names))
    for (true, _), count in counts.items():
        totals[true] += count
    kept = charts.largest(totals, charts.MOST_CELLS).tolist()
    table = np.array([[counts[true, other] for other in kept] for true in kept], np.float64)
    axes = style.page_axes(4.6)
    _draw_confusion(
        axes, table / np.maximum(totals[kept], 1)[:, None], [names[one] for one in kept]
    )
    shade = "in percent" if len(kept) <= MOST_NUMBERED else "deeper the more"
    caption = (
        f"Of the test {examples} of a class, a row, the share predicted as each class, {shade}:"
        f" blue rightly, orange wrongly. {charts.left_out(kept, len(names), 'classes')}"
    )
    return Picture(axes.figure, "Which classes are taken for which", caption.strip())


def _draw_confusion(axes: Any, shares: NDArray[np.float64], classes: list[str]) -> None:
    """Draw shares (C, C) of the images of a true class, a row, that are predicted as each class."""
    numbered = len(classes) <= MOST_NUMBERED
    # Roots make small shares visible, all the more where no numbers tell them.
    shade = np.sqrt(shares) if numbered else np.cbrt(shares)
    signs = np.where(np.eye(len(classes), dtype=bool), -1, 1)
    charts.cells(
        axes, np.where(shares > 0, signs * shade, np.nan), (classes, classes), aspect="equal"
    )
    axes.set(xlabel="predicted class", ylabel="true class")
    for row, column in np.argwhere(shares > 0) if numbered else ():
        colour = ON_COLOUR if shade[row, column] > 0.8 else style.INK
        axes.text(
            column,
            row,
            short_share(shares[row, column]),
            ha="center",
            va="center",
            fontsize=7.5,
            color=colour,
        )


def short_share(share: float) -> str:
    """Percent without its sign, with a decimal where it is small."""
    percent = 100 * share
    if percent < 0.05:
        return "<.1"
    return f"{percent:.0f}" if percent >= 9.95 else f"{percent:.1f}".lstrip("0")


def bands(file: "HullFile") -> list[Share]:
    """Of the test points in each band of probability the share that is right; empty without a
    classifier."""
    if file.classifier is None or not len(file.test.labels):
        return []
    chances = file.classifier.probabilities(file.test.points).max(axis=1)
    right: NDArray[np.bool_] = file.predicted == file.test.labels
    found = []
    for low, high in pairwise(BANDS):
        inside = (chances >= low) & ((chances < high) | (high == BANDS[-1]))
        if count := int(inside.sum()):
            told = f"{100 * chances[inside].mean():.1f}%"
            name = f"{low:.0%} to {high:.0%}"
            found.append(
                Share(
                    name,
                    count,
                    float(right[inside].mean()),
                    *wilson(int(right[inside].sum()), count),
                    told,
                )
            )
    return found


def ballots(file: "HullFile") -> list[tuple[str, int, float, str]]:
    """Of each group its name, how many clients name it, the share of these that agree, and the
    names they give."""
    found = []
    for name, given in zip(file.names, file.votes, strict=False):
        count = int(given.sum())
        agree = given[np.array(file.voted_names) == name].sum()
        order = [one for one in np.argsort(-given, kind="stable") if given[one] > 0]
        told = ", ".join(f"{printable(file.voted_names[one])} ({given[one]:.0f})" for one in order)
        found.append((name, count, float(agree) / count if count else np.nan, told))
    return found

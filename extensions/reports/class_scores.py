"""Shares of right answers by class, by client and by probability, with Wilson's intervals; the
votes on the names of groups; and a picture of the confusion of classes."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from curvfed.extensions.reports import shapes
from curvfed.extensions.reports.array_files import global_test_of
from curvfed.extensions.reports.intervals import wilson
from curvfed.extensions.reports.run_clients import class_names, examples_of
from curvfed.geometry.arrays import Booleans, Floats, Indices
from curvfed.server_app.directory.run_files import RunFiles, columns
from curvfed.server_app.report import style
from curvfed.server_app.report.page import Picture, printable

if TYPE_CHECKING:  # which needs torch
    from curvfed.extensions.reports.array_files import HullFile

Counts = Counter[tuple[int, int]]
"""Numbers of test examples by true and predicted class; -1 is not a class."""


NOT_FINITE = "the model's output is not finite"
"""Why a prediction is missing, except in one-shot runs, where groups may lack a name."""

BANDS = (0.0, 0.5, 0.7, 0.9, 1.0)
"""Bounds of probability between which the share of right answers is reported."""

LONGEST = 40
"""Letters of a name in a table."""

MOST_CLIENTS = 10
"""Maximum number of clients with reported shares."""

MOST_NUMBERED = 12
"""Maximum number of classes in a confusion matrix with numbers in its cells."""

ON_COLOUR = "#0e1317"
"""Colour of text on a deep colour, on light paper and on dark paper."""


class Share(NamedTuple):
    """A share of `total` examples that are right, with its 95% interval."""

    name: str
    total: int
    share: float
    low: float
    high: float
    note: str = ""


def share(name: str, right: int, total: int, note: str = "") -> Share:
    """The share with Wilson's interval."""
    return Share(name, total, right / total, *wilson(right, total), note)


def class_labels(names: Sequence[str], count: int) -> list[str]:
    """The names of at least `count` classes; a class without a name is called by its number."""
    return [*names, *map(str, range(len(names), count))]


def count_pairs(labels: Indices, predicted: Indices) -> Counts:
    """The number of examples of each pair of a true and a predicted class, from their numbers
    (n,)."""
    return Counter(zip(labels.tolist(), predicted.tolist(), strict=True))


def run_counts(run: RunFiles) -> Counts:
    """Counts on the server's test data, or without these on all clients', after the last round."""
    test = global_test_of(run)
    if test is not None:
        return count_pairs(test.labels, test.predicted)
    return sum(_counts_by_client(run).values(), Counter())


def client_shares(run: RunFiles) -> list[Share]:
    """Each client's share of right test examples, the worst client first, with its worst class."""
    shares = []
    for partition, counts in _counts_by_client(run).items():
        right = sum(count for (true, predicted), count in counts.items() if true == predicted)
        worst = recalls(counts, class_names(run))[0]
        wrong = f"{worst.name} ({round(worst.share * worst.total)} of {worst.total})"
        is_perfect = right == counts.total()
        shares.append(
            share(f"client {partition}", right, counts.total(), "" if is_perfect else wrong)
        )
    return sorted(shares, key=lambda client: client.share)


def _counts_by_client(run: RunFiles) -> dict[int, Counts]:
    """Counts by partition, of the rows that make sense."""
    numbers = {name: number for number, name in enumerate(class_names(run))}
    by_client: dict[int, Counts] = {}
    names = ("partition", "class", "predicted", "examples")
    cells = run.optional("confusion.csv", columns) or {}  # unless clients send their counts
    for partition, true, predicted, count in zip(*(cells.get(name, ()) for name in names)):
        if true in numbers and count.isdecimal() and int(count):
            pair = numbers[true], numbers.get(predicted, -1)
            by_client.setdefault(int(partition), Counter())[pair] += int(count)
    return by_client


def recalls(counts: Counts, names: Sequence[str], no_class: str = NOT_FINITE) -> list[Share]:
    """Each class's share of test examples that are recognised, the worst first, and its most
    frequent wrong prediction.

    Parameters
    ----------
    counts : Counter of (int, int)
        By the numbers of the true and of the predicted class; a prediction of -1 is not a class.
    names : sequence of str
        A class without a name is called by its number.
    no_class : str
        The name of -1.
    """
    names = class_labels(names, 1 + max(map(max, counts), default=-1))
    shares = []
    for number in sorted({true for true, _ in counts}):
        row = {predicted: count for (true, predicted), count in counts.items() if true == number}
        total = sum(row.values())
        right = row.pop(number, 0)
        note = ""
        if row:
            mistake = max(sorted(row), key=row.__getitem__)
            mistaken_name = names[mistake] if mistake >= 0 else no_class
            note = f"{mistaken_name} ({row[mistake]})"
        shares.append(share(names[number], right, total, note))
    return sorted(shares, key=lambda recall: recall.share)


def confusion(run: RunFiles) -> Picture | None:
    """True by predicted classes of the test examples."""
    counts = run_counts(run)
    return confusion_of(counts, class_names(run), examples_of(run)) if counts else None


def confusion_of(counts: Counts, names: Sequence[str], examples: str) -> Picture:
    """The matrix of true by predicted classes, of the most frequent classes if there are many."""
    names = class_labels(names, 1 + max(map(max, counts)))
    totals = np.zeros(len(names))
    for (true, _), count in counts.items():
        totals[true] += count
    classes = shapes.largest(totals, shapes.MOST_CELLS).tolist()
    table = np.array(
        [[counts[true, predicted] for predicted in classes] for true in classes], np.float64
    )
    axes = style.page_axes(4.6)
    shares = table / np.maximum(totals[classes], 1)[:, None]
    _draw_confusion(axes, shares, [names[label] for label in classes])
    shade = "in percent" if len(classes) <= MOST_NUMBERED else "deeper the more"
    caption = (
        f"Of the test {examples} of a class, a row, the share predicted as each class, {shade}:"
        f" blue rightly, orange wrongly. {shapes.left_out(classes, len(names), 'classes')}"
    )
    return Picture(axes.figure, "Which classes are taken for which", caption.strip())


def _draw_confusion(axes: Any, shares: Floats, classes: list[str]) -> None:
    """Draw shares (C, C) of the images of a true class, a row, that are predicted as each class."""
    numbered = len(classes) <= MOST_NUMBERED
    # Roots make small shares visible, all the more where no numbers tell them.
    shade = np.sqrt(shares) if numbered else np.cbrt(shares)
    signs = np.where(np.eye(len(classes), dtype=bool), -1, 1)
    shapes.cells(
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
    if percent >= 9.95:
        return f"{percent:.0f}"
    return f"{percent:.1f}".lstrip("0")


def bands(file: "HullFile") -> list[Share]:
    """Calibration: accuracy of the test points in each probability bin; empty without a
    classifier."""
    if file.classifier is None or not len(file.test.labels):
        return []
    chances = file.classifier.probabilities(file.test.points).max(axis=1)
    right: Booleans = file.predicted == file.test.labels
    shares = []
    for low, high in pairwise(BANDS):
        inside = (chances >= low) & ((chances < high) | (high == BANDS[-1]))
        if count := int(inside.sum()):
            mean = f"{100 * chances[inside].mean():.1f}%"
            band = f"{low:.0%} to {high:.0%}"
            shares.append(share(band, int(right[inside].sum()), count, mean))
    return shares


def ballots(file: "HullFile") -> list[tuple[str, int, float, str]]:
    """Each group's name, how many clients name it, the share of these that agree, and the names
    they give."""
    rows = []
    for group, votes in zip(file.names, file.votes, strict=False):
        count = int(votes.sum())
        agree = votes[np.array(file.voted_names) == group].sum()
        order = [place for place in np.argsort(-votes, kind="stable") if votes[place] > 0]
        names = [printable(file.voted_names[place], LONGEST) for place in order]
        texts = [f"{name} ({votes[place]:.0f})" for name, place in zip(names, order, strict=True)]
        rows.append((group, count, float(agree) / count if count else np.nan, ", ".join(texts)))
    return rows

"""Checks of the values in messages: names, shapes, ranges and sizes; and the error of a message."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from curvfed.geometry.arrays import Array
from curvfed.tasks.amounts import with_article
from curvfed.tasks.errors import MAX_TEXT, SafeError
from curvfed.tasks.kinds import KINDS, TRIVIAL

MAX_REASON = 2000
"""Maximum number of characters of a logged reason. It may quote the other side, which could
otherwise fill a disk."""


class MessageError(SafeError, ValueError):
    """An unexpected message; the text is safe to print, whatever it quotes (`one_line`)."""

    area = "message"

    def __init__(self, reason: str, *, key: str = "") -> None:
        super().__init__(one_line(reason), key=key)


def one_line(text: str, length: int = MAX_REASON) -> str:
    """A text on one line without control characters, cut off after `length` characters."""
    line = "".join(
        char if char.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for char in " ".join(text[: 2 * length].split())
    )
    return line if len(line) <= length else line[: length - 1] + "…"


MAX_PARTITIONS = 1_000_000

_SHAPE = re.compile(r"([13])x([0-9]{1,4})x([0-9]{1,4})|([0-9]{1,5})x1x1")


def check_arrays(arrays: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    """Refuse arrays that have other names, shapes or dtypes than expected, or are not finite.

    Raises
    ------
    MessageError
        Names the first wrong parameter and its fault.
    """
    if not isinstance(arrays, Mapping):
        raise MessageError(
            f"parameters are {with_article(type(arrays).__name__)}, expected a dict of arrays",
            key="parameters",
        )
    if arrays.keys() != expected.keys():
        extra = sorted(arrays.keys() - expected.keys())
        missing = sorted(expected.keys() - arrays.keys())
        raise MessageError(
            f"parameters do not match: unexpected {extra}, missing {missing}", key="parameters"
        )
    for name, array in arrays.items():
        template = expected[name]
        if array.shape != template.shape or array.dtype != template.dtype:
            raise MessageError(
                f"{name} is {array.dtype}{list(array.shape)}, expected"
                f" {template.dtype}{list(template.shape)}",
                key="shape",
            )
        if not np.isfinite(array).all():
            raise MessageError(f"{name} has values that are not finite", key="not-finite")


def check_votes(votes: Array, fallen: Array) -> None:
    """Refuse votes (groups, classes) with more than one vote per group or class, and a flag that is
    not 0 or 1.

    Raises
    ------
    MessageError
    """
    if (
        not np.isin(np.append(votes, fallen), (0, 1)).all()
        or max(votes.sum(0).max(initial=0), votes.sum(1).max(initial=0)) > 1
    ):
        raise MessageError(
            "votes must be 0 or 1, at most one 1 in a row and in a column", key="votes"
        )


def check_steps(
    steps: float | None, num_examples: int, epochs: int, batch_size: int, epoch_factor: int = 1
) -> None:
    """Refuse a number of local steps that is impossible for this number of examples and batch size
    (0: one batch of all), and more than `epoch_factor` times as many epochs.

    A short last batch may have been merged with the previous one.

    Raises
    ------
    MessageError
    """
    batches = -(-num_examples // batch_size) if batch_size else min(num_examples, 1)
    minimum, maximum = (epochs, epochs * batches * epoch_factor) if num_examples else (0, 0)
    if not minimum <= (steps or 0) <= maximum:
        raise MessageError(
            f"steps is {steps}; allowed for {num_examples} examples are {minimum} to {maximum}, by"
            f" epoch_factor = {epoch_factor} of the method's Learner",
            key="steps",
        )


def check_confusion(counts: Any, num_classes: int, num_test: int) -> None:
    """Refuse a list that is not a confusion matrix of all test examples: true class, predicted
    class (−1: none) and number, one after the other.

    Raises
    ------
    MessageError
    """
    is_triples = (
        isinstance(counts, list)
        and len(counts) % 3 == 0
        and all(type(number) is int for number in counts)
    )
    rows = list(zip(counts[::3], counts[1::3], counts[2::3], strict=True)) if is_triples else []
    pairs = {
        (true, predicted)
        for true, predicted, _ in rows
        if 0 <= true < num_classes and -1 <= predicted < num_classes
    }
    if not is_triples or len(pairs) < len(rows) or any(count < 1 for *_, count in rows):
        raise MessageError(
            "the confusion matrix must list true class, predicted class and number >= 1, each pair"
            " of classes once",
            key="confusion",
        )
    if sum(counts[2::3]) != num_test:
        raise MessageError(
            f"the confusion matrix has {sum(counts[2::3])} test examples; the client has"
            f" {num_test}",
            key="confusion",
        )


def check_texts(texts: Iterable[str]) -> None:
    """Refuse texts that are too long for a log, a table or a ledger, or not printable.

    Raises
    ------
    MessageError
    """
    for text in texts:
        if len(text) > MAX_TEXT or not text.isprintable():
            raise MessageError(
                f"a name or a text has {len(text)} characters; allowed are up to {MAX_TEXT}"
                " printable ones",
                key="text",
            )


def check_data(task: str, space: str, shape: str, num_features: int, names: Sequence[str]) -> None:
    """Refuse repeated or too many class names, and impossible sizes and feature spaces.

    Raises
    ------
    MessageError
    """
    kind = KINDS.get(task)
    if kind is None:
        raise MessageError(
            f'the task of the data is "{task}"; allowed is one of ' + ", ".join(KINDS),
            key="task",
        )
    minimum = kind.min_classes
    if not minimum <= len(names) <= kind.max_classes or len(set(names)) < len(names):
        raise MessageError(
            f"there are {len(names)} class names; allowed are {minimum} to {kind.max_classes},"
            " all different",
            key="class-names",
        )
    if num_features < 1:
        raise MessageError(f"num_features is {num_features}; allowed is 1 or more", key="features")
    if space and not kind.has_spaces:
        raise MessageError(f"data of {task} have no feature space of their own", key="features")
    if kind.num_features not in (0, num_features):
        raise MessageError(
            f"num_features is {num_features}; {task} have {kind.num_features}", key="features"
        )
    sides = _SHAPE.fullmatch(shape)
    num_values = math.prod(map(int, filter(None, sides.groups()))) if sides else 0
    if kind.has_shape and not num_features == num_values > 0:
        raise MessageError(
            f'the shape of the images is "{shape}"; allowed are 1 or 3 channels of up to 9999 times'
            " 9999 pixels, or up to 99999 features, as in 512x1x1",
            key="image-shape",
        )


def check_bits(bits: int) -> None:
    """Refuse an impossible number of bits of images; 0 stands for none with 16 bits per channel.

    Raises
    ------
    MessageError
    """
    if bits not in (0, *range(8, 17)):
        raise MessageError(f"bits is {bits}; allowed are 0 and 8 to 16", key="bits")


def check_partition(partition: int, num_partitions: int, digest: str) -> None:
    """Refuse an impossible part of a public data set. A client's own data lack a digest and parts.

    Raises
    ------
    MessageError
    """
    if not digest and num_partitions != 0:
        raise MessageError(
            f"num_partitions is {num_partitions}; allowed for a client's own data is 0",
            key="partitions",
        )
    if digest and not 0 <= partition < num_partitions <= MAX_PARTITIONS:
        raise MessageError(
            f"num_partitions is {num_partitions}; allowed is a number above partition-id,"
            f" {partition}, which is 0 or more, up to {MAX_PARTITIONS}",
            key="partitions",
        )


def check_statistics(task: str, statistics: Mapping[str, Any], num_classes: int) -> None:
    """Refuse impossible statistics of data of a kind.

    Raises
    ------
    MessageError
        Names the first wrong one.
    """
    for name, value in statistics.items():
        if name == "class_counts":
            is_counts = isinstance(value, list) and all(
                type(count) is int and count >= 0 for count in value
            )
            if not is_counts or len(value) != num_classes:
                raise MessageError(
                    f'"{name}" does not have one whole number, 0 or more, per class',
                    key="statistics",
                )
        elif type(value) not in (int, float) or not math.isfinite(value):
            raise MessageError(f'"{name}" is not a finite number', key="statistics")
        elif name.startswith("num_") and not (type(value) is int and 0 <= value < 2**53):
            raise MessageError(
                f'"{name}" is {value}; allowed is a whole number, 0 or more', key="statistics"
            )
        elif name in TRIVIAL and not 0 <= value <= 1:
            raise MessageError(
                f'"{name}" is {value}; allowed is a share in [0, 1]', key="statistics"
            )
    if "num_test" not in statistics:
        return
    num_test = statistics["num_test"]
    for name in KINDS[task].test_counts:
        value = statistics.get(name)
        if value is None or value > num_test:
            raise MessageError(
                f'"{name}" is {"missing" if value is None else value}; {task} with "num_test" ='
                f" {num_test} have a number up to it",
                key="statistics",
            )

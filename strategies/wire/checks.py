"""What a message may say: names, ranges and sizes, checked before it is believed."""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from curvfed.strategies.wire.arrays import MessageError

SCORES = ("test", "val", "accuracy")
"""Metrics that are shares in [0, 1], each also as it was before training ("_before")."""

HULL_METRICS = ("points", "revealed", "vertices", "moved", "thinned")
"""What a client tells of its hulls: all of it, or nothing."""

COUNTS = ("steps", "clipped", *HULL_METRICS)
"""Metrics that are whole numbers."""

LARGEST = 1e30
"""What any metric may be at most: sums and squares of a few stay finite."""

MAX_CLASSES = 10_000
MAX_PARTITIONS = 1_000_000

MAX_TEXT = 200
"""Of the name of a class, and of any other text about the data."""

_SHAPE = re.compile(r"([13])x([0-9]{1,4})x([0-9]{1,4})")


def check_metrics(metrics: Mapping[str, float], known: Collection[str]) -> None:
    """Refuse metrics of other names than the known ones, values that are not finite, and shares and counts that are none.

    Raises
    ------
    MessageError
        Names the first one.
    """
    for name, value in metrics.items():
        if name not in known:
            raise MessageError(f'the metric "{name}" is not awaited; awaited are {", ".join(sorted(known))}')
        if name.removesuffix("_before") in SCORES and not 0 <= value <= 1:
            raise MessageError(f"{name} is {value}; allowed is a share in [0, 1]")
        if not -LARGEST <= value <= LARGEST:
            raise MessageError(f"{name} is {value}; allowed is a finite number, up to {LARGEST:g}")
        if name == "seconds" and value < 0:
            raise MessageError(f"{name} is {value}; allowed is 0 or more")
        if name in COUNTS and not (0 <= value < 2**53 and value == int(value)):
            raise MessageError(f"{name} is {value}; allowed is a whole number, 0 or more")


def check_hull_metrics(metrics: Mapping[str, float]) -> None:
    """Refuse figures about hulls that lack one, or that cannot be.

    Raises
    ------
    MessageError
    """
    told = [name for name in HULL_METRICS if name in metrics]
    if told and len(told) < len(HULL_METRICS):
        raise MessageError(f"it tells {', '.join(told)} of its hulls; awaited is {', '.join(HULL_METRICS)}, or nothing")
    if told and max(metrics["revealed"], metrics["moved"]) > metrics["points"]:
        raise MessageError(
            f"{metrics['revealed']:g} points are revealed and {metrics['moved']:g} moved of {metrics['points']:g}"
        )


def check_steps(steps: float | None, num_examples: int, epochs: int, batch_size: int) -> None:
    """Refuse a number of local steps that so many examples do not make, in batches of `batch_size`, 0 for all at once.

    A last batch may have joined the one before, and a graph's nodes are one batch.

    Raises
    ------
    MessageError
    """
    batches = -(-num_examples // batch_size) if batch_size else min(num_examples, 1)
    least, most = (epochs, epochs * batches) if num_examples else (0, 0)
    if not least <= (steps or 0) <= most:
        raise MessageError(f"steps is {steps}; {num_examples} examples make {least} to {most}")


def check_variances(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Refuse running variances below 0, of which one is enough to spoil an average.

    Raises
    ------
    MessageError
        Names the first one.
    """
    for name, array in arrays.items():
        if name.endswith("running_var") and (array < 0).any():
            raise MessageError(f"{name} has negative variances")


def check_texts(texts: Iterable[str]) -> None:
    """Refuse texts that would break a line of a log or a table: names are short and printable.

    Raises
    ------
    MessageError
    """
    for text in texts:
        if len(text) > MAX_TEXT or not text.isprintable():
            raise MessageError(
                f"a class or the data are named by {len(text)} characters; allowed are up to {MAX_TEXT} printable ones"
            )


def check_data(task: str, space: str, shape: str, num_features: int, names: Sequence[str]) -> None:
    """Refuse class names that are doubled or too many, and sizes and spaces that no data have.

    Raises
    ------
    MessageError
    """
    least = 0 if task == "points" else 1  # a client may have no points at all
    if not least <= len(names) <= MAX_CLASSES or len(set(names)) < len(names):
        raise MessageError(f"there are {len(names)} class names; allowed are {least} to {MAX_CLASSES}, all different")
    if num_features < 1:
        raise MessageError(f"num_features is {num_features}; allowed is 1 or more")
    if space and task != "graphs":
        raise MessageError(f"data of {task} have no space of their own")
    if task == "points" and num_features != 2:
        raise MessageError(f"num_features is {num_features}; points have 2")
    sides = _SHAPE.fullmatch(shape)
    if task == "images" and not (sides and num_features == math.prod(map(int, sides.groups())) > 0):
        raise MessageError(
            "the shape of the images is none; allowed is 1 or 3 channels by up to 9999 times 9999 pixels"
        )


def check_partition(partition: int, num_partitions: int, digest: str) -> None:
    """Refuse a part that a public data set cannot have, and parts of a client's own data, which have no digest.

    Raises
    ------
    MessageError
    """
    if not digest and num_partitions != 0:
        raise MessageError(f"num_partitions is {num_partitions}; allowed with data of one's own is 0")
    if digest and not 0 <= partition < num_partitions <= MAX_PARTITIONS:
        raise MessageError(
            f"num_partitions is {num_partitions}; allowed is a number above partition-id, {partition}, which is 0 or "
            f"more, up to {MAX_PARTITIONS}"
        )


def check_statistics(statistics: Mapping[str, Any], num_classes: int) -> None:
    """Refuse statistics that cannot be.

    Raises
    ------
    MessageError
        Names the first one.
    """
    for name, value in statistics.items():
        if name == "class_counts":
            whole = isinstance(value, list) and all(type(count) is int and count >= 0 for count in value)
            if not whole or len(value) != num_classes:
                raise MessageError(f'"{name}" is not one whole number, 0 or more, for each class')
        elif type(value) not in (int, float) or not math.isfinite(value):
            raise MessageError(f'"{name}" is no finite number')
        elif name.startswith("num_") and not (type(value) is int and 0 <= value < 2**53):
            raise MessageError(f'"{name}" is {value}; allowed is a whole number, 0 or more')
        elif name == "majority_accuracy" and not 0 <= value <= 1:
            raise MessageError(f'"{name}" is {value}; allowed is a share in [0, 1]')

"""The classes of examples as numbers."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from curvfed.tasks.class_names import class_name
from curvfed.tasks.errors import DataError


def in_order(class_names: Sequence[str]) -> list[str]:
    """Each name once, sorted as numbers if all are whole numbers, else alphabetically."""
    names = sorted(set(class_names))
    if all(name.removeprefix("-").isdecimal() for name in names):
        return sorted(names, key=int)
    return names


def number_labels(
    where: str, classes: object, count: int, field: str, gaps: bool = False
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The class of each example as an index into the class names, and these names `in_order`.

    Parameters
    ----------
    where, field : str
        The beginning of an error's text, and the name of the classes.
    classes : array-like, (count,) or (count, 1)
        Labels as `curvfed.tasks.class_names.class_name` reads them.
    count : int
        The number of examples.
    gaps : bool
        Whether labels may be missing. Their index is −1.

    Raises
    ------
    DataError
        A wrong shape or type, or a missing label.
    """
    labels = np.asarray(classes)
    labels = labels[:, 0] if labels.shape == (count, 1) else labels
    if labels.shape != (count,):
        hint = ": of one-hot codes take argmax(axis=1)" if labels.ndim == 2 else ""
        raise DataError(
            f"{where}: {field} has shape {labels.shape}; allowed is {(count,)}, a class for"
            f" each{hint}",
            key="labels",
        )
    items = labels.tolist()
    try:
        spelled = {label: class_name(label) for label in set(items)}
    except (ValueError, TypeError):  # a list is no key
        raise DataError(
            f"{where}: {field} is {labels.dtype}; allowed are whole numbers or strings",
            key="labels",
        ) from None
    names = in_order([name for name in spelled.values() if name])
    places = {name: place for place, name in enumerate(names)}
    places[""] = -1
    numbers = np.array([places[spelled[label]] for label in items], dtype=np.int64)
    num_missing = int((numbers < 0).sum())
    if num_missing and not gaps:
        raise DataError(
            f"{where}: {num_missing} of {count} entries of {field} are empty; allowed are names",
            key="missing-labels",
        )
    return numbers, tuple(names)

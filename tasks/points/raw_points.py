"""Points with their classes, checked, wherever they come from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.tasks.errors import DataError
from curvfed.tasks.points.client_points import Booleans, Floats, Integers

UNKNOWN = ("", "nan", "NaN")
"""What stands in place of a class that is not known."""


@dataclass(frozen=True, eq=False)
class RawPoints:
    """The points of a file or a data set.

    Attributes
    ----------
    points : (n, 2), float64
        Finite.
    labels : (n,), int64
        Indices into `class_names`; −1 for points whose class is not known. These are predicted, and in no training and no
        score.
    class_names : tuple of str
        In numerical order if all are whole numbers, else in alphabetical order.
    test : (n,), bool, or None
        The data set's own test part, if it has one.
    """

    points: Floats
    labels: Integers
    class_names: tuple[str, ...]
    test: Booleans | None

    def only(self, class_names: Sequence[str]) -> "RawPoints":
        """The points of these classes, renumbered, none of unknown class. A class without points keeps its number."""
        numbers = {name: number for number, name in enumerate(in_order(class_names))}
        # The last entry is that of the label −1.
        labels = np.array([numbers.get(name, -1) for name in self.class_names] + [-1], dtype=np.int64)[self.labels]
        kept = labels >= 0
        return RawPoints(
            self.points[kept], labels[kept], tuple(numbers), self.test[kept] if self.test is not None else None
        )


def in_order(class_names: Sequence[str]) -> list[str]:
    """Each name once, sorted as numbers if all are whole numbers, else alphabetically."""
    names = sorted(set(class_names))
    return sorted(names, key=int) if all(name.removeprefix("-").isdecimal() for name in names) else names


def check_inside(where: str, points: Floats, curvature: float) -> None:
    """Refuse points on or outside the boundary of the disc.

    Raises
    ------
    DataError
        Says how many points these are.
    """
    with np.errstate(over="ignore"):
        outside = int((-curvature * (points * points).sum(axis=1) >= 1).sum())
    if outside:
        raise DataError(
            f"{where}: {outside} of {len(points)} points lie on or outside the boundary of the disc of curvature "
            f"{curvature}; allowed is |curvature|·(x² + y²) < 1. Is points.curvature that of the embedding?"
        )


def raw_points(where: str, coordinates: object, classes: object, what: tuple[str, str]) -> RawPoints:
    """Check the points of one part, and number their classes.

    Parameters
    ----------
    where : str
        The beginning of an error's text.
    coordinates : array-like, (n, 2), of real numbers
    classes : array-like, (n,), of whole numbers or strings; None, NaN or "" where it is not known
    what : tuple of str
        Names of the two in the file.

    Raises
    ------
    DataError
        A wrong shape or type, or a value that is not finite.
    """
    points = np.asarray(coordinates)
    if points.shape == (0,):
        points = points.reshape(0, 2)
    if points.ndim != 2 or points.shape[1] != 2 or points.dtype.kind not in "fiu":
        raise DataError(
            f"{where}: {what[0]} is {points.dtype} of shape {points.shape}; allowed are real numbers of shape (n, 2)"
        )
    labels, class_names = numbered(where, classes, len(points), what[1], gaps=True)
    with np.errstate(over="ignore"):  # values beyond float64 become infinite
        points = points.astype(np.float64)
    wrong = int((~np.isfinite(points).all(axis=1)).sum())
    if wrong:
        raise DataError(f"{where}: {wrong} of {len(points)} rows of {what[0]} are NaN or infinite; allowed are numbers")
    return RawPoints(points, labels, class_names, None)


def unlabelled(where: str, coordinates: NDArray[Any]) -> RawPoints:
    """Points of unknown class. Raises as `raw_points`."""
    return raw_points(where, coordinates, np.full(coordinates.shape[:1], ""), ("coordinates", "classes"))


def numbered(
    where: str, classes: object, count: int, what: str, gaps: bool = False
) -> tuple[Integers, tuple[str, ...]]:
    """The class of each example as an index into the class names, and these names `in_order`.

    Parameters
    ----------
    where, what : str
        As in `raw_points`; `what` is the name of the classes.
    classes : array-like, (count,), of whole numbers, which may be stored as floats, or strings
    count : int
        The number of examples.
    gaps : bool
        Whether None, NaN and "" are allowed. Their index is −1.

    Raises
    ------
    DataError
        A wrong shape or type, or an empty name.
    """
    labels = np.asarray(classes)
    if labels.shape != (count,):
        raise DataError(f"{where}: {what} has shape {labels.shape}; allowed is {(count,)}, a class for each")
    try:
        written = labels.astype(np.str_) if labels.dtype.kind in "iuUS" else _written(labels.tolist())
    except ValueError:
        raise DataError(f"{where}: {what} is {labels.dtype}; allowed are whole numbers or strings") from None
    found, inverse = np.unique(written, return_inverse=True)
    unnamed = int(np.isin(written, UNKNOWN).sum())
    if unnamed and not gaps:
        raise DataError(f"{where}: {unnamed} of {count} entries of {what} are empty; allowed are names")
    names = in_order([name for name in found.tolist() if name not in UNKNOWN])
    places = np.array([names.index(name) if name in names else -1 for name in found], dtype=np.int64)
    return places[inverse.reshape(-1)], tuple(names)


def _written(labels: list[Any]) -> NDArray[np.str_]:
    """The names of strings, or of whole numbers, whatever their type; "" where there is none."""
    known = [one for one in labels if not (one is None or one != one)]
    if not all(isinstance(one, str) for one in known):
        if any(isinstance(one, bool) or not isinstance(one, int | float) or one % 1 for one in known):
            raise ValueError("neither whole numbers nor strings")
        labels = [one if one is None or one != one else int(one) for one in labels]
    return np.array(["" if one is None or one != one else str(one) for one in labels], dtype=np.str_)

"""Points with their classes, checked, wherever they come from."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from curvfed.tasks.class_names import class_name
from curvfed.tasks.errors import DataError
from curvfed.tasks.points.client_points import Booleans, Floats, Integers

INTO_THE_DISC = (
    "curvfed embed makes points in the disc from gene expression in an .h5ad, and a hyperbolic"
    " embedding of your own from other features"
)
"""A hint for data that have no such points."""


@dataclass(frozen=True, eq=False)
class RawPoints:
    """The points of a file or a data set.

    Attributes
    ----------
    points : (n, 2), float64
        Finite.
    labels : (n,), int64
        Indices into `class_names`; −1 for points whose class is not known. These are predicted, and
        in no training and no score.
    class_names : tuple of str
        In numerical order if all are whole numbers, else in alphabetical order.
    test : (n,), bool, or None
        The data set's own test part, if it has one.
    names : sequence of str, (n,)
        The names of the points in the file; empty if they have none.
    left_out : str
        What `only` left out, in words.
    """

    points: Floats
    labels: Integers
    class_names: tuple[str, ...]
    test: Booleans | None
    names: Sequence[str] = ()
    left_out: str = ""

    def only(self, class_names: Sequence[str]) -> "RawPoints":
        """The points of these classes, renumbered, none of unknown class. A class without points
        keeps its number."""
        numbers = {name: number for number, name in enumerate(in_order(class_names))}
        # The last entry is that of the label −1.
        labels = np.array(
            [numbers.get(name, -1) for name in self.class_names] + [-1], dtype=np.int64
        )[self.labels]
        kept = labels >= 0
        unknown = int((self.labels < 0).sum())
        words = (
            f"{unknown} of {len(kept)} points are of unknown class, in no training and no score"
            if unknown
            else ""
        )
        test = self.test[kept] if self.test is not None else None
        return RawPoints(self.points[kept], labels[kept], tuple(numbers), test, left_out=words)


def in_order(class_names: Sequence[str]) -> list[str]:
    """Each name once, sorted as numbers if all are whole numbers, else alphabetically."""
    names = sorted(set(class_names))
    return (
        sorted(names, key=int)
        if all(name.removeprefix("-").isdecimal() for name in names)
        else names
    )


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
            f"{where}: {outside} of {len(points)} points lie on or outside the boundary of the disc"
            f" of curvature {curvature}; allowed is |curvature|·(x² + y²) < 1. Is points.curvature"
            " that of the embedding? UMAP, t-SNE and PCA give points of a plane, not of a disc:"
            f" {INTO_THE_DISC}"
        )


def raw_points(
    where: str,
    coordinates: object,
    classes: object,
    what: tuple[str, str],
    names: Sequence[str] = (),
) -> RawPoints:
    """Check the points of one part, and number their classes.

    Parameters
    ----------
    where : str
        The beginning of an error's text.
    coordinates : array-like, (n, 2), of real numbers
    classes : array-like, (n,), as for `number_labels`; or None: no class is known
    what : tuple of str
        Names of the two in the file.
    names : sequence of str, (n,)
        Of the points, if the file has any.

    Raises
    ------
    DataError
        A wrong shape or type, or a value that is not finite.
    """
    points = np.asarray(coordinates.toarray() if hasattr(coordinates, "toarray") else coordinates)
    if points.shape == (0,):
        points = points.reshape(0, 2)
    if points.ndim != 2 or points.shape[1] != 2 or points.dtype.kind not in "fiu":
        raise DataError(
            f"{where}: {what[0]} is {points.dtype} of shape {points.shape}; allowed are real"
            " numbers of shape (n, 2)"
        )
    if classes is None:
        classes = np.full(len(points), "")
    labels, class_names = number_labels(where, classes, len(points), what[1], gaps=True)
    with np.errstate(over="ignore"):  # values beyond float64 become infinite
        points = points.astype(np.float64)
    wrong = int((~np.isfinite(points).all(axis=1)).sum())
    if wrong:
        raise DataError(
            f"{where}: {wrong} of {len(points)} rows of {what[0]} are NaN or infinite; allowed are"
            " numbers"
        )
    return RawPoints(points, labels, class_names, None, names)


def number_labels(
    where: str, classes: object, count: int, what: str, gaps: bool = False
) -> tuple[Integers, tuple[str, ...]]:
    """The class of each example as an index into the class names, and these names `in_order`.

    Parameters
    ----------
    where, what : str
        As in `raw_points`; `what` is the name of the classes.
    classes : array-like, (count,) or (count, 1), of labels as
    `curvfed.tasks.class_names.class_name` reads them count : int
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
            f"{where}: {what} has shape {labels.shape}; allowed is {(count,)}, a class for"
            f" each{hint}"
        )
    items = labels.tolist()
    try:
        written = {label: class_name(label) for label in set(items)}
    except (ValueError, TypeError):  # a list is no key
        raise DataError(
            f"{where}: {what} is {labels.dtype}; allowed are whole numbers or strings"
        ) from None
    names = in_order([name for name in written.values() if name])
    places = {name: place for place, name in enumerate(names)} | {"": -1}
    numbers = np.array([places[written[label]] for label in items], dtype=np.int64)
    missing = int((numbers < 0).sum())
    if missing and not gaps:
        raise DataError(
            f"{where}: {missing} of {count} entries of {what} are empty; allowed are names"
        )
    return numbers, tuple(names)

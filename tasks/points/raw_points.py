"""Checked points with their classes, from any source."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from curvfed.tasks.class_names import in_order, number_labels
from curvfed.tasks.errors import DataError
from curvfed.tasks.points.client_points import Booleans, Floats, Integers

EMBEDDING_HINT = (
    "curvfed embed computes points in the disc from gene expression in an .h5ad; for other features"
    " use your own hyperbolic embedding"
)
"""A hint for data without points in the disc."""


@dataclass(frozen=True, eq=False)
class RawPoints:
    """The points of a file or a data set.

    Attributes
    ----------
    points : (n, 2), float64
        Finite.
    labels : (n,), int64
        Indices into `class_names`; −1 for points of unknown class, which are predicted, but neither
        trained on nor scored.
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
        """The points of these classes, renumbered, without points of unknown class. A class without
        points keeps its number."""
        numbers = {name: number for number, name in enumerate(in_order(class_names))}
        # The last entry belongs to the label −1.
        new_labels = [*(numbers.get(name, -1) for name in self.class_names), -1]
        labels = np.array(new_labels, dtype=np.int64)[self.labels]
        selected = labels >= 0
        num_unknown = int((self.labels < 0).sum())
        left_out = ""
        if num_unknown:
            left_out = (
                f"{num_unknown} of {len(selected)} points have no known class; training and scores"
                " leave them out"
            )
        return RawPoints(
            points=self.points[selected],
            labels=labels[selected],
            class_names=tuple(numbers),
            test=None if self.test is None else self.test[selected],
            left_out=left_out,
        )


def check_inside(where: str, points: Floats, curvature: float) -> None:
    """Refuse points on or outside the boundary of the disc.

    Raises
    ------
    DataError
        Names the number of these points.
    """
    with np.errstate(over="ignore"):
        num_outside = int((-curvature * (points * points).sum(axis=1) >= 1).sum())
    if num_outside:
        raise DataError(
            f"{where}: {num_outside} of {len(points)} points lie on or outside the boundary of the"
            f" disc of curvature {curvature}; allowed is |curvature|·(x² + y²) < 1. Is"
            " points.curvature that of the embedding? UMAP, t-SNE and PCA give points of a plane,"
            " not of a disc:"
            f" {EMBEDDING_HINT}",
            key="outside-disc",
        )


def raw_points(
    where: str,
    coordinates: object,
    classes: object,
    fields: tuple[str, str],
    names: Sequence[str] = (),
) -> RawPoints:
    """Check points, and number their classes.

    Parameters
    ----------
    where : str
        The beginning of an error's text.
    coordinates : array-like, (n, 2), of real numbers
    classes : array-like, (n,), as for `number_labels`; or None: all classes are unknown
    fields : tuple of str
        Names of coordinates and classes in the file.
    names : sequence of str, (n,)
        Names of the points, if the file has any.

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
            f"{where}: {fields[0]} is {points.dtype} of shape {points.shape}; allowed are real"
            " numbers of shape (n, 2)",
            key="coordinates",
        )
    if classes is None:
        classes = np.full(len(points), "")
    labels, class_names = number_labels(where, classes, len(points), fields[1], gaps=True)
    with np.errstate(over="ignore"):  # values beyond float64 become infinite
        points = points.astype(np.float64)
    num_bad = int((~np.isfinite(points).all(axis=1)).sum())
    if num_bad:
        raise DataError(
            f"{where}: {num_bad} of {len(points)} rows of {fields[0]} are NaN or infinite; allowed"
            " are numbers",
            key="not-finite",
        )
    return RawPoints(points, labels, class_names, None, names)

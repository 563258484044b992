"""Linear and quadratic discriminant analysis (Fisher, 1936) from one secure sum of class moments.

Each client adds, for each class, the number of its points, their sum and the sum of their products,
in the tangent space at the origin (log0): 6 numbers a class in two dimensions. The total gives the
classifier of all points in one place, and no point leaves a client. It is the ordinary federated
baseline by which hulls are judged.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from curvfed.strategies.base.calibration import pack_symmetric, triangle, unpack_symmetric
from curvfed.strategies.base.keys import Table
from curvfed.strategies.base.method import ONE_SHOT, POINTS, Method

Array = NDArray[np.float64]


class Keys(Table):
    """Keys of discriminant analysis."""

    kind: Literal["lda", "qda"] = Field(
        default="qda",
        description="lda: one covariance for all classes; qda: one for each class",
    )


REACH = 16.0
"""Maximum length of a tangent vector in the sums, at curvature -1: longer vectors, of points within
2e-7 of the rim, are shortened to it."""

BOUND = REACH**2
"""Maximum that one point adds to an entry of the sums."""


def length(features: int, classes: int) -> int:
    """Length of a client's vector."""
    return classes * (1 + features + triangle(features))


def class_moments(tangents: Array, labels: NDArray[np.int64], classes: int) -> Array:
    """For each class the number of points, their sum and their products (upper triangle): one
    vector (`length`,).

    Parameters
    ----------
    tangents : array (n, l)
        At curvature -1.
    labels : int array (n,)
        0 to classes - 1.
    """
    norms = np.linalg.norm(tangents, axis=1, keepdims=True)
    short = tangents * np.minimum(1, REACH / np.maximum(norms, 1))
    moments: list[Array] = []
    for label in range(classes):
        points = short[labels == label]
        moments += [np.array([len(points)]), points.sum(axis=0), pack_symmetric(points.T @ points)]
    return np.concatenate(moments)


def scores(total: Array, features: int, kind: str) -> tuple[NDArray[np.int64], Array, Array, Array]:
    """The classes' log probabilities as functions z·q·zᵀ + z·w + b of tangent vectors z, up to a
    constant.

    Priors are the classes' shares, and covariances those of largest likelihood, divided by the
    number of points, as scikit-learn has them at version 1.9: so the classifier is its classifier
    of all points.

    Returns
    -------
    classes : int array (J,)
        The classes with points.
    q : array (J, l, l)
    w : array (J, l)
    b : array (J,)

    Raises
    ------
    ValueError
        If a class has too few points for its own covariance, or there are fewer than two classes.
    """
    rows = total.reshape(-1, 1 + features + triangle(features))
    counts = np.rint(rows[:, 0])
    classes = np.flatnonzero(counts)
    if len(classes) < 2:
        raise ValueError(f"points of {len(classes)} classes; a classifier needs at least two")
    counts = counts[classes]
    rows = rows[classes]
    means = rows[:, 1 : 1 + features] / counts[:, None]
    scatter = np.stack([unpack_symmetric(row[1 + features :], features) for row in rows])
    scatter -= counts[:, None, None] * means[:, :, None] * means[:, None]
    if kind == "lda":
        covariances = np.repeat(
            scatter.sum(axis=0, keepdims=True) / counts.sum(), len(classes), axis=0
        )
    elif (counts <= features).any():
        raise ValueError(
            f"discriminant.kind = qda: a class has {counts.min():.0f} points in all; a covariance"
            f" of its own needs {features + 1}; lda needs no more than one"
        )
    else:
        covariances = scatter / counts[:, None, None]
    inverse = np.linalg.inv(covariances)
    w = np.einsum("jab,jb->ja", inverse, means)
    b = np.log(counts / counts.sum()) - 0.5 * np.einsum("ja,ja->j", w, means)
    b -= 0.5 * np.linalg.slogdet(covariances)[1]
    return classes, -0.5 * inverse * (kind == "qda"), w, b


METHODS = {
    "discriminant": Method(
        "linear or quadratic discriminant analysis from one secure sum of each class's moments",
        space="disc",
        aggregation=ONE_SHOT,
        tasks=POINTS,
        keys={"discriminant": Keys},
    ),
}

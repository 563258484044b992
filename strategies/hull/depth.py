"""The class that contains a point deepest in its hulls, by the median over the clients.

In the Klein model geodesics are straight, and hulls are polygons. The depth of a point in a hull is
its distance from the border there, negative outside. Half of a class's clients must agree before
the median moves, so that a few invented hulls change little, as with the coordinate-wise median of
updates (Yin et al., 2018). It needs no parameter, and clients with many and with few points count
equally.
"""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from curvfed.geometry.arrays import Array, Floats, Integers
from curvfed.geometry.hull import convex_hull, to_klein
from curvfed.geometry.linear_classifiers import checked_points

_CHUNK = 2_000_000  # pairs of points and edges at once: 100 MB


class MedianDepth:
    """Classifier by median depth; `predict` and `predict_proba` are those of scikit-learn.

    Attributes
    ----------
    corners_ : array (n, 2)
        Corners of all hulls in the Poincaré disc.
    owners_ : array (n, 2), float64
        The number of each corner's hull, ascending, and its group.
    classes_ : int array (J,)
        The groups in ascending order.
    C : float
        inf; the depth needs no cost.
    """

    C = float("inf")
    corners_: Floats
    owners_: Floats
    classes_: Array

    def fit(self, vertices: list[Floats], groups: Integers, curvature: float) -> Self:
        """Use the hulls with these corners, (m, 2) each, and these groups (h,)."""
        sizes = list(map(len, vertices))
        self.corners_ = np.concatenate(vertices)
        hull_of_corner = np.repeat(np.arange(len(sizes)), sizes)
        group_of_corner = np.repeat(groups, sizes)
        self.owners_ = np.stack([hull_of_corner, group_of_corner], axis=1).astype(float)
        self.classes_ = np.unique(groups)
        return self.restore(curvature)

    def restore(self, curvature: float) -> Self:
        """Prepare a classifier after its attributes are set.

        Raises
        ------
        ValueError
            If they do not fit together.
        """
        numbers, first = np.unique(self.owners_[:, 0], return_index=True)
        self.groups = self.owners_[first, 1]
        runs = np.flatnonzero(np.diff(self.owners_[:, 0], prepend=-1))
        if len(self.corners_) != len(self.owners_) or len(runs) != len(numbers) or not len(runs):
            raise ValueError("classifier: arrays corners and owners do not fit together")
        if not np.array_equal(np.unique(self.groups), self.classes_):
            raise ValueError("classifier: array owners has other groups than array groups")
        disc = checked_points(self.corners_, curvature) * np.sqrt(-curvature)
        self.hulls = [
            to_klein(corners[convex_hull(corners, -1.0)]) for corners in np.split(disc, runs[1:])
        ]
        self._scale = np.sqrt(-curvature)
        return self

    def depths(self, points: ArrayLike) -> Floats:
        """Median depth of points (n, 2) in the hulls of each group: (n, J)."""
        scaled = np.asarray(points) * self._scale
        of_hull = hull_depths(self.hulls, to_klein(scaled))
        return group_depths(of_hull, self.groups, self.classes_)

    def predict(self, points: ArrayLike) -> Array:
        """Groups (n,); the first of equally deep groups."""
        return self.classes_[self.depths(points).argmax(axis=1)]

    def predict_proba(self, points: ArrayLike) -> Floats:
        """Shares (n, J) by the exponentials of the depths; a temperature makes them
        probabilities.
        """
        shares = np.exp(self.depths(points))
        return np.ascontiguousarray(shares / shares.sum(axis=1, keepdims=True))


def group_depths(of_hull: Floats, groups: Array, classes: Array) -> Floats:
    """Medians (n, J) over the hulls of each group, of depths (n, h); -inf for a group without
    hulls."""
    medians = np.full((len(of_hull), len(classes)), -np.inf)
    for column, label in enumerate(classes):
        if (is_member := groups == label).any():
            medians[:, column] = np.median(of_hull[:, is_member], axis=1)
    return medians


def hull_depths(hulls: list[Floats], points: Floats) -> Floats:
    """Signed Euclidean distance of points from the border of convex polygons, positive inside.

    Parameters
    ----------
    hulls : list of h arrays (m, 2)
        Corners counter-clockwise, such as in the Klein model; one and two corners are allowed.
    points : array (n, 2)

    Returns
    -------
    array (n, h)
    """
    sizes = np.array(list(map(len, hulls)))
    starts = np.cumsum(sizes) - sizes
    begin = np.concatenate(hulls)
    edge = np.concatenate([np.roll(corners, -1, axis=0) - corners for corners in hulls])
    square = np.square(edge).sum(axis=1)
    square[square == 0] = 1
    length = np.sqrt(square)
    depths = np.empty((len(points), len(hulls)))
    step = max(1, _CHUNK // len(begin))
    for begin_row in range(0, len(points), step):
        chunk = points[begin_row : begin_row + step, None]
        x = chunk[..., 0] - begin[:, 0]
        y = chunk[..., 1] - begin[:, 1]
        projection = (x * edge[:, 0] + y * edge[:, 1]) / square
        along = np.clip(projection, 0, 1)
        off_x = x - along * edge[:, 0]
        off_y = y - along * edge[:, 1]
        far = np.square(off_x) + np.square(off_y)
        inward = (edge[:, 0] * y - edge[:, 1] * x) / length
        inside = (np.minimum.reduceat(inward, starts, axis=1) >= 0) & (sizes > 2)
        distance = np.sqrt(np.minimum.reduceat(far, starts, axis=1))
        depths[begin_row : begin_row + step] = np.where(inside, distance, -distance)
    return depths

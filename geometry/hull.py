"""Convex hulls in the Poincaré disc, and hulls with fewer corners.

Geodesics are straight in the Klein model, so the corners of a hyperbolic hull are those of a
Euclidean hull in this model. (The literature scans the points by logarithms at each corner instead:
Pan et al., Algorithms 1 and 2.)

Everything here is NumPy in float64. Internally, all points are scaled to the unit disc, of
curvature −1.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from curvfed.geometry.arguments import magnitude
from curvfed.geometry.arrays import Booleans, Floats, Indices

Points = Floats

_EPS = float(np.finfo(np.float64).eps)
_DEFECT = 1e-7  # smallest 1 − |c|‖x‖² at which the Klein coordinates still tell points apart
# distance of a Klein point from its edge that rounding explains, in units of the largest coordinate
_ROUNDING = 8 * _EPS
_SAMPLED = 2000  # with more points, it saves time to examine a sample first
_SAMPLE_STEP = 16
_CELLS = 4096
_POWERS = 0.1, 2.0  # from points near the corners of a hull to points near its centre


def convex_hull(points: ArrayLike, curvature: float) -> Indices:
    """Extreme points of the hyperbolic convex hull, counter-clockwise.

    Parameters
    ----------
    points : array (n, 2)
        In the Poincaré disc; n may be 0.
    curvature : float

    Returns
    -------
    array (m,), intp
        Indices of the corners, starting with the lexicographically smallest (by x, then y). The
        first index stands for all equal points. No corner lies on the edge between others: one
        point, or n equal points, give 1 index; points on one geodesic give its two ends.

    Raises
    ------
    ValueError
        If the shape is wrong, a coordinate is not finite, or a point lies on, outside or within
        5e-8/√|c| of the boundary, |c|‖x‖² > 1 − 1e-7.

    Notes
    -----
    With r the largest √|c|·distance from the origin, a point that protrudes by less than
    8·eps·cosh(r)²/√|c| counts as lying on the edge. This is the rounding error in the Klein model:
    2e-7/√|c| at r = 10 and 0.7/√|c| at r = 17.5, where points are refused. A wrong corner lies no
    farther inside than that either.

    Qhull finds the candidates. Their upper and lower hulls, along the x axis, need no special case
    for few or collinear points. With many points, a sample is examined first, and points inside its
    hull are not passed to Qhull.

    Examples
    --------
    >>> convex_hull([[0.5, 0.0], [0.0, 0.5], [0.0, 0.1], [-0.5, 0.0]], curvature=-1.0)
    array([3, 0, 1])
    """
    disc = _checked(points, curvature)
    if len(disc) < 2:
        return np.arange(len(disc))
    klein = to_klein(disc)
    lower, upper = _chains(klein)
    if lower.size > 1:
        corners = np.concatenate([lower[:-1], upper[:-1]])
    else:
        corners = lower
    if corners.size > 2:
        rounding = _ROUNDING * float(np.abs(klein[corners]).max())

        def is_on_edge(num: int, prominence: float) -> bool:
            return num > 2 and prominence <= rounding

        corners = corners[_drop(klein[corners], _prominence, is_on_edge)]
    x, y = disc[corners].T
    first = int(np.lexsort((y, x))[0])
    return np.roll(corners, -first)


def thin(points: ArrayLike, curvature: float, cap: int) -> Indices:
    """Reduce a hull to at most `cap` corners with little loss of area.

    The corner that forms the smallest hyperbolic triangle with its neighbours is removed, until
    `cap` remain. Each triangle is cut off the hull, so the result lies inside it. The triangles of
    the last three corners are equal: the two corners farthest apart remain, and of two the first.

    Parameters
    ----------
    points : array (n, 2)
        Corners of a hull in the Poincaré disc, counter-clockwise.
    curvature : float
    cap : int
        At least 1.

    Returns
    -------
    array (min(n, cap),), intp
        Ascending indices into `points`.

    Raises
    ------
    ValueError
        If `cap` is below 1, and as `convex_hull`.

    Examples
    --------
    >>> thin([[-0.5, 0.0], [0.0, -0.1], [0.5, 0.0], [0.0, 0.5]], curvature=-1.0, cap=3)
    array([0, 2, 3])
    """
    if cap < 1:
        raise ValueError(f"thin: a cap of {cap} corners; it must be at least 1")
    disc = _checked(points, curvature)
    if len(disc) <= cap:
        return np.arange(len(disc))
    remaining = _drop(disc, _area, lambda num, _: num > max(cap, 3))
    if cap < min(remaining.size, 3):
        following = np.roll(remaining, -1)
        sides = np.abs(_translated(disc[following], disc[remaining]))
        first = int(sides.argmax())
        farthest = np.sort([remaining[first], following[first]])
        remaining = farthest[:cap]
    return remaining


def points_within(
    corners: ArrayLike, curvature: float, num: int, rng: np.random.Generator
) -> Points:
    """Random points of a hyperbolic hull on the geodesics from its centre to its corners, denser
    near the centre.

    The centre is the midpoint of the corners in the hyperboloid model. The share of the way is U^p,
    with U uniform in [0, 1] and p uniform in [0.1, 2], because the density of points in a hull is
    unknown; p = 1/2 is uniform in a flat disc. An isometry of the disc moves the hull and the
    points alike.

    Parameters
    ----------
    corners : array (m, 2)
        In the Poincaré disc, m ≥ 1, in any order.
    curvature : float
    num : int
    rng : numpy.random.Generator

    Returns
    -------
    array (num, 2)

    Raises
    ------
    ValueError
        Without corners, and as `convex_hull`.

    Examples
    --------
    >>> corners = [[0.5, 0.0], [0.0, 0.5], [-0.5, 0.0]]
    >>> points = points_within(corners, curvature=-1.0, num=100, rng=np.random.default_rng(0))
    >>> convex_hull([*corners, *points], curvature=-1.0)  # all points lie between the corners
    array([2, 0, 1])
    """
    disc = _checked(corners, curvature)
    if not len(disc):
        raise ValueError("points_within: a hull of 0 corners; at least 1 is needed")
    defect = 1 - _square(disc)[:, None]
    space = 2 * (disc / defect).sum(axis=0, keepdims=True)
    time = (2 / defect - 1).sum()
    centre = from_klein(space / time)
    from_centre = _translated(disc, centre)
    ways = from_centre[rng.integers(len(disc), size=num)]
    length = np.maximum(np.abs(ways), _EPS)
    share = rng.random(num) ** rng.uniform(*_POWERS, num)
    inside = ways / length * np.tanh(np.arctanh(length) * share)
    moved = _translated(_coordinates(inside), -centre)
    scale = math.sqrt(float(magnitude(curvature)))
    return _coordinates(moved) / scale


def to_klein(disc: Points) -> Points:
    """Points (n, 2) of the closed unit disc in the Klein model, 2x/(1 + ‖x‖²), where geodesics are
    straight.

    Relative error of every coordinate ≤ 4·eps.
    """
    stretch = 2 / (1 + _square(disc))
    return disc * stretch[:, None]


def from_klein(klein: Points) -> Points:
    """The inverse of `to_klein`, x/(1 + √(1 − ‖x‖²)); points that rounding moved out of the disc
    count as boundary points.

    Relative error of every coordinate ≤ 4·cosh(r)·eps, r the distance from the origin.
    """
    root = np.sqrt(np.maximum(1 - _square(klein), 0))
    return klein / (1 + root)[:, None]


def _checked(points: ArrayLike, curvature: float) -> Points:
    """The points scaled to the unit disc. A ValueError reports the number of wrong points, but no
    coordinates."""
    scale = math.sqrt(float(magnitude(curvature)))
    coordinates = np.asarray(points, dtype=np.float64)
    if coordinates.ndim != 2 or coordinates.shape[1] != 2:
        raise ValueError(f"hull: points of shape {coordinates.shape}; it must be (n, 2)")
    with np.errstate(over="ignore", invalid="ignore"):
        disc = coordinates * scale
        square = _square(disc)
    if not (square <= 1 - _DEFECT).all():  # NaN is not
        is_finite = np.isfinite(coordinates).all(axis=1)
        wrong = int((~is_finite).sum())
        outside = int((square >= 1).sum())
        near = int((square > 1 - _DEFECT).sum()) - outside
        raise ValueError(
            f"hull: of {len(coordinates)} points {wrong} are not finite, {outside} lie on or"
            f" outside the boundary of the disc of curvature {curvature} and"
            f" {near} within 5e-8 of its radius, where"
            f" float64 cannot tell them apart; |c|·‖x‖² must be ≤ 1 − {_DEFECT:g}"
        )
    return disc


def _square(points: Points) -> Points:
    """‖x‖² per row. Unlike a matrix product, this rounds equal rows equally."""
    x, y = points.T
    return x * x + y * y


def _chains(points: Points) -> tuple[Indices, Indices]:
    """The lower hull from the leftmost point to the rightmost, and the upper one back; first
    indices of duplicates."""
    order = _candidates(points)
    x, y = points[order].T
    order = order[np.lexsort((order, y, x))]
    differs = (np.diff(points[order], axis=0) != 0).any(axis=1)
    order = order[np.append(True, differs)]
    lower = _turning_left(points, order)
    upper = _turning_left(points, order[::-1])
    return lower, upper


def _turning_left(points: Points, order: Indices) -> Indices:
    """The points at which the path along `order`, sorted by x, turns left, with its first and last
    point.

    Any other point lies above the line between two points, so all of these are removed at once, and
    the new path is checked again. Candidates are nearly all corners: two or three rounds suffice.
    """
    while True:
        x, y = np.diff(points[order], axis=0).T
        keep = np.ones(order.size, dtype=bool)
        ahead = x[:-1] * y[1:]
        behind = y[:-1] * x[1:]
        keep[1:-1] = ahead > behind
        if keep.all():
            return order
        order = order[keep]


def _candidates(points: Points) -> Indices:
    """Indices of all corners, of points equal to them, and of some other points."""
    from scipy.spatial import ConvexHull, QhullError

    among = np.arange(len(points))
    if among.size > _SAMPLED:
        sample = points[::_SAMPLE_STEP]
        lower, upper = _chains(sample)
        inside = _between(points, sample[lower], sample[upper])
        among = np.flatnonzero(~inside)
    if among.size < 3:
        return among
    try:
        hull = ConvexHull(points[among], qhull_options="Qt Qc")
    except QhullError:  # all points are nearly on one line
        return among
    on_hull = np.concatenate([hull.vertices, hull.coplanar[:, 0]])
    return among[on_hull]


def _between(points: Points, lower: Points, upper: Points) -> Booleans:
    """Whether points certainly lie above a lower hull and below an upper hull; it may be False for
    points near them."""
    x, y = points.T
    start = lower[0, 0]
    end = lower[-1, 0]
    if end - start < _EPS:
        return np.zeros(len(points), dtype=bool)
    # Cells 1 to _CELLS lie between start and end, cells 0 and _CELLS + 1 outside.
    place = (x - start) * (_CELLS / (end - start)) + 1
    cell = np.clip(place, 0, _CELLS + 1).astype(np.intp)
    grid = np.linspace(start, end, _CELLS + 1)
    largest = float(np.abs(lower).max() + np.abs(upper).max())
    rounding = _ROUNDING * largest
    floor = _top(np.interp(grid, *lower.T))
    negative_ceiling = _top(-np.interp(grid, *upper[::-1].T))
    above = y > floor[cell] + rounding
    below = y < -negative_ceiling[cell] - rounding
    return above & below


def _top(heights: Points) -> Points:
    """Maximum of a convex function over each cell and its neighbours, infinite outside the
    grid."""
    padded = np.pad(heights, 2, constant_values=np.inf)
    return np.maximum(padded[:-3], padded[3:])


Size = Callable[[Points, Points, Points], Points]


def _drop(corners: Points, size: Size, goes_on: Callable[[int, float], bool]) -> Indices:
    """Remove the corner that forms the smallest triangle with its neighbours, while `goes_on` is
    true for the number of corners and this triangle's size."""
    remaining = np.arange(len(corners))
    previous = np.roll(corners, 1, axis=0)
    following = np.roll(corners, -1, axis=0)
    sizes = size(previous, corners, following)
    while goes_on(remaining.size, sizes.min()):
        smallest = int(sizes.argmin())
        remaining = np.delete(remaining, smallest)
        sizes = np.delete(sizes, smallest)
        neighbours = np.array([smallest - 1, smallest]) % remaining.size
        before, corner, after = (
            corners[remaining[(neighbours + step) % remaining.size]] for step in (-1, 0, 1)
        )
        sizes[neighbours] = size(before, corner, after)
    return remaining


def _prominence(before: Points, corner: Points, after: Points) -> Points:
    """Distance of corners from the segment between their neighbours, hence from the hull without
    them.

    The distance from the line would not do: the ends of a sliver are as near to lines between other
    points as all its points are.
    """
    side = after - before
    edge = corner - before
    square = _square(side)
    along = (edge * side).sum(axis=1)
    share = np.divide(along, square, out=np.zeros_like(square), where=square > 0)
    nearest = np.clip(share, 0, 1)[:, None] * side
    apart = edge - nearest
    return np.hypot(*apart.T)


def _area(before: Points, corner: Points, after: Points) -> Points:
    """Hyperbolic area of triangles, positive where they turn left.

    With a corner at the origin and the others u, v as complex numbers, it is 2·arg(1 − uv̄). The
    difference of π and the three angles would lose the area of small triangles to rounding.
    """
    product = np.conj(_translated(after, corner)) * _translated(before, corner)
    return 2 * np.arctan2(product.imag, 1 - product.real)


def _translated(points: Points, origin: Points) -> NDArray[np.complex128]:
    """Points after the translation that takes `origin` to 0, (z − a)/(1 − āz), as complex
    numbers.
    """
    z = points[:, 0] + 1j * points[:, 1]
    a = origin[:, 0] + 1j * origin[:, 1]
    apart = z - a
    # 1 − āz = 1 − |a|² − ā(z − a), without cancellation near the boundary; 1 − |a|² is as exact as
    # the coordinates.
    divisor = 1 - _square(origin) - np.conj(a) * apart
    return apart / divisor


def _coordinates(points: NDArray[np.complex128]) -> Points:
    return np.stack([points.real, points.imag], axis=1)

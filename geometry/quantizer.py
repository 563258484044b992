"""Maps points of the Poincaré disc to numbered bins and back: concentric rings of equal width or
equal area, divided into sectors of equal angle.

Everything here is NumPy; coordinates are float64, bins uint64.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from curvfed.geometry.arguments import magnitude
from curvfed.geometry.arrays import Floats

Points = Floats
Bins = NDArray[np.uint64]

MOST_BINS = 2**62
# half a sector is then 1e-14, a few times the rounding error of an angle, encoded and decoded
MOST_SECTORS = 2**48
# rounding may leave a point that `clamp` has moved to the radius outside it by this factor
_SLACK = 1 + 4 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class PoincareQuantizer:
    """Bins of nearby points, for points of the disc up to a radius.

    The rings are at most `epsilon`/2 wide, and the arcs of the outermost circle at most `epsilon`/2
    long. Hence, in hyperbolic distance, a point is at most `epsilon`/√8 from the centre of its bin,
    and two points of a bin are at most `epsilon`/√2 apart: with s = 1/√|c|, sinh²(d/2s) is at most
    sinh²(Δ/2s) + (Δ/2s)² ≤ 2·sinh²(Δ/2s), Δ the larger of width and arc between the points, and
    asinh(√2·sinh t) ≤ √2·t.

    Bins are numbered from 1, ring by ring outwards, and counter-clockwise from angle 0 within a
    ring. A bin includes its inner border and the border of the smaller angle; the last ring also
    includes the outermost circle. ``encode(decode(b)) == b`` for every bin.

    With `equal_area` there are as many rings and sectors, and all bins have one area; a bin's
    centre divides it into four parts of one area. In the bounds above, the width of the innermost
    and widest ring, 2s·asinh(sinh(ρ/2s)/√rings), takes the place of ε/2 if it is larger.

    Parameters
    ----------
    epsilon : float
        A distance, > 0.
    radius : float
        A Euclidean norm, 0 < radius < 1/√|c|.
    curvature : float
    equal_area : bool

    Raises
    ------
    ValueError
        If a parameter is out of its range, or there would be more than 2^62 bins or 2^48 sectors:
        float64 cannot tell their angles apart, nor, near the boundary, the radii of so many rings.

    Notes
    -----
    Pan et al., Section 5.2; with `equal_area` Appendix C. In Eq. 11 the numbers of bins must be
    rounded up, and a ring's borders are those of n₂, not n₁.

    Examples
    --------
    >>> quantizer = PoincareQuantizer(epsilon=0.1, radius=0.9, curvature=-1.0)
    >>> quantizer.num_bins
    70269
    >>> bins = quantizer.encode([[0.5, 0.2]])
    >>> quantizer.decode(bins).round(1)
    array([[0.5, 0.2]])
    """

    epsilon: float
    radius: float
    curvature: float
    equal_area: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < math.inf:
            raise ValueError(
                f"quantizer: epsilon {self.epsilon}; it must be a positive, finite distance"
            )
        if not 0 < self._unit_radius < 1:
            raise ValueError(
                f"quantizer: radius {self.radius}; it must be > 0 and < 1/√|c|, the radius of the"
                f" disc of curvature {self.curvature}"
            )
        if self._sectors > MOST_SECTORS:
            raise ValueError(
                f"{self} has more than 2^48 sectors, which float64 cannot tell apart; epsilon must"
                " be larger"
            )
        if self.num_bins > MOST_BINS:
            raise ValueError(f"{self} has more than 2^62 bins; epsilon must be larger")

    @property
    def num_rings(self) -> int:
        """⌈2ρ/ε⌉, ρ the hyperbolic radius."""
        return max(1, math.ceil(2 * self._scale * self._reach / self.epsilon))

    @property
    def num_sectors(self) -> int:
        """⌈2C/ε⌉, C the circumference."""
        return max(1, math.ceil(self._sectors))

    @property
    def num_bins(self) -> int:
        """`num_rings` · `num_sectors`."""
        return self.num_rings * self.num_sectors

    def encode(self, points: ArrayLike) -> Bins:
        """Bins of points.

        Parameters
        ----------
        points : array (n, 2)

        Returns
        -------
        array (n,), uint64
            From 1 to `num_bins`.

        Raises
        ------
        ValueError
            If the shape is wrong, a coordinate is not finite or a point lies beyond the radius.
        """
        xy, norm = _with_norm(points)
        beyond = int((norm > self.radius * _SLACK).sum())
        if beyond:
            raise ValueError(
                f"quantizer: {beyond} of {len(xy)} points lie beyond the radius {self.radius}"
            )
        unit = np.minimum(norm / self._scale, self._unit_radius)
        share: Points
        if self.equal_area:
            share = _sinh_squared(unit) / _sinh_squared(self._unit_radius)
        else:
            share = 2 * np.arctanh(unit) / self._reach
        ring = np.floor(share * self.num_rings)
        ring = np.minimum(ring, self.num_rings - 1)
        # Angles in (−π, π], so that one just below 0 counts down from the last sector and cannot
        # round up to 2π.
        turn = np.arctan2(xy[:, 1], xy[:, 0]) / (2 * math.pi)
        sector = np.floor(turn * self.num_sectors).astype(np.int64) % self.num_sectors
        before = ring.astype(np.uint64) * np.uint64(self.num_sectors)
        return before + sector.astype(np.uint64) + np.uint64(1)

    def decode(self, bins: ArrayLike) -> Points:
        """Centres of bins, halfway in radius and in angle.

        Parameters
        ----------
        bins : array (n,) of integers

        Returns
        -------
        array (n, 2), float64

        Raises
        ------
        ValueError
            If the shape is wrong, or a bin is not an integer in 1..`num_bins`.
        """
        indices = np.asarray(bins)
        if indices.ndim != 1 or (indices.size and indices.dtype.kind not in "iu"):
            raise ValueError(
                f"quantizer: bins of shape {indices.shape} and type {indices.dtype}; they must be"
                " (n,) integers"
            )
        is_outside = (indices < 1) | (indices > self.num_bins)
        wrong = int(is_outside.sum())
        if wrong:
            raise ValueError(
                f"quantizer: {wrong} of {indices.size} bins are not in 1..{self.num_bins}"
            )
        numbers = indices.astype(np.uint64) - np.uint64(1)
        ring, sector = np.divmod(numbers, np.uint64(self.num_sectors))
        ring_centre = ring.astype(np.float64) + 0.5
        if self.equal_area:
            area = ring_centre / self.num_rings * _sinh_squared(self._unit_radius)
            norm = self._scale * np.sqrt(area / (1 + area))
        else:
            half_radial = ring_centre / self.num_rings * self._reach / 2
            norm = self._scale * np.tanh(half_radial)
        sector_centre = sector.astype(np.float64) + 0.5
        angle = sector_centre / self.num_sectors * (2 * math.pi)
        direction = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        return norm[:, None] * direction

    def clamp(self, points: ArrayLike) -> tuple[Points, int]:
        """Move points of the disc beyond the radius back to it, along their rays.

        Parameters
        ----------
        points : array (n, 2)

        Returns
        -------
        points : array (n, 2), float64
        moved : int
            The number of points that were beyond the radius.

        Raises
        ------
        ValueError
            If the shape is wrong, a coordinate is not finite or a point is not in the disc.
        """
        xy, norm = _with_norm(points)
        outside = int((norm / self._scale >= 1).sum())
        if outside:
            raise ValueError(
                f"quantizer: {outside} of {len(xy)} points lie on or outside the boundary of the"
                f" disc of curvature {self.curvature}"
            )
        beyond = norm > self.radius * _SLACK
        factor = np.where(beyond, self.radius / np.maximum(norm, self.radius), 1.0)
        return xy * factor[:, None], int(beyond.sum())

    @property
    def _scale(self) -> float:
        """The radius of the disc, 1/√|c|."""
        return 1 / math.sqrt(float(magnitude(self.curvature)))

    @property
    def _unit_radius(self) -> float:
        return self.radius / self._scale

    @property
    def _reach(self) -> float:
        """√|c| times the hyperbolic radius; Eq. 9."""
        return 2 * math.atanh(self._unit_radius)

    @property
    def _sectors(self) -> float:
        """2C/ε with C = 2π·sinh(√|c|ρ)/√|c| (Eq. 10), where sinh is of 2·artanh."""
        unit = self._unit_radius
        sinh = 2 * unit / ((1 - unit) * (1 + unit))
        return 4 * math.pi * self._scale * sinh / self.epsilon


def _sinh_squared(unit: Any) -> Any:
    """sinh² of half the hyperbolic norm, from the norm in the unit disc. The area of the circle in
    curvature −1 is 4π times as much (Eq. 15)."""
    return unit * unit / ((1 - unit) * (1 + unit))


def _with_norm(points: ArrayLike) -> tuple[Points, Points]:
    """Points and their Euclidean distances from the origin."""
    xy = np.asarray(points, dtype=np.float64) + 0.0  # turns −0, with angle π, into 0
    if xy.ndim != 2 or xy.shape[1] != 2:
        raise ValueError(f"quantizer: points of shape {xy.shape}; it must be (n, 2)")
    is_finite = np.isfinite(xy).all(axis=1)
    wrong = int((~is_finite).sum())
    if wrong:
        raise ValueError(f"quantizer: {wrong} of {len(xy)} points are not finite")
    return xy, np.hypot(*xy.T)

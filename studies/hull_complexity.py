"""How the number of corners of a quantised convex hull grows with the number of points: Theorem 5.2
of the paper on hulls.

    python -m studies.hull_complexity > docs/measured/hull-complexity.md

writes the page; minutes. It needs no data.
"""

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry.hull import convex_hull
from curvfed.geometry.quantizer import PoincareQuantizer
from curvfed.tasks.generated import uniform_points

CURVATURE = -1.0
RADIUS = 0.95
SIZES = (1000, 4000, 16_000, 64_000)
SETS = 10
"""Sets of points for each size and exponent."""

FACTOR = 20.0
"""ε = FACTOR · N⁻ᶜ: as large as the disc for a thousand points and c = .4."""

EXPONENTS = (0.25, 0.4, 0.6, 0.8)
"""c; None stands for points that are not quantised."""

ABOUT = """\
# Corners of quantised hulls

    python -m studies.hull_complexity > docs/measured/hull-complexity.md

writes this page. Theorem 5.2 of [the paper on hulls](../results/hull.md): of N points, uniform in a disc of the Poincaré
ball and quantised with ε = O(N⁻ᶜ), the convex hull has on average at most O(N^b) corners, b = c below 1/2, 1 − c from
there to 2/3, and 1/3 above, which is also the bound without quantisation. Rings of equal width are those of Section 5.2,
rings of equal area those of Appendix C, as many of them.

Here the disc has the Euclidean radius .95 and the curvature −1, and ε = 20 N⁻ᶜ. The exponent is the slope of log corners
over log N by least squares, mean ± standard error over ten families of sets, one set of each size in each; the last
exponent is the slope of the means from 16,000 to 64,000 points.

| c, rings of equal | corners at N = 1000 | 4000 | 16,000 | 64,000 | exponent | last exponent | b |
| --- | --- | --- | --- | --- | --- | --- | --- |"""


def bound(exponent: float | None) -> float:
    """b of the theorem."""
    if exponent is None or exponent > 2 / 3:
        return 1 / 3
    return exponent if exponent < 1 / 2 else 1 - exponent


def num_corners(points: NDArray[np.float64], exponent: float | None, equal_area: bool) -> int:
    """The number of corners of the hull of points (N, 2), quantised where there is an exponent."""
    if exponent is not None:
        epsilon = FACTOR * len(points) ** -exponent
        quantizer = PoincareQuantizer(epsilon, RADIUS * (1 + 1e-7), CURVATURE, equal_area)
        points = np.unique(quantizer.decode(np.unique(quantizer.encode(points))), axis=0)
    return len(convex_hull(points, CURVATURE))


def slopes(corners: NDArray[np.float64]) -> NDArray[np.float64]:
    """The exponents (S,) of S families of sets, from their numbers of corners (S, sizes)."""
    fitted: NDArray[np.float64] = np.polyfit(np.log(SIZES), np.log(corners).T, 1)[0]
    return fitted


def main() -> None:
    """Write the page."""
    rng = np.random.default_rng(0)
    families = [
        [uniform_points(size, RADIUS, CURVATURE, rng) for size in SIZES] for _ in range(SETS)
    ]
    print(ABOUT)
    quantised = [(exponent, is_area) for is_area in (False, True) for exponent in EXPONENTS]
    for exponent, is_area in [(None, False), *quantised]:
        corners = np.array(
            [[num_corners(points, exponent, is_area) for points in family] for family in families]
        )
        fitted = slopes(corners)
        error = fitted.std(ddof=1) / SETS**0.5
        means = corners.mean(axis=0)
        last = np.log(means[-1] / means[-2]) / np.log(SIZES[-1] / SIZES[-2])
        cells = " | ".join(f"{mean:.1f}" for mean in means)
        kind = "area" if is_area else "width"
        label = "not quantised" if exponent is None else f"{exponent:g}, {kind}"
        slope = f"{fitted.mean():.3f} ± {error:.3f} | {last:.3f} | {bound(exponent):.3f}"
        print(f"| {label} | {cells} | {slope} |")


if __name__ == "__main__":
    main()

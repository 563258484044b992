"""The maps to 80 digits, by the textbook's formulas in mpmath, and their condition."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import mpmath
from mpmath import mpf

DIGITS, WAKE_UP, DRAWS = 80, mpf(10) ** -40, 2

Vector = list[mpf]


@dataclass(frozen=True)
class Exact:
    """One result.

    Attributes
    ----------
    vector : list of mpf
    size : mpf
        Its norm, or of Σxᵢyᵢ the Σ|xᵢyᵢ|, which errors are shares of.
    condition : float
        By how many times δ of `size` it moves when coordinates of the arguments move by ±δ of
        theirs: the most of a few draws of the signs.
    """

    vector: Vector
    size: mpf
    condition: float

    def errors(self, got: Sequence[float]) -> tuple[float, float]:
        """The relative error of a result, infinite where that is not finite, and the condition."""
        if not all(math.isfinite(value) for value in got):
            return math.inf, self.condition
        with mpmath.workdps(DIGITS):
            return (
                float(_norm(_sum(1, [mpf(value) for value in got], -1, self.vector)) / self.size),
                self.condition,
            )


def exact_results(
    space: str, name: str, curvature: float, arguments: Sequence[list[list[float]]]
) -> list[Exact]:
    """An operation of `geometry.poincare` or `geometry.lorentz` on rows of coordinates."""
    with mpmath.workdps(DIGITS):
        model = Ball(curvature) if space == "poincare" else Hyperboloid(curvature)
        signs, outcome = random.Random(0), []
        for row in zip(*arguments, strict=True):
            given = [[mpf(value) for value in vector] for vector in row]
            result = getattr(model, name)(*given)
            size = (
                mpmath.fsum(abs(p * q) for p, q in zip(*given))
                if name == "inner"
                else _norm(result)
            )
            moves = []
            for _ in range(DRAWS):
                moved = [
                    [value * (1 + signs.choice((-1, 1)) * WAKE_UP) for value in vector]
                    for vector in given
                ]
                moves.append(
                    _norm(_sum(1, getattr(model, name)(*moved), -1, result)) / size / WAKE_UP
                )
            outcome.append(Exact(result, size, float(max(moves))))
        return outcome


class Ball:
    """The Poincaré ball.

    Parameters
    ----------
    curvature : float
    """

    def __init__(self, curvature: float) -> None:
        self._c = -mpf(curvature)
        self._radius = 1 / mpmath.sqrt(self._c)

    def dist(self, x: Vector, y: Vector) -> Vector:
        apart = _sum(1, y, -1, x)
        return [
            self._radius
            * mpmath.acosh(
                1 + 2 * self._c * _dot(apart, apart) / (self._defect(x) * self._defect(y))
            )
        ]

    def exp0(self, v: Vector) -> Vector:
        n = _norm(v) / self._radius
        return _times(mpmath.tanh(n) / n, v)

    def log0(self, x: Vector) -> Vector:
        n = _norm(x) / self._radius
        return _times(mpmath.atanh(n) / n, x)

    def exp(self, x: Vector, u: Vector) -> Vector:
        return self.mobius_add(x, self.exp0(_times(1 / self._defect(x), u)))

    def log(self, x: Vector, y: Vector) -> Vector:
        return _times(self._defect(x), self.log0(self.mobius_add(_times(-1, x), y)))

    def mobius_add(self, x: Vector, y: Vector) -> Vector:
        xx, yy, xy = (self._c * _dot(a, b) for a, b in ((x, x), (y, y), (x, y)))
        return _times(1 / (1 + 2 * xy + xx * yy), _sum(1 + 2 * xy + yy, x, 1 - xx, y))

    def project(self, x: Vector) -> Vector:
        """Itself: a point of the ball."""
        return x

    def _defect(self, x: Vector) -> mpf:
        return 1 - self._c * _dot(x, x)


class Hyperboloid:
    """The Lorentz model: time coordinates are those over the given space coordinates, but for
    `inner`.

    Parameters
    ----------
    curvature : float
    """

    def __init__(self, curvature: float) -> None:
        self._square = -1 / mpf(curvature)
        self._radius = mpmath.sqrt(self._square)

    def dist(self, x: Vector, y: Vector) -> Vector:
        return [self._radius * mpmath.acosh(self._cosh(self.project(x), self.project(y)))]

    def exp0(self, v: Vector) -> Vector:
        n = _norm(v) / self._radius
        return [self._radius * mpmath.cosh(n), *_times(mpmath.sinh(n) / n, v)]

    def log0(self, x: Vector) -> Vector:
        n = _norm(x[1:]) / self._radius
        return _times(mpmath.asinh(n) / n, x[1:])

    def exp(self, x: Vector, u: Vector) -> Vector:
        x = self.project(x)
        u = [_dot(u[1:], x[1:]) / x[0], *u[1:]]
        n = mpmath.sqrt(self.inner(u, u)[0]) / self._radius
        return _sum(mpmath.cosh(n), x, mpmath.sinh(n) / n, u)

    def log(self, x: Vector, y: Vector) -> Vector:
        x, y = self.project(x), self.project(y)
        cosh = self._cosh(x, y)
        arc = mpmath.acosh(cosh)
        return _times(arc / mpmath.sinh(arc), _sum(1, y, -cosh, x))

    def inner(self, x: Vector, y: Vector) -> Vector:
        return [_dot(x[1:], y[1:]) - x[0] * y[0]]

    def project(self, x: Vector) -> Vector:
        return [mpmath.sqrt(self._square + _dot(x[1:], x[1:])), *x[1:]]

    def _cosh(self, x: Vector, y: Vector) -> mpf:
        return -self.inner(x, y)[0] / self._square


def _dot(x: Sequence[mpf], y: Sequence[mpf]) -> mpf:
    return mpmath.fdot(x, y)


def _norm(x: Sequence[mpf]) -> mpf:
    return mpmath.sqrt(_dot(x, x))


def _times(factor: mpf, x: Vector) -> Vector:
    return [factor * value for value in x]


def _sum(a: mpf, x: Vector, b: mpf, y: Vector) -> Vector:
    return [a * p + b * q for p, q in zip(x, y, strict=True)]

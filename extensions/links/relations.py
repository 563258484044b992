"""Relations as operators on the two places of a link, in a space of any curvature, 0 or below.

Points are those of the unit ball with their stretches 1/(1 − |x|²), which keep the digits that the
points lose near the boundary. Flat points have none, and each formula at curvature 0 is the limit
of the curved one: x ⊕ y is x + y, and the maps at the origin are the identity.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.extensions.links.charts import Hyperboloid, Normal
from curvfed.extensions.links.rows import (
    chosen_rows,
    quotients_by_number,
    squared_distance,
    squared_distance_by_number,
)
from curvfed.geometry.safe_math import asinhc, root, squared

START = 1e-2


class Place(NamedTuple):
    """Points of the unit ball (..., d) and their stretches (..., 1), or flat points.

    Examples
    --------
    >>> Place(torch.tensor([3.0, 4.0])).stretch is None
    True
    """

    point: Tensor
    stretch: Tensor | None = None

    def of(self, numbers: Tensor) -> "Place":
        """The places (..., d) of rows (n, d) by their numbers (...)."""
        point = chosen_rows(self.point, numbers)
        if self.stretch is None:
            return Place(point)
        return Place(point, chosen_rows(self.stretch, numbers))

    def quotients(self, heads: Tensor, tails: Tensor) -> Tensor:
        """`quotients` (n, m) of the rows by their numbers, (n,) and (n, m)."""
        if self.stretch is None:
            return squared_distance_by_number(self.point, heads, tails)
        return quotients_by_number(self.point, self.stretch, heads, tails)


def quotients(place: Place, target: Place) -> Tensor:
    """|x − y|²/((1 − |x|²)(1 − |y|²)) (n, m) of places (n, 1, d) and (n, m, d) or (1, m, d);
    |x − y|² of flat points.

    Examples
    --------
    >>> half = Place(torch.tensor([0.5]), torch.tensor([4 / 3]))
    >>> quotients(half, Place(torch.zeros(1), torch.ones(1)))
    tensor(0.3333)
    """
    square = squared_distance(place.point, target.point)
    if place.stretch is None or target.stretch is None:
        return square
    return square * (place.stretch * target.stretch).squeeze(-1)


def add(x: Place, y: Place) -> Place:
    """Möbius addition x ⊕ y of the unit ball (Ungar, 2009); x + y of flat points.

    With q = |x + y|²/((1 − |x|²)(1 − |y|²)) the stretch of the sum is 1 + q, a sum of positive
    terms.

    Examples
    --------
    >>> half = Place(torch.tensor([0.5, 0.0]), torch.tensor([4 / 3]))
    >>> add(half, half)
    Place(point=tensor([0.8000, 0.0000]), stretch=tensor([2.7778]))
    """
    total = x.point + y.point
    if x.stretch is None or y.stretch is None:
        return Place(total)
    apart = squared(total) * (x.stretch * y.stretch)
    stretch = apart + 1
    return Place((y.stretch * total + apart * x.point) / stretch, stretch)


def scale(x: Place, factors: Tensor) -> Place:
    """exp₀(R log₀ x) of a diagonal matrix R, at most as far from the origin as rows are; Rx of flat
    points.

    Examples
    --------
    >>> half = Place(torch.tensor([0.5, 0.0]), torch.tensor([4 / 3]))
    >>> scale(half, torch.tensor([2.0, 1.0])).point
    tensor([0.8000, 0.0000])
    """
    if x.stretch is None:
        return Place(factors * x.point)
    ratio = asinhc(root(squared(x.point) * x.stretch)) * x.stretch.sqrt()
    return Place(*Normal().ball(factors * (ratio * x.point)))


def rotate(x: Place, angles: Tensor) -> Place:
    """The rotation of the pairs of coordinates i and i + ⌊d/2⌋ by angles (..., ⌊d/2⌋); an odd last
    coordinate stays.

    Examples
    --------
    >>> rotate(Place(torch.tensor([1.0, 2.0, 3.0])), torch.tensor([math.pi / 2])).point.round()
    tensor([-2.,  1.,  3.])
    """
    number = angles.shape[-1]
    first, second, last = x.point.split([number, number, x.point.shape[-1] - 2 * number], dim=-1)
    cos = angles.cos()
    sin = angles.sin()
    turned = [cos * first - sin * second, sin * first + cos * second]
    return Place(torch.cat([*turned, last], dim=-1), x.stretch)


def placed(rows: Tensor, chart: Hyperboloid | None, unit: float) -> Place:
    """The places of rows in the coordinates of a chart; without one flat rows times the length of a
    unit."""
    if chart is None:
        return Place(unit * rows)
    return Place(*chart.ball(rows))


class Translation(nn.Module):
    """Links by the distance of h ⊕ r and t, with a point r for each relation: TransE at curvature 0
    (Bordes et al., 2013).

    Parameters
    ----------
    num_relations : int
    width : int
        Coordinates of a point.
    chart : Hyperboloid or None
        The coordinates of points and entities; None: flat ones.
    unit : float
        See `placed`.
    generator : torch.Generator
        Of the start.
    """

    def __init__(
        self,
        num_relations: int,
        width: int,
        chart: Hyperboloid | None,
        unit: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        rows = START * torch.randn((num_relations, width), generator=generator)
        self.translations = nn.Parameter(rows)
        self.translations.chart = chart  # type: ignore[attr-defined]
        self._chart = chart
        self._unit = unit
        self.draw(num_relations, width, generator)

    def draw(self, num_relations: int, width: int, generator: torch.Generator) -> None:
        """The start of further parameters; none here."""

    def forward(self, heads: Place, relations: Tensor, tails: Place) -> tuple[Place, Place]:
        """The places of heads (n, 1, d) and tails (n, m, d) or (1, m, d) whose distances score the
        links by relations (n,)."""
        return add(heads, self.steps(relations)), tails

    def steps(self, relations: Tensor) -> Place:
        """The points r (n, 1, d) of relations (n,)."""
        return placed(_rows(relations, self.translations), self._chart, self._unit)


class Rotation(Translation):
    """Links by the distance of Rh ⊕ r and t, with a rotation R for each relation: RotE at curvature
    0, RotH below (Chami et al., 2020, Section 4.2)."""

    def draw(self, num_relations: int, width: int, generator: torch.Generator) -> None:
        """Angles, uniform."""
        shares = torch.rand((num_relations, width // 2), generator=generator)
        self.angles = nn.Parameter((2 * shares - 1) * math.pi)

    def forward(self, heads: Place, relations: Tensor, tails: Place) -> tuple[Place, Place]:
        """See `Translation`."""
        return super().forward(rotate(heads, _rows(relations, self.angles)), relations, tails)


class Diagonal(Translation):
    """Links by the distance of exp₀(R log₀ h) and t ⊕ r, with a diagonal matrix R for each
    relation: MuRE at curvature 0, MuRP below (Balažević et al., 2019, Eqs. 5 and 7)."""

    def draw(self, num_relations: int, width: int, generator: torch.Generator) -> None:
        """Factors, uniform in [−1, 1], as in the authors' code."""
        shares = torch.rand((num_relations, width), generator=generator)
        self.factors = nn.Parameter(2 * shares - 1)

    def forward(self, heads: Place, relations: Tensor, tails: Place) -> tuple[Place, Place]:
        """See `Translation`."""
        scaled = scale(heads, _rows(relations, self.factors))
        return scaled, add(tails, self.steps(relations))


def _rows(relations: Tensor, table: Tensor) -> Tensor:
    """The rows (n, 1, d) of relations (n,)."""
    return F.embedding(relations, table).unsqueeze(1)


OPERATORS = {"translation": Translation, "rotation": Rotation, "diagonal": Diagonal}
"""By the values of `links.relations`."""

"""Embeddings of entities and relations, and the scores of links."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.extensions.links.charts import Hyperboloid, Normal
from curvfed.extensions.links.relations import (
    OPERATORS,
    Place,
    Translation,
    placed,
    quotients,
)
from curvfed.extensions.links.rows import chosen_rows, squared_distance
from curvfed.geometry.safe_math import root

COORDINATES: dict[str, type[Hyperboloid]] = {"normal": Normal, "hyperboloid": Hyperboloid}
"""The coordinates of rows in hyperbolic space, by the name of the model; in flat space both are
Cartesian."""

_VALUES = 2**20  # of a block of scores: 4 MB in float32, which processors have at hand


@dataclass(frozen=True)
class LinkModelSpec:
    """The settings of an embedding.

    Attributes
    ----------
    kind : str
        A key of `MODELS`.
    num_entities, num_relations, dim : int
        `dim` numbers for each entity, its bias among them.
    curvature : float
        Of the space of the rows; negative or 0.
    score : str
        distance: minus the distance; squared: minus its square; inner: the inner product of flat
        space.
    bias : bool
        Whether each entity has a bias, which is added to its score as a tail.
    relations : str
        The operator of each relation in the space of the rows, a key of
        `curvfed.extensions.links.relations.OPERATORS`, or none.
    learns_curvature : bool
        Whether the curvature is a start that training changes.
    """

    kind: str
    num_entities: int
    num_relations: int
    dim: int
    curvature: float = -1.0
    score: str = "distance"
    bias: bool = False
    relations: str = "none"
    learns_curvature: bool = False

    @property
    def min_parameters(self) -> int:
        """The entities' numbers."""
        return self.num_entities * self.dim

    def build(self, seed: int) -> nn.Module:
        """The model with its seeded start; equal on every machine for equal arguments.

        Raises
        ------
        ValueError
            If `dim` leaves no coordinate, or is odd and the model has complex numbers.
        """
        model: nn.Module = MODELS[self.kind](self, torch.Generator().manual_seed(seed))
        return model


def chart_of(kind: str, curvature: float) -> Hyperboloid | None:
    """The coordinates of a model's rows; None for flat rows."""
    if kind not in COORDINATES or not curvature:
        return None
    return COORDINATES[kind](curvature)


class Embedding(nn.Module, ABC):
    """A row of numbers for each entity. Links with a high score are likely.

    Parameters
    ----------
    spec : LinkModelSpec
    generator : torch.Generator
        Of the start.
    """

    start = 1e-2
    has_relations = False
    """Whether scores depend on the relation."""

    def __init__(self, spec: LinkModelSpec, generator: torch.Generator) -> None:
        super().__init__()
        shape = (spec.num_entities, self.width(spec))
        self.entities = nn.Parameter(self.start * torch.randn(shape, generator=generator))

    def width(self, spec: LinkModelSpec) -> int:
        """The coordinates of a row."""
        return spec.dim

    def table(self, entities: Tensor | None = None) -> Tensor:
        """The numbers of entities (m,), or of all, from which scores are computed, (m, k)."""
        if entities is None:
            return self.entities
        return F.embedding(entities, self.entities)

    @abstractmethod
    def compare(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Scores (n, m) of rows of the table, heads (n, 1, k) and tails (n, m, k) or (1, m, k), and
        relations (n,)."""

    def forward(
        self, heads: Tensor, relations: Tensor, tails: Tensor, entities: Tensor | None = None
    ) -> Tensor:
        """Scores (n, m) of links from heads (n,) by relations (n,) to tails (n, m).

        With `entities`, heads and tails are positions in it. Only its rows are computed, which is
        faster where the table is large.
        """
        table = self.table(entities)
        rows = chosen_rows(table, tails)
        return self.compare(chosen_rows(table, heads).unsqueeze(1), relations, rows)

    def distance(self, rows: Tensor, targets: Tensor) -> Tensor:
        """Distances (n, m) between rows of the table, (n, 1, k) and (n, m, k) or (1, m, k)."""
        return root(squared_distance(rows, targets))

    @property
    def num_columns(self) -> int:
        """The columns of the table that give the place of an entity; biases come after them."""
        return self.entities.shape[1]

    def depths(self) -> Tensor:
        """The distance (N,) of each entity from the origin."""
        table = self.table()
        return self.distance(table[:, None], torch.zeros_like(table[:1, None])).squeeze(1)

    @torch.no_grad()
    def blocks(self, heads: Tensor, relations: Tensor | None, tails: Tensor) -> Iterator[Tensor]:
        """Scores (n', m) of links from each head to all of the tails (m,), in blocks of heads;
        without relations their distances."""
        table = self.table()
        rows = table[tails].unsqueeze(0)
        size = max(1, _VALUES // max(rows.numel(), 1))
        for begin in range(0, len(heads), size):
            block = slice(begin, begin + size)
            head_rows = table[heads[block]].unsqueeze(1)
            if relations is None:
                yield self.distance(head_rows, rows)
            else:
                yield self.compare(head_rows, relations[block], rows)


class Rows(Embedding):
    """Entities in a space of curvature c, scored by minus the distance (Nickel & Kiela, 2017, Eq.
    1; 2018, Eq. 5), minus its square (Balažević et al., 2019, Eq. 5), or in flat space the inner
    product; plus a bias of the tail. A relation may move both places before
    (`curvfed.extensions.links.relations`). The papers' bias of the head is left out: it is equal
    for all tails, so neither a choice among them nor a rank depends on it.

    Rows are normal coordinates v, at distance 2|v| from the origin, or space coordinates of the
    hyperboloid (`curvfed.extensions.links.charts`). For c to 0 their distances tend to 2|v − w| and
    |v − w|, which are those at c = 0. A learned curvature is −exp(−2k); the coordinates then are
    those of the curvature from which training starts, and training scales their distances.
    """

    def __init__(self, spec: LinkModelSpec, generator: torch.Generator) -> None:
        self.start = 0.1 if spec.score == "inner" else Embedding.start
        super().__init__(spec, generator)
        self.score = spec.score
        self.chart = chart_of(spec.kind, spec.curvature)
        self.entities.chart = self.chart  # type: ignore[attr-defined]
        self.unit = 2.0 if spec.kind == "normal" and spec.score != "inner" else 1.0
        self.bias = nn.Parameter(torch.zeros(spec.num_entities, 1)) if spec.bias else None
        self.k: nn.Parameter | None = None
        if spec.learns_curvature and spec.curvature:
            self.k = nn.Parameter(torch.tensor(-0.5 * math.log(-spec.curvature)))
        self.operator: Translation | None = None
        if spec.relations in OPERATORS:
            parts = (spec.num_relations, self.num_coordinates, self.chart, self.unit)
            self.operator = OPERATORS[spec.relations](*parts, generator)
        self.has_relations = self.operator is not None

    def width(self, spec: LinkModelSpec) -> int:
        """A number less than `dim` with a bias.

        Raises
        ------
        ValueError
            If that leaves no coordinate.
        """
        if spec.dim <= spec.bias:
            raise ValueError(
                f"embedding-dim = {spec.dim}: allowed with a bias, which is one of the numbers, are"
                " 2 or more"
            )
        return spec.dim - spec.bias

    @property
    def curvature(self) -> float:
        """The sectional curvature."""
        if self.k is not None:
            return -math.exp(-2 * self.k.item())
        if self.chart is None:
            return 0.0
        return -(self.chart.scale**2)

    @property
    def num_coordinates(self) -> int:
        """The first columns of the table, which are coordinates."""
        return self.entities.shape[1]

    @property
    def num_columns(self) -> int:
        """See `Embedding`."""
        return self.num_coordinates + (self.chart is not None)

    def table(self, entities: Tensor | None = None) -> Tensor:
        """Points of the unit ball and 1/(1 − |x|²), or flat rows times the length of a unit; then
        biases."""
        place, bias = self._columns(entities)
        columns = [column for column in (*place, bias) if column is not None]
        if len(columns) > 1:
            return torch.cat(columns, dim=-1)
        return columns[0]

    def _columns(self, entities: Tensor | None) -> tuple[Place, Tensor | None]:
        """The places and the biases of entities, or of all."""
        place = placed(super().table(entities), self.chart, self.unit)
        if self.bias is None or entities is None:
            return place, self.bias
        return place, F.embedding(entities, self.bias)

    def forward(
        self, heads: Tensor, relations: Tensor, tails: Tensor, entities: Tensor | None = None
    ) -> Tensor:
        """See `Embedding`."""
        place, bias = self._columns(entities)
        if self.operator is None and self.score != "inner":
            scores = self._near(place.quotients(heads, tails))
        else:
            scores = self._scores(place.of(heads[:, None]), relations, place.of(tails))
        if bias is None:
            return scores
        return scores + chosen_rows(bias, tails).squeeze(-1)

    def compare(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """See `Embedding`."""
        scores = self._scores(self._place(heads), relations, self._place(tails))
        if self.bias is None:
            return scores
        return scores + tails[..., -1]

    def _scores(self, place: Place, relations: Tensor, target: Place) -> Tensor:
        """Scores (n, m) without biases."""
        if self.operator is not None:
            place, target = self.operator(place, relations, target)
        if self.score == "inner":
            return (target.point @ place.point.mT).squeeze(-1)
        return self._near(quotients(place, target))

    def distance(self, rows: Tensor, targets: Tensor) -> Tensor:
        """See `Embedding`."""
        return self._distance(quotients(self._place(rows), self._place(targets)))

    def _place(self, rows: Tensor) -> Place:
        """The places of rows of the table."""
        end = self.num_coordinates
        if self.chart is None:
            return Place(rows[..., :end])
        return Place(rows[..., :end], rows[..., end : end + 1])

    def _near(self, quotient: Tensor) -> Tensor:
        """Minus the distances or their squares by `quotients`; flat squares are taken without a
        root, which has gradient 0 at equal rows."""
        if self.score == "distance":
            return -self._distance(quotient)
        if self.chart is None:
            return -quotient
        return -self._distance(quotient).square()

    def _distance(self, quotient: Tensor) -> Tensor:
        """Distances by `quotients`."""
        if self.chart is None:
            return root(quotient)
        distance = self.chart.distance(quotient)
        if self.k is None:
            return distance
        return distance * (self.k.exp() * self.chart.scale)

    def depths(self) -> Tensor:
        """See `Embedding`."""
        if self.chart is None:
            return super().depths()
        table = self.table()
        origin = torch.zeros_like(table[:1, None])
        origin[..., self.num_coordinates] = 1
        return self.distance(table[:, None], origin).squeeze(1)


class ComplEx(Embedding):
    """Re⟨h, r, conj(t)⟩ of complex rows, real parts first (Trouillon et al., 2016, Eq. 9)."""

    start = 0.1
    has_relations = True

    def __init__(self, spec: LinkModelSpec, generator: torch.Generator) -> None:
        if spec.dim % 2:
            raise ValueError(f"embedding-dim = {spec.dim}: allowed are even numbers")
        super().__init__(spec, generator)
        shape = (spec.num_relations, self.relation_width(spec.dim))
        self.relations = nn.Parameter(self.start * torch.randn(shape, generator=generator))

    def relation_width(self, dim: int) -> int:
        """The numbers of a relation."""
        return dim

    def compare(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """See `Embedding`."""
        real, imaginary = self.relations[relations].unsqueeze(1).chunk(2, dim=-1)
        turned = _times(heads, real, imaginary)
        return (tails @ turned.mT).squeeze(-1)


class RotatE(ComplEx):
    """−Σ|h·exp(iθ) − t| of complex rows, with angles as relations (Sun et al., 2019, Eq. 3)."""

    def relation_width(self, dim: int) -> int:
        """An angle for each complex number."""
        return dim // 2

    def compare(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """See `Embedding`."""
        angles = self.relations[relations].unsqueeze(1)
        apart = _times(heads, angles.cos(), angles.sin()) - tails
        real, imaginary = apart.chunk(2, dim=-1)
        return -root(real.square() + imaginary.square()).sum(-1)


def _times(rows: Tensor, real: Tensor, imaginary: Tensor) -> Tensor:
    """Complex rows, real parts first, times complex numbers."""
    x, y = rows.chunk(2, dim=-1)
    return torch.cat([x * real - y * imaginary, x * imaginary + y * real], dim=-1)


MODELS: dict[str, type[Embedding]] = {
    "normal": Rows,
    "hyperboloid": Rows,
    "complex": ComplEx,
    "rotate": RotatE,
}
"""The models by name."""

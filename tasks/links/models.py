"""Embeddings of entities and relations, and the scores of links."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.geometry.frames import Hyperboloid, Normal
from curvfed.geometry.safe_math import asinh_root, root

CURVED = {"poincare": Normal(), "hyperboloid": Hyperboloid()}
"""The coordinates of the models in hyperbolic space."""

_VALUES = 2**22  # of a block of scores: 16 MB in float32


@dataclass(frozen=True)
class LinkModelSpec:
    """The settings of an embedding.

    Attributes
    ----------
    kind : str
        A key of `MODELS`.
    num_entities, num_relations, dim : int
    curvature : float
        Of the curved models, negative.
    learns_curvature : bool
        Whether it is a start that training changes.
    by_relation : bool
        Whether each relation has one of its own.
    """

    kind: str
    num_entities: int
    num_relations: int
    dim: int
    curvature: float = -1.0
    learns_curvature: bool = False
    by_relation: bool = False

    @property
    def min_parameters(self) -> int:
        """The entities' numbers."""
        return self.num_entities * self.dim

    def build(self, seed: int) -> nn.Module:
        """The model with its seeded start; equal on every machine for equal arguments.

        Raises
        ------
        ValueError
            If the model has complex numbers and `dim` is odd.
        """
        model: nn.Module = MODELS[self.kind](self, torch.Generator().manual_seed(seed))
        return model


class Embedding(nn.Module, ABC):
    """A row of numbers for each entity. Links with a high score are likely.

    Parameters
    ----------
    spec : LinkModelSpec
    generator : torch.Generator
        Of the start.
    """

    start = 1e-2
    has_weight: ClassVar[bool] = False
    """Whether the last number of a row of the table is no coordinate: 1 at the origin, or a
    bias."""

    def __init__(self, spec: LinkModelSpec, generator: torch.Generator) -> None:
        super().__init__()
        shape = (spec.num_entities, spec.dim)
        self.entities = nn.Parameter(self.start * torch.randn(shape, generator=generator))

    def table(self, entities: Tensor | None = None) -> Tensor:
        """The numbers of entities (m,), or of all, from which scores are computed, (m, k)."""
        return self.entities if entities is None else F.embedding(entities, self.entities)

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
        rows = F.embedding(tails, table)
        return self.compare(F.embedding(heads, table).unsqueeze(1), relations, rows)

    def distance(self, rows: Tensor, others: Tensor) -> Tensor:
        """Distances (n, m) between rows of the table, (n, 1, k) and (n, m, k) or (1, m, k)."""
        end = -1 if self.has_weight else None
        return root((rows - others)[..., :end].square().sum(-1))

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


class Inner(Embedding):
    """⟨u, v⟩ + b(v); the last number of a row is its bias."""

    start = 0.1
    has_weight = True

    def compare(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """See `Embedding`."""
        products = tails[..., :-1] @ heads[..., :-1].mT
        return products.squeeze(-1) + tails[..., -1]


class Euclidean(Embedding):
    """−|u − v|."""

    def compare(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """See `Embedding`."""
        return -self.distance(heads, tails)


class Curved(Embedding):
    """Minus the geodesic distance (Nickel & Kiela, 2017, Eq. 1; 2018, Eq. 5).

    Rows are points of curvature −1, whose distances 1/√|c| scales, so the curvature c is that of
    the whole space, or of the space of each relation. A learned one is −exp(−2k).
    """

    has_weight = True

    def __init__(self, spec: LinkModelSpec, generator: torch.Generator) -> None:
        super().__init__(spec, generator)
        self.chart = CURVED[spec.kind]
        self.entities.chart = self.chart  # type: ignore[attr-defined]
        shape = (spec.num_relations, 1) if spec.by_relation else ()
        start = torch.full(shape, -0.5 * math.log(-spec.curvature))
        self.k = nn.Parameter(start, requires_grad=spec.learns_curvature)

    @property
    def curvature(self) -> Tensor:
        """The sectional curvature, of shape (); the mean over the relations."""
        return -torch.exp(-2 * self.k.detach()).mean()

    def table(self, entities: Tensor | None = None) -> Tensor:
        """Points of the ball, and 1/(1 − |x|²)."""
        return torch.cat(self.chart.ball(super().table(entities)), dim=-1)

    def compare(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """See `Embedding`."""
        k = self.k[relations] if self.k.ndim else self.k
        return self._half_distance(heads, tails) * (-2 * k.exp())

    def distance(self, rows: Tensor, others: Tensor) -> Tensor:
        """See `Embedding`; in curvature −1 if each relation has a curvature of its own."""
        factor = 2.0 if self.k.ndim else 2 * self.k.exp()
        return self._half_distance(rows, others) * factor

    def _half_distance(self, rows: Tensor, others: Tensor) -> Tensor:
        """In curvature −1: sinh²(dist/2) = |x − y|²/((1 − |x|²)(1 − |y|²))."""
        apart = (rows[..., :-1] - others[..., :-1]).square().sum(-1)
        return asinh_root(apart * rows[..., -1] * others[..., -1])


class ComplEx(Embedding):
    """Re⟨h, r, conj(t)⟩ of complex rows, real parts first (Trouillon et al., 2016, Eq. 9)."""

    start = 0.1

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
    """−Σ|h·exp(iθ) − t| of complex rows, whose relations are angles (Sun et al., 2019, Eq. 3)."""

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
    "poincare": Curved,
    "hyperboloid": Curved,
    "euclidean": Euclidean,
    "inner": Inner,
    "complex": ComplEx,
    "rotate": RotatE,
}
"""The models by name."""

"""Made points in the disc on which classifiers of hulls are compared, and Olsson's cells.

`HELD_OUT` was written down with the rest, and is run only after the rule of the choice is fixed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from curvfed.geometry.arrays import Floats, Integers
from curvfed.tasks.generated import two_classes
from curvfed.tasks.points.dataset import PointDataset
from curvfed.tasks.points.point_spec import PointSpec

Labelled = tuple[Floats, Integers]
Draw = Callable[[int, np.random.Generator], Labelled]
Split = Callable[[int], tuple[list[Labelled], Labelled]]
"""(seed) -> the points of each client, and test points."""

FARTHEST = 0.995
"""Largest norm of a made point."""


@dataclass(frozen=True)
class PointSet:
    """How points are drawn, and how they are dealt to clients.

    Attributes
    ----------
    draw : callable
        Points (n, 2) in the disc of curvature -1 and labels (n,), from their number and a
        generator.
    train, test, clients : int
    alpha : float
        Of a Dirichlet distribution of each class over the clients; inf deals the points equally.
    """

    draw: Draw
    train: int = 20_000
    test: int = 5_000
    clients: int = 7
    alpha: float = np.inf

    def split(self, seed: int) -> tuple[list[Labelled], Labelled]:
        """Each client's points, and test points that no client has."""
        rng = np.random.default_rng(seed)
        points, labels = self.draw(self.train + self.test, rng)
        mine = labels[: self.train]
        owner = np.arange(self.train) % self.clients
        if np.isfinite(self.alpha):
            for label in np.unique(mine):
                shares = rng.dirichlet(np.full(self.clients, self.alpha))
                owner[mine == label] = rng.choice(self.clients, (mine == label).sum(), p=shares)
        parts = [
            (points[: self.train][owner == client], mine[owner == client])
            for client in range(self.clients)
        ]
        return [part for part in parts if len(part[0])], (
            points[self.train :],
            labels[self.train :],
        )


def disc(tangents: Floats) -> Floats:
    """exp0 of tangent vectors (n, 2) at curvature -1, moved inside `FARTHEST`."""
    norms = np.maximum(np.linalg.norm(tangents, axis=1, keepdims=True), 1e-12)
    return np.asarray(np.minimum(np.tanh(norms / 2), FARTHEST) * tangents / norms)


def circle(num: int, near: float = 1.2, far: float = 2.2) -> Floats:
    """Centres (num, 2) of classes at equal angles, near and far in turn."""
    angles = 2 * np.pi * np.arange(num) / num
    reach = np.where(np.arange(num) % 2, far, near)[:, None]
    return np.asarray(reach * np.stack([np.cos(angles), np.sin(angles)], axis=1))


def gaussians(count: int, rng: np.random.Generator, noise: float, num: int = 10) -> Labelled:
    """Equal round Gaussians in the tangent space at the origin."""
    labels = rng.integers(0, num, count)
    return disc(circle(num)[labels] + rng.normal(0, noise, (count, 2))), labels


def lopsided(count: int, rng: np.random.Generator) -> Labelled:
    """Eight classes with a long tail to one side, which is another for each."""
    labels = rng.integers(0, 8, count)
    angles = rng.uniform(0, 2 * np.pi, 8)[labels]
    along, across = rng.gamma(1.0, 0.45, count), rng.normal(0, 0.15, count)
    tail = np.stack(
        [
            np.cos(angles) * along - np.sin(angles) * across,
            np.sin(angles) * along + np.cos(angles) * across,
        ],
        axis=1,
    )
    return disc(circle(8)[labels] + tail), labels


def rings(count: int, rng: np.random.Generator) -> Labelled:
    """Four rings around the origin, which overlap."""
    labels = rng.integers(0, 4, count)
    far, angles = 0.5 + 0.8 * labels + rng.normal(0, 0.25, count), rng.uniform(0, 2 * np.pi, count)
    return disc(far[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)), labels


def unequal(count: int, rng: np.random.Generator) -> Labelled:
    """Eight classes, each with three fifths of the points of the one before and another width."""
    shares = 0.6 ** np.arange(8)
    labels = rng.choice(8, count, p=shares / shares.sum())
    widths = rng.permutation(np.linspace(0.15, 0.6, 8))[labels]
    return disc(circle(8)[labels] + widths[:, None] * rng.normal(0, 1, (count, 2))), labels


def halves(count: int, rng: np.random.Generator) -> Labelled:
    """The built-in points: uniform in the disc, two classes on the sides of a geodesic."""
    points, labels, _ = two_classes(2 * count, 0.95, 0.4, 0.1, -1.0, int(rng.integers(1 << 30)))
    return points[:count], labels[:count]


def heavy(count: int, rng: np.random.Generator) -> Labelled:
    """Seven stretched classes with heavy tails, at random places."""
    labels = rng.integers(0, 7, count)
    centres, turns = rng.normal(0, 1.2, (7, 2)), np.linalg.qr(rng.normal(0, 1, (7, 2, 2)))[0]
    stretched = rng.standard_t(3, (count, 2)) * [0.35, 0.12]
    return disc(centres[labels] + (turns[labels] @ stretched[:, :, None])[:, :, 0]), labels


def arms(count: int, rng: np.random.Generator) -> Labelled:
    """Five arms that wind around the origin; no hull of one is free of the others."""
    labels = rng.integers(0, 5, count)
    along = rng.uniform(0.2, 1.0, count)
    angles = 2 * np.pi * labels / 5 + 1.5 * along
    spine = 2.5 * along[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return disc(spine + rng.normal(0, 0.15, (count, 2))), labels


def tree(count: int, rng: np.random.Generator) -> Labelled:
    """Sixteen classes as leaves of a tree of four branches of four, near the rim, of random sizes
    and widths."""
    angles = (
        2
        * np.pi
        * (np.arange(4)[:, None] / 4 + rng.normal(0, 0.01, (4, 4)) + 0.05 * np.arange(-1.5, 2.5))
    ).ravel()
    centres = rng.uniform(2.0, 3.5, 16)[:, None] * np.stack(
        [np.cos(angles), np.sin(angles)], axis=1
    )
    labels = rng.choice(16, count, p=rng.dirichlet(np.full(16, 3.0)))
    widths = rng.uniform(0.1, 0.4, 16)[labels]
    return disc(centres[labels] + widths[:, None] * rng.normal(0, 1, (count, 2))), labels


SETS = {
    "separated": PointSet(partial(gaussians, noise=0.15, num=6)),
    "overlapping": PointSet(partial(gaussians, noise=0.33), train=60_000, clients=10),
    "overlapping much": PointSet(partial(gaussians, noise=0.6)),
    "skewed classes": PointSet(lopsided),
    "skewed clients": PointSet(partial(gaussians, noise=0.33), alpha=0.3),
    "rings": PointSet(rings),
    "unequal classes": PointSet(unequal),
    "few points": PointSet(partial(gaussians, noise=0.33, num=6), train=200),
    "two halves": PointSet(halves),
}
"""The sets that the rule of the choice is made with."""

HELD_OUT = {
    "heavy tails": PointSet(heavy),
    "arms": PointSet(arms, clients=6),
    "tree": PointSet(tree, train=2000, clients=5, alpha=1.0),
}
"""The sets that it is tried on afterwards, once."""


def olsson_split(
    data: Path, seed: int, clients: int = 3, **changes: Any
) -> tuple[list[Labelled], Labelled]:
    """As `PointSet.split`, of Olsson's cells; `changes` are fields of `PointSpec`."""
    dataset = PointDataset(PointSpec("olsson", data, seed=seed, **changes))
    parts = [dataset.client(number, clients) for number in range(clients)]
    test = dataset.test()
    assert test is not None
    return [(part.train_points, part.train_labels) for part in parts], (test.points, test.labels)

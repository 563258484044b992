"""A tree embedded by links-poincare and links-lorentz, by geoopt's Riemannian Adam, and by the
Riemannian SGD of Nickel & Kiela (2017): distortion of the distances and mean average precision.

    python -m studies.tree_distortion

One client has all links of the balanced tree; all have `DIM` dimensions, `NEGATIVES` negatives and
`EPOCHS` passes, and the same loss. geoopt takes as many steps as ours, in float64. The SGD is as its
authors' script for WordNet's mammals sets it: batches of 10, and a burn-in of a fifteenth of the
passes at a hundredth of the rate, with negatives drawn by their numbers of links to the power .75.
Each tunes its rate on `TUNING_SEEDS` by the mean average precision; `SEEDS` compare. The distortion
is the mean of |s·d/D − 1| over all pairs, d the embedded and D the tree's distance, with the factor
s of least distortion, as no loss here knows the unit of length.
"""

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import geoopt
import numpy as np
import torch
import torch.nn.functional as F
from scipy.optimize import minimize_scalar
from torch import Tensor

import curvfed
from curvfed.tasks.links import balanced_tree
from curvfed.tasks.links.client_task import KnownLinks, average_precision

DIM = 5
NEGATIVES = 50
EPOCHS = 40
BATCH = 256
SGD_BATCH = 10
BURN_IN = 3
TUNING_SEEDS = (600,)
SEEDS = (610, 611, 612)
RATES = {
    "links-poincare": (0.05, 0.1, 0.3, 1.0),
    "links-lorentz": (0.05, 0.1, 0.3, 1.0),
    "geoopt's Riemannian Adam": (0.05, 0.1, 0.3, 1.0),
    "Riemannian SGD": (0.3, 1.0, 3.0),
    "links-poincare, batches of 10": (0.01, 0.03, 0.1),
}

TREE = balanced_tree(3, 5)
TRIPLES = torch.from_numpy(TREE.triples)
SIZE = len(TREE.entities)
KNOWN = KnownLinks(TRIPLES, SIZE, 1)
BALL = geoopt.PoincareBall()


def tree_distances() -> np.ndarray:
    """The distances (N, N) of the nodes in the tree, whose names are their paths from the root."""
    paths = [name.split(".") for name in TREE.entities]
    depths = np.array([len(path) for path in paths])
    numbers = torch.arange(SIZE)
    above = KNOWN.holds(numbers[:, None], torch.tensor(0), numbers) | (numbers[:, None] == numbers)
    common = above.double() @ above.double().T
    return np.asarray(depths[:, None] + depths - 2 * common.numpy())


def ball_distances(points: Tensor) -> Tensor:
    """Hyperbolic distances (N, N) of points of the unit ball, in float64."""
    distances: Tensor = BALL.dist(points[:, None], points)
    return distances


class _Points:
    """What `average_precision` reads of a model: its scores by blocks of heads."""

    def __init__(self, points: Tensor) -> None:
        self._scores = -ball_distances(points)

    def blocks(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Iterator[Tensor]:
        """All in one block."""
        yield self._scores[heads][:, tails]


def figures(points: Tensor) -> tuple[float, float]:
    """Distortion, and mean average precision of all links."""
    above = np.triu_indices(SIZE, 1)
    ratios = ball_distances(points).numpy()[above] / tree_distances()[above]

    def at(factor: float) -> float:
        return float(np.abs(factor * ratios - 1).mean())

    best = minimize_scalar(at, bounds=(0, 4 / ratios.mean()), method="bounded")
    model: Any = _Points(points)
    return float(best.fun), average_precision(model, TRIPLES, SIZE)


def ours(method: str, batch: int, rate: float, seed: int) -> Tensor:
    """The points of a run with one client."""
    with tempfile.TemporaryDirectory() as folder:
        run = curvfed.simulate(
            method,
            "balanced-tree",
            results_dir=folder,
            num_supernodes=1,
            num_rounds=EPOCHS,
            local_epochs=1,
            batch_size=batch,
            learning_rate=rate,
            embedding_dim=DIM,
            seed=seed,
            global_every=0,
            quiet=True,
            links={"hold_out": False, "negatives": NEGATIVES},
        )
        with np.load(run.path / "links.npz") as links:
            rows = dict(zip(links["names"].tolist(), links["rows"][:, :-1], strict=True))
    return torch.tensor(np.array([rows[name] for name in TREE.entities]), dtype=torch.float64)


def loss_of(points: Tensor, links: Tensor, weights: Tensor) -> Tensor:
    """The loss of `LinkTask.loss`, with negatives drawn by weights."""
    heads, _, tails = links.T
    drawn = torch.multinomial(weights, len(links) * NEGATIVES, replacement=True)
    negatives = drawn.view(len(links), NEGATIVES)
    others = points[torch.cat([tails[:, None], negatives], dim=1)]
    scores = -BALL.dist(points[heads][:, None], others)
    left_out = KNOWN.holds(heads[:, None], torch.tensor(0), negatives) | (
        negatives == heads[:, None]
    )
    scores = scores.masked_fill(F.pad(left_out, (1, 0)), -torch.inf)
    return F.cross_entropy(scores, torch.zeros_like(heads))


def by_geoopt(rate: float, seed: int) -> Tensor:
    """The points after as many steps as ours, from the same kind of start."""
    torch.manual_seed(seed)
    start = BALL.expmap0(1e-2 * torch.randn(SIZE, DIM, dtype=torch.float64))
    points = geoopt.ManifoldParameter(start, manifold=BALL)
    optimizer = geoopt.optim.RiemannianAdam([points], lr=rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch / 20))
    for _ in range(EPOCHS):
        for rows in torch.split(torch.randperm(len(TRIPLES)), BATCH):
            loss = loss_of(points, TRIPLES[rows], torch.ones(SIZE))
            (points.grad,) = torch.autograd.grad(loss, points)
            optimizer.step()
        schedule.step()
    embedded: Tensor = points.detach()
    return embedded


def by_sgd(rate: float, seed: int) -> Tensor:
    """The points after retracted steps against the gradient times (1 − |x|²)²/4."""
    torch.manual_seed(seed)
    points = torch.empty(SIZE, DIM, dtype=torch.float64).uniform_(-1e-4, 1e-4)
    points.requires_grad_()
    tails = torch.bincount(TRIPLES[:, 2], minlength=SIZE).double()
    for epoch in range(EPOCHS):
        is_early = epoch < BURN_IN
        weights = tails**0.75 if is_early else torch.ones(SIZE)
        step = rate / 100 if is_early else rate
        for rows in torch.split(torch.randperm(len(TRIPLES)), SGD_BATCH):
            (gradient,) = torch.autograd.grad(loss_of(points, TRIPLES[rows], weights), points)
            with torch.no_grad():
                shrink = (1 - points.square().sum(1, keepdim=True)) ** 2 / 4
                points -= step * shrink * gradient
                points *= ((1 - 1e-5) / points.norm(dim=1, keepdim=True)).clamp(max=1)
    return points.detach()


MAKERS: dict[str, Callable[[float, int], Tensor]] = {
    "links-poincare": partial(ours, "links-poincare", BATCH),
    "links-lorentz": partial(ours, "links-lorentz", BATCH),
    "geoopt's Riemannian Adam": by_geoopt,
    "Riemannian SGD": by_sgd,
    "links-poincare, batches of 10": partial(ours, "links-poincare", SGD_BATCH),
}


def main() -> None:
    """Print the table."""
    print("| | rate | distortion, % | mAP, % |\n| --- | --- | --- | --- |")
    for name, make in MAKERS.items():
        scores = {
            rate: np.mean([figures(make(rate, seed))[1] for seed in TUNING_SEEDS])
            for rate in RATES[name]
        }
        best = max(scores, key=scores.__getitem__)
        percent = 100 * np.array([figures(make(best, seed)) for seed in SEEDS])
        cells = [
            f"{mean:.1f} ± {spread:.1f}"
            for mean, spread in zip(percent.mean(0), percent.std(0, ddof=1), strict=True)
        ]
        print(f"| {name} | {best:g} | {cells[0]} | {cells[1]} |", flush=True)


if __name__ == "__main__":
    main()

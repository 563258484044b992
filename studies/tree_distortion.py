"""A tree embedded by links in both coordinates, by geoopt's Riemannian Adam, and by Nickel &
Kiela's own program: distortion of the distances and mean average precision.

    python -m studies.tree_distortion [--poincare-embeddings CLONE]

CLONE is a clone of facebookresearch/poincare-embeddings; without it its rows are left out. One
client has all links of the balanced tree; all have `DIM` dimensions, `NEGATIVES` negatives and
`EPOCHS` passes, and the same loss. geoopt takes as many steps as ours, in float64. The program's
model, loss, optimizer and loop run as its script for WordNet's mammals sets them, in batches of 10
with a burn-in of a fifteenth of the passes; `Batches` stands for its compiled data set. Rows "by
SGD" are ours with these batches, and a burn-in of an eighth. Each tunes its rate on `TUNING_SEEDS`
by the mean average precision; `SEEDS` compare. The distortion is the mean of |s·d/D − 1| over all
pairs, d the embedded and D the tree's distance, with the factor s of least distortion, as no loss
here knows the unit of length.
"""

import argparse
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import geoopt
import numpy as np
import torch
import torch.nn.functional as F
from scipy.optimize import minimize_scalar
from torch import Tensor

import curvfed
from curvfed.extensions.links.client_task import average_precision
from curvfed.extensions.links.ranking import KnownLinks
from curvfed.extensions.links.raw import balanced_tree
from studies.peers.job import check_clone, modules

DIM = 5
NEGATIVES = 50
EPOCHS = 40
BATCH = 256
SGD_BATCH = 10
BURN_IN = 5
AUTHORS_BURN_IN = 3
TUNING_SEEDS = (600,)
SEEDS = (610, 611, 612)
ADAM_RATES = (0.05, 0.1, 0.3, 1.0)
BALL_RATES = (0.06, 0.2, 0.6)
SGD_RATES = (0.3, 1.0, 3.0)

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


def ours(model: str, rate: float, seed: int, **keys: Any) -> Tensor:
    """The points of a run with one client."""
    with tempfile.TemporaryDirectory() as folder:
        run = curvfed.simulate(
            "links",
            "balanced-tree",
            model=model,
            results_dir=folder,
            num_supernodes=1,
            num_rounds=EPOCHS,
            local_epochs=1,
            learning_rate=rate,
            embedding_dim=DIM,
            seed=seed,
            global_every=0,
            quiet=True,
            links={"hold_out": False, "negatives": NEGATIVES},
            **keys,
        )
        with np.load(run.path / "links.npz") as links:
            rows = dict(zip(links["names"].tolist(), links["rows"][:, :-1], strict=True))
    return torch.tensor(np.array([rows[name] for name in TREE.entities]), dtype=torch.float64)


def loss_of(points: Tensor, links: Tensor) -> Tensor:
    """The loss of `LinkTask.loss`."""
    heads, _, tails = links.T
    negatives = torch.randint(SIZE, (len(links), NEGATIVES))
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
            loss = loss_of(points, TRIPLES[rows])
            (points.grad,) = torch.autograd.grad(loss, points)
            optimizer.step()
        schedule.step()
    embedded: Tensor = points.detach()
    return embedded


class Batches:
    """Batches as those of the program's compiled data set: a link, and different negatives, in the
    burn-in drawn by their numbers of links to the power .75."""

    burnin = False

    def __len__(self) -> int:
        return -(-len(TRIPLES) // SGD_BATCH)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        numbers = torch.bincount(TRIPLES[:, 2], minlength=SIZE)
        weights = numbers.double() ** (0.75 if self.burnin else 0)
        entities = torch.arange(SIZE)
        for rows in torch.split(torch.randperm(len(TRIPLES)), SGD_BATCH):
            links = TRIPLES[rows][:, [0, 2]]
            heads = links[:, :1]
            is_right = KNOWN.holds(heads, torch.tensor(0), entities) | (heads == entities)
            negatives = torch.multinomial(weights * ~is_right, NEGATIVES)
            yield torch.cat([links, negatives], dim=1), torch.zeros(len(links), dtype=torch.long)

    def nnegatives(self) -> int:
        """Negatives of a link."""
        return NEGATIVES


def by_authors(manifold: str, rate: float, seed: int) -> Tensor:
    """The points after the program's own loop; its modules are importable."""
    hype, train, rsgd = modules("hype", "hype.train", "hype.rsgd")
    torch.manual_seed(seed)
    torch.set_default_dtype(torch.float64)
    train._lr_multiplier = 0.01
    settings = {"model": "distance", "manifold": manifold, "dim": DIM, "sparse": True}
    model = hype.build_model({**settings, "margin": 0.1}, SIZE)
    optimizer = rsgd.RiemannianSGD(model.optim_params(), lr=rate)
    options = SimpleNamespace(
        epoch_start=0, epochs=EPOCHS, burnin=AUTHORS_BURN_IN, lr=rate, eval_each=1
    )
    train.train("cpu", model, Batches(), optimizer, options, logging.getLogger("hype"))
    torch.set_default_dtype(torch.float32)
    points: Tensor = model.manifold.normalize(model.lt.weight.data)
    return model.manifold.to_poincare_ball(points) if manifold == "lorentz" else points


SGD: dict[str, Any] = {
    "batch_size": SGD_BATCH,
    "optimizer": "sgd",
    "momentum": 0.0,
    "schedule": "constant",
    "burn_in": BURN_IN,
}
ADAM: dict[str, Any] = {
    "batch_size": BATCH,
    "optimizer": "adam",
    "schedule": "inverse",
    "burn_in": 0,
}

Maker = Callable[[float, int], Tensor]

MAKERS: dict[str, tuple[tuple[float, ...], Maker]] = {
    "normal": (ADAM_RATES, partial(ours, "normal", **ADAM)),
    "hyperboloid": (ADAM_RATES, partial(ours, "hyperboloid", **ADAM)),
    "geoopt's Riemannian Adam": (ADAM_RATES, by_geoopt),
    "normal by SGD": (BALL_RATES, partial(ours, "normal", **SGD)),
    "hyperboloid by SGD": (SGD_RATES, partial(ours, "hyperboloid", **SGD)),
}
AUTHORS: dict[str, tuple[tuple[float, ...], Maker]] = {
    f"Nickel & Kiela's program, {manifold}": (SGD_RATES, partial(by_authors, manifold))
    for manifold in ("poincare", "lorentz")
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--poincare-embeddings", type=Path)
    clone = parser.parse_args().poincare_embeddings
    makers = dict(MAKERS)
    if clone:
        check_clone(clone, ("hype/train.py", "hype/rsgd.py", "hype/manifolds/lorentz.py"))
        sys.path.insert(0, str(clone.resolve()))
        makers |= AUTHORS
    print("| | rate | distortion, % | mAP, % |\n| --- | --- | --- | --- |")
    for name, (rates, make) in makers.items():
        scores = {
            rate: np.mean([figures(make(rate, seed))[1] for seed in TUNING_SEEDS]) for rate in rates
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

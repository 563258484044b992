"""The search for prototypes that are spread over the sphere."""

import itertools

import torch
import torch.nn.functional as F

from benchmarks.row import Place, Row
from benchmarks.timing import Ratio, compare, seconds
from curvfed.geometry.prototypes import uniform

CLASSES, DIM = 100, 20
DESCENT, RATE = 1_000, 0.1
BUDGET, REPEATS = 3.0, 3


def rows(place: Place) -> list[Row]:
    """As many as CIFAR-100 has classes, in the paper's dimensions."""
    of = f"{CLASSES} prototypes in {DIM} dimensions"
    return [
        Row(of, f"{DESCENT:,} steps down HyperFed's Eq. 5, which spread them less", "peer", against_descent),
        Row(of, f"{BUDGET:g} s", "budget", against_patience, 1.0),
    ]


def against_descent() -> Ratio:
    """Searches from new starts, which are not kept from before, against plain gradient descent."""
    seeds = itertools.count(1_000)
    return compare(lambda: uniform(CLASSES, DIM, next(seeds)), descent, REPEATS)


def against_patience() -> Ratio:
    """Seconds of a search."""
    found = sorted(seconds(lambda seed=seed: uniform(CLASSES, DIM, seed)) for seed in range(2_000, 2_000 + REPEATS))  # type: ignore[misc]
    return Ratio(found[REPEATS // 2], BUDGET, found[0] / BUDGET, found[-1] / BUDGET)


def descent() -> torch.Tensor:
    """Unit vectors (C, d) by descent on the mean over rows of the largest cosine, HyperFed, Eq. 5."""
    points = torch.randn(CLASSES, DIM, generator=torch.Generator().manual_seed(0)).requires_grad_()
    optimizer = torch.optim.SGD([points], RATE)
    own = 2 * torch.eye(CLASSES)
    for _ in range(DESCENT):
        unit = F.normalize(points)
        optimizer.zero_grad()
        (unit @ unit.T - own).max(dim=1).values.mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return F.normalize(points.detach())

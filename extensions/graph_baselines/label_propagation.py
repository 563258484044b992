"""Soft labels propagated along the edges (FedGTA, Li et al., VLDB 2024).

Propagation, moments and confidence follow the authors' code. Statements about the paper come from
that code, unchecked against the paper.
"""

import math

import torch
from torch import Tensor

from curvfed.tasks.graphs.sparse import Constant


def propagate(labels: Tensor, adjacency: Constant, steps: int, alpha: float) -> Tensor:
    """Label propagation without parameters: Y ← α Y⁰ + (1 − α) Ã Y, k times from Y⁰.

    Parameters
    ----------
    labels : Tensor, (N, C)
        Y⁰.
    adjacency : Constant, (N, N)
        Ã, symmetrically normalised, with self-loops.
    steps : int
        k.
    alpha : float
        In [0, 1]; 1 leaves the labels unchanged.

    Returns
    -------
    Tensor, (N, C)
        Not negative where Y⁰ is not. Row sums differ and are larger for hubs.
    """
    propagated = labels
    for _ in range(steps):
        propagated = alpha * labels + (1 - alpha) * (adjacency @ propagated)
    return propagated


def moments(labels: Tensor, order: int) -> Tensor:
    """Means over the nodes of the powers 1 to `order` of soft labels, (N, C) -> (order, C)."""
    return torch.stack([labels.pow(power).mean(dim=0) for power in range(1, order + 1)])


def smoothing_confidence(labels: Tensor, degrees: Tensor) -> Tensor:
    """Σ_v d_v Σ_c (1/e + y_vc ln y_vc), (): large if the labels of hubs are certain, 0 without
    edges.

    Parameters
    ----------
    labels : Tensor, (N, C)
        In [0, 1]. No term is negative: −y ln y is at most 1/e.
    degrees : Tensor, (N,)
    """
    sureness = (1 / math.e + torch.xlogy(labels, labels)).sum(dim=1)
    return degrees @ sureness

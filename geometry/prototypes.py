"""Fixed class prototypes: unit vectors that are as far apart as possible."""

import math
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from curvfed.geometry.arrays import Floats
from curvfed.geometry.one_thread import one_thread

# 2.5 to 2.6e6; the error of the optimum is about 1/sharpness
_SHARPNESS = tuple(2.5 * 4**i for i in range(11))
# Index of the first sharpness of each search, in turn. From a low sharpness, all searches lead to
# the same few optima: the best ones in high dimension, but often not the best in 3 to 5 dimensions.
_FIRST = (1, 0, 2, 3)
_ITERATIONS = 150  # of L-BFGS at each sharpness
_RESTARTS = 12
# pairs of prototypes over all restarts: 12 restarts up to 40 prototypes, 2 for 100, 1 from 142 on
_PAIRS = 20_000


def uniform(num: int, dim: int, seed: int) -> Tensor:
    """Uniformly spread unit vectors: their largest pairwise cosine is as small as possible (Tammes
    problem).

    HyperFed's Eq. 4 on the unit sphere; the paper's ball lacks points with ‖w‖ = 1. Its Eq. 5, the
    mean of the largest cosine of every row, has other minimisers and is not used.

    Parameters
    ----------
    num : int
        Number of vectors (classes), ≥ 1.
    dim : int
        ≥ 1; in one dimension at most two vectors are distinct.
    seed : int
        Rotates the known optima at random, and sets the start of the search.

    Returns
    -------
    Tensor (num, dim), float64
        Rows of norm 1 up to rounding, on the CPU, as a new copy. Their largest cosine is

        - −1/(num − 1) for num ≤ dim + 1 (regular simplex);
        - cos(2π/num) for dim = 2 (regular polygon);
        - 0 for num ≤ 2·dim (orthoplex: axes and their opposites);
        - else a local optimum, the best of a few searches, to 1e-6 for small sets. Every seed finds
          the known global optima for 7 to 12, 14 and 24 vectors in 3 dimensions, (10, 4), (16, 5),
          (27, 6) and (56, 7); some seeds find those for (13, 3), (24, 4) and (240, 8). (100, 20)
          gives .152 and (200, 20) .231.

        Equal arguments give equal bits on one machine with the same libraries. On another machine
        the search may end in another optimum, so prototypes are sent, not recomputed.

    Raises
    ------
    ValueError
        If `num` or `dim` is not positive, or there are more than two vectors in one dimension.

    Notes
    -----
    The search minimises log Σ exp(β cosine)/β over all pairs by L-BFGS, β rising to 2.6e6. Time on
    one core: 0.1 to 0.8 s up to 40 vectors, 1 s for (100, 20), 1.5 s for (200, 20), 45 s for (1000,
    64); repeated calls are cached.

    Examples
    --------
    >>> points = uniform(4, 3, seed=0)
    >>> (points @ points.T)[0, 1:].round(decimals=6)
    tensor([-0.3333, -0.3333, -0.3333], dtype=torch.float64)
    """
    _check(num, dim)
    return _uniform(num, dim, seed).clone()


def orthonormal(num: int, dim: int, seed: int) -> Tensor:
    """Orthonormal rows, uniformly distributed (Haar measure) over all such matrices; SphereFed's
    classifier, Eq. 4.

    Parameters
    ----------
    num, dim : int
        1 ≤ num ≤ dim.
    seed : int

    Returns
    -------
    Tensor (num, dim), float64
        Rows of norm 1 and orthogonal up to rounding, on the CPU. Equal seeds give equal matrices.

    Raises
    ------
    ValueError
        If `num` or `dim` is not positive, or `num` > `dim`; then no such rows exist: use `uniform`.

    Notes
    -----
    The QR decomposition of a Gaussian matrix; Haar measure requires a fixed sign of R's diagonal
    (Mezzadri, How to generate random matrices from the classical compact groups, 2007).

    Examples
    --------
    >>> rows = orthonormal(2, 5, seed=0)
    >>> bool(torch.allclose(rows @ rows.T, torch.eye(2, dtype=torch.float64)))
    True
    """
    _check(num, dim)
    if num > dim:
        raise ValueError(
            f"orthonormal: {num} rows in {dim} dimensions; at most {dim} are orthogonal, use"
            " uniform"
        )
    basis, triangle = torch.linalg.qr(_gaussian(dim, num, seed))
    return (basis * triangle.diagonal().sign()).T.contiguous()


@lru_cache(maxsize=16)
def _uniform(num: int, dim: int, seed: int) -> Tensor:
    if num == 1:
        return orthonormal(1, dim, seed)
    if num <= dim + 1:
        return _simplex(num) @ orthonormal(num - 1, dim, seed)
    if dim == 2:
        angle = torch.arange(num, dtype=torch.float64) * (2 * math.pi / num)
        polygon = torch.stack([angle.cos(), angle.sin()], dim=1)
        return polygon @ orthonormal(2, 2, seed)
    if num <= 2 * dim:
        axes = torch.eye(dim, dtype=torch.float64)
        orthoplex = torch.cat([axes, -axes])
        return orthoplex[:num] @ orthonormal(dim, dim, seed)
    return _search(num, dim, seed)


def _simplex(num: int) -> Tensor:
    """Corners of the regular simplex (num, num−1): the axes of `num` dimensions, projected along
    their mean."""
    mean = torch.ones(num, 1, dtype=torch.float64)
    axes = torch.eye(num, num - 1, dtype=torch.float64)
    basis = torch.linalg.qr(torch.cat([mean, axes], dim=1)).Q
    return basis[:, 1:] * math.sqrt(num / (num - 1))


def _search(num: int, dim: int, seed: int) -> Tensor:
    restarts = min(_RESTARTS, max(1, _PAIRS // num**2))
    starts = normalize(_gaussian(restarts * num, dim, seed)).numpy()
    results = []
    for number, points in enumerate(starts.reshape(restarts, num, dim)):
        first = _FIRST[number % len(_FIRST)]
        results.append(_anneal(points, _SHARPNESS[first:]))

    def largest_cosine(points: Floats) -> float:
        cosines = points @ points.T - 2 * np.eye(num)
        return float(cosines.max())

    return torch.from_numpy(min(results, key=largest_cosine))


def _anneal(points: Floats, sharpness: tuple[float, ...]) -> Floats:
    from scipy.optimize import minimize

    shape = points.shape
    options = {"maxiter": _ITERATIONS, "maxcor": 5, "ftol": 1e-14, "gtol": 1e-12}
    with one_thread():  # also makes the bits independent of the number of cores
        for beta in sharpness:
            result: Any = minimize(
                _crowding, points.ravel(), (beta, shape), "L-BFGS-B", jac=True, options=options
            )
            points = result.x.reshape(shape)
            points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points


def _crowding(flat: Floats, beta: float, shape: tuple[int, int]) -> tuple[float, Floats]:
    """log Σ exp(β cosine)/β over all pairs, a smooth upper bound of the largest cosine, and its
    gradient.
    """
    points = flat.reshape(shape)
    norm = np.linalg.norm(points, axis=1, keepdims=True)
    unit = points / norm
    weight = unit @ unit.T
    np.fill_diagonal(weight, -np.inf)
    largest = weight.max()
    weight -= largest
    weight *= beta
    np.exp(weight, out=weight)
    total = weight.sum()
    pull = weight @ unit * (2 / total)
    pull -= (pull * unit).sum(axis=1, keepdims=True) * unit
    value = float(largest + np.log(total) / beta)
    gradient = pull / norm
    return value, gradient.ravel()


def _gaussian(rows: int, columns: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, generator=generator, dtype=torch.float64)


def _check(num: int, dim: int) -> None:
    if num < 1 or dim < 1:
        raise ValueError(f"prototypes: {num} vectors in {dim} dimensions; both must be ≥ 1")
    if dim == 1 and num > 2:
        raise ValueError(
            f"prototypes: {num} distinct unit vectors in 1 dimension; there are 2, so use dim ≥ 2"
        )

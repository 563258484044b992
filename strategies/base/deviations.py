"""What the clients' models deviate by from the one they started from: inner products, and weighted sums."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from curvfed.strategies.base.average import Arrays, Update, check_names, split_average, weighted_sum

Matrix = NDArray[np.float64]

BUFFERS = ("running_mean", "running_var")
"""Ends of the names of batch normalisation's statistics. They are no direction to go in: they are always averaged."""

_COLUMNS = 65_536  # of a block: enough to keep the overhead small, few enough for float32 sums
_ENTRIES = 2**21  # of a block: 8 MB of float32 stay in the cache


def is_buffer(name: str) -> bool:
    """Whether a shared array of this name is a statistic and not trained."""
    return name.endswith(BUFFERS)


def gram(start: Arrays, models: Sequence[Arrays]) -> Matrix:
    """Inner products of the deviations model − start over all trained parameters, the V of HyperFed's Section 4.5.

    Parameters
    ----------
    start : dict of str to array
    models : sequence of dict of str to array
        K models with the arrays of the start.

    Returns
    -------
    array (K, K), float64
        Symmetric. Deviations are taken and multiplied in the arrays' dtype, float32 at least, in blocks of up to 65,536
        columns, and summed over the blocks in float64. For float32 the error is a few 1e-8·|Δᵢ||Δⱼ|, where one product
        of the whole gives 1e-5. Not finite where a square exceeds the dtype.

    Raises
    ------
    AggregationError
        If a model has other arrays than the start.

    Notes
    -----
    One pass over the models, with a block of 8 MB for any K up to 2,000; it takes 1.2 to 1.4 times as long as one
    matrix product of K = 20 vectors of 11 million entries, on one thread.
    """
    from threadpoolctl import threadpool_limits

    _check_names(start, models)
    # By name: a model that comes from a checkpoint has its parameters in another order, and sums must not tell.
    names = [name for name in sorted(start) if not is_buffer(name)]
    dtype = np.result_type(np.float32, *(start[name].dtype for name in names))
    columns = max(1024, min(_COLUMNS, _ENTRIES // max(len(models), 1)))
    block = np.empty((len(models), columns), dtype)
    products, filled = np.zeros((len(models), len(models))), 0
    # On a busy machine BLAS threads that wait for each other, block by block, take up to 50 times as long as one.
    with threadpool_limits(1, user_api="blas"), np.errstate(over="ignore", invalid="ignore"):
        for name in names:
            origin, rows, done = start[name].ravel(), [arrays[name].ravel() for arrays in models], 0
            while done < origin.size:
                part = slice(done, done + columns - filled)
                width = origin[part].size
                for row, out in zip(rows, block, strict=True):
                    np.subtract(row[part], origin[part], out=out[filled : filled + width], dtype=dtype)
                filled, done = filled + width, done + width
                if filled == columns:
                    products += block @ block.T
                    filled = 0
        rest = block[:, :filled]
        products += rest @ rest.T
    return products


def weighted_step(start: Arrays, updates: Sequence[Update], weights: ArrayLike) -> Arrays:
    """θ + Σ wₖ(θₖ − θ) of the trained parameters, and the buffers averaged by numbers of examples.

    Parameters
    ----------
    start : dict of str to array
        θ; names, shapes and dtypes are those of the result.
    updates : sequence of Update
        In a fixed order, in which the sum is made, in float64.
    weights : array (K,)
        They need not sum to 1: θ weighs what they leave, 1 − Σ wₖ. An update of weight 0 is not looked at.

    Raises
    ------
    AggregationError
        If an update has other arrays than the start.
    """
    _check_names(start, [update.arrays for update in updates])
    found = split_average(_buffers(start), [replace(update, arrays=_buffers(update.arrays)) for update in updates])
    shares = np.asarray(weights, np.float64).tolist()
    weighted = [(update.arrays, share) for update, share in zip(updates, shares, strict=True) if share]
    rest = 1 - math.fsum(share for _, share in weighted)  # θ's own weight in the sum
    for name, origin in start.items():
        if not is_buffer(name):
            found[name] = weighted_sum(origin, [(origin, rest), *((arrays[name], share) for arrays, share in weighted)])
    return {name: found[name] for name in start}


def _buffers(arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    return {name: array for name, array in arrays.items() if is_buffer(name)}


def _check_names(start: Arrays, models: Sequence[Arrays]) -> None:
    for arrays in models:
        check_names(arrays, start)

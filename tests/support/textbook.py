"""Textbook programs, step by step: what ours must agree with, and its speed."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from curvfed.tasks.generated import uniform_points

Points = Any  # NumPy arrays (..., 2), whose operators are typed as anything


def plain_decode(symbols: list[int], prime: int, num_bins: int) -> dict[int, int]:
    """Value by bin: the shortest recurrence, a look at every bin, Forney's formula."""
    connection = berlekamp_massey(symbols, prime)
    degree = len(connection) - 1
    omega = [
        sum(connection[j] * symbols[i - j] for j in range(i + 1)) % prime for i in range(degree)
    ]
    values = {}
    for place in range(1, num_bins + 1):
        inverse = pow(place, -1, prime)
        if _at(connection, inverse, prime) == 0:
            slope = _at([power * c for power, c in enumerate(connection)][1:], inverse, prime)
            values[place] = -place * _at(omega, inverse, prime) * pow(slope, -1, prime) % prime
    return values


def berlekamp_massey(symbols: list[int], prime: int) -> list[int]:
    """Coefficients c, c₀ = 1, of the shortest recurrence Σⱼ cⱼ S_{i−j} = 0."""
    now, before, length, gap, last = [1], [1], 0, 1, 1
    for i, symbol in enumerate(symbols):
        error = (
            symbol + sum(now[j] * symbols[i - j] for j in range(1, min(length, len(now) - 1) + 1))
        ) % prime
        if error == 0:
            gap += 1
            continue
        shifted = [0] * gap + [error * pow(last, -1, prime) * c for c in before]
        size = max(len(now), len(shifted))
        after = [
            (a - b) % prime for a, b in zip(_padded(now, size), _padded(shifted, size), strict=True)
        ]
        if 2 * length <= i:
            before, last, length, gap = now, error, i + 1 - length, 1
        else:
            gap += 1
        now = after
    return _padded(now, length + 1)[: length + 1]


def _padded(coefficients: list[int], size: int) -> list[int]:
    return coefficients + [0] * (size - len(coefficients))


def _at(coefficients: list[int], point: int, prime: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * point + coefficient) % prime
    return value


def sample(num: int, radius: float = 0.95) -> Points:
    """Points spread evenly over a hyperbolic disc of this radius, as in the paper."""
    return uniform_points(num, radius, -1.0, np.random.default_rng(0))


def graham_scan(points: Points, curvature: float = -1.0) -> list[int]:
    """Pan et al., Algorithms 1 and 2, step by step, in arrays where all points move."""
    start = int((points**2).sum(axis=1).argmax())
    normal = -_log(points[start], np.zeros(2), curvature)
    tangent = np.array([-normal[1], normal[0]])
    others = np.flatnonzero((points != points[start]).any(axis=1))
    logs = _log(points[start], points[others], curvature)
    angles = np.arctan2(_cross(tangent, logs), logs @ tangent)
    order = np.lexsort((-np.linalg.norm(logs, axis=1), angles))
    farthest = np.append(True, np.diff(angles[order]) > 0)
    stack = [start]
    for index in others[order[farthest]].tolist():
        while (
            len(stack) > 1
            and _ccw(points[stack[-2]], points[stack[-1]], points[index], curvature) <= 0
        ):
            stack.pop()
        stack.append(index)
    return stack


def _ccw(x: Points, t: Points, z: Points, curvature: float) -> float:
    first, second = _log(x, t, curvature), _log(x, z, curvature)
    return float(_cross(first / np.linalg.norm(first), second / np.linalg.norm(second)))


def _log(p: Points, x: Points, curvature: float) -> Points:
    """Eq. 1, with the Möbius addition of Eq. 3."""
    k, p_square, x_square = -curvature, p @ p, (x * x).sum(axis=-1, keepdims=True)
    inner = -(x * p).sum(axis=-1, keepdims=True)
    moved = (1 + 2 * k * inner + k * x_square) * -p + (1 - k * p_square) * x
    moved /= 1 + 2 * k * inner + k**2 * p_square * x_square
    norm = np.linalg.norm(moved, axis=-1, keepdims=True)
    return (1 - k * p_square) / np.sqrt(k) * np.arctanh(np.sqrt(k) * norm) * moved / norm


def _cross(a: Points, b: Points) -> Points:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def prototypes_by_descent(classes: int, dim: int, steps: int, rate: float = 0.1) -> torch.Tensor:
    """Unit vectors (C, d) by descent on the mean largest cosine, HyperFed, Eq. 5."""
    points = torch.randn(classes, dim, generator=torch.Generator().manual_seed(0)).requires_grad_()
    optimizer = torch.optim.SGD([points], rate)
    own = 2 * torch.eye(classes)
    for _ in range(steps):
        unit = F.normalize(points)
        optimizer.zero_grad()
        (unit @ unit.T - own).max(dim=1).values.mean().backward()
        optimizer.step()
    return F.normalize(points.detach())


def forman_by_counting(edges: Any, num_nodes: int, triangles: bool) -> dict[tuple[int, int], int]:
    """Forman–Ricci curvature by both directions of each edge, over sets of neighbours."""
    neighbours: dict[int, set[int]] = {i: set() for i in range(num_nodes)}
    for i, j in edges:
        neighbours[i].add(j)
        neighbours[j].add(i)
    return {
        (i, j): (
            4
            - len(neighbours[i])
            - len(neighbours[j])
            + 3 * triangles * len(neighbours[i] & neighbours[j])
        )
        for i in range(num_nodes)
        for j in neighbours[i]
    }


def both_directions(edges: Any) -> torch.Tensor:
    """Columns (2, 2m) of both directions of each edge."""
    edges = list(edges)
    return (
        torch.tensor([*edges, *[(j, i) for i, j in edges]], dtype=torch.int64)
        .reshape(-1, 2)
        .T.contiguous()
    )

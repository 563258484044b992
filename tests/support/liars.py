"""Clients that lie about their points: on the rim, noise, shuffled labels, switched names, aimed at a
class, or turned half around."""

import numpy as np

Part = tuple[np.ndarray, np.ndarray]


def lied(part: Part, how: str, classes: int, seed: int) -> Part:
    """What a client of the disc of curvature -1 says for its points (n, 2) and labels (n,)."""
    points, labels = part
    rng = np.random.default_rng(seed)
    turn = rng.uniform(0, 2 * np.pi, len(points))
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    if how == "aimed":  # class 0 is said to be where class 1 is, by all who lie
        there = points[labels == 1]
        said = (
            there[rng.integers(len(there), size=int((labels == 0).sum()))]
            if len(there)
            else points[labels == 0]
        )
        return np.concatenate([said, points[labels != 0]]), np.concatenate(
            [labels[labels == 0], labels[labels != 0]]
        )
    if how == "negative":
        return -points, labels
    if how == "rim":
        return 0.998 * circle, labels
    if how == "noise":
        return 0.95 * np.sqrt(rng.uniform(0, 1, (len(points), 1))) * circle, labels
    return points, (
        rng.permutation(labels) if how == "shuffled" else rng.permutation(classes)[labels]
    )

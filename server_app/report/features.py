"""Features and prototypes of many dimensions in the plane."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from curvfed.geometry import poincare
from curvfed.server_app.directory.global_test_file import GlobalTest
from curvfed.server_app.report.units import percent

Array = NDArray[np.float64]

MOST_FEATURES = 2000
"""Features that are drawn."""

FAR = 2.0
NEAR = 1.2
"""Median length of tangent vectors beyond which they are shortened, and the median after that; by
exp0 these lengths become norms of 0.96 and 0.83."""


@dataclass(frozen=True, eq=False)
class View:
    """Features and prototypes in the plane.

    Attributes
    ----------
    kept : int array (m,)
        The features that are drawn: those that are finite.
    points : array (m, 2)
    prototypes : array (C, 2), or (0, 2) for none
    disc : bool
        Whether they are points of the Poincaré disc.
    how : str
        How they were brought to the plane, in a sentence or two.
    """

    kept: NDArray[np.intp]
    points: Array
    prototypes: Array
    disc: bool
    how: str


def project(test: GlobalTest) -> View | None:
    """Bring features and prototypes to the plane; equal input gives equal output, sign included.

    Points of space "poincare" in up to two dimensions are drawn as they are, all others by
    principal components.

    Parameters
    ----------
    test : GlobalTest
        Its first `MOST_FEATURES` features are drawn, and its prototypes, except in a flat space:
        there the rows of a classifier are not points among the features.

    Returns
    -------
    View or None
        None if there are not two finite features.
    """
    features = test.features[:MOST_FEATURES]
    kept = np.flatnonzero(np.isfinite(features).all(axis=1))
    if len(kept) < 2 or not features.shape[1]:
        return None
    features = features[kept]
    dimensions = features.shape[1]
    prototypes = test.prototypes
    if prototypes is None or test.space == "flat" or not np.isfinite(prototypes).all():
        prototypes = np.empty((0, dimensions))
    if test.space == "sphere":
        features, prototypes = (
            rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
            for rows in (features, prototypes)
        )
    if test.space == "poincare":
        prototypes = np.asarray(poincare.log0(torch.from_numpy(prototypes), -1.0))
        if dimensions <= 2:
            how = "This is the Poincaré disc itself, whose rim is infinitely far"
            return _in_disc(kept, _two_columns(features), _two_columns(prototypes), how)
    what = {
        "flat": "features",
        "sphere": "features on the unit sphere",
        "poincare": "tangent vectors at the origin",
        "prototypes": "features",
    }
    whole = f"{what[test.space]} ({dimensions} dimensions)"
    centre = 0.0 if test.space == "poincare" else features.mean(axis=0)
    basis, share = _plane(features - centre)
    points = (features - centre) @ basis
    stars = (prototypes - centre) @ basis
    how = f"The two principal components of the {whole}, with {percent(share)} of their squares"
    if test.space == "poincare":
        return _in_disc(kept, points, stars, f"{how}, brought to the disc by exp0")
    return View(kept, points, stars, False, how)


def _in_disc(kept: NDArray[np.intp], points: Array, stars: Array, how: str) -> View:
    """The view of tangent vectors (m, 2) and (C, 2); the former are shortened if they would all lie
    on the rim."""
    median = float(np.median(np.linalg.norm(points, axis=1)))
    nearer = 1.0
    if median > FAR:
        nearer = median / NEAR
        how += (
            f". The dots are drawn {nearer:.3g} times nearer to the centre than they are, which is"
            " almost on the rim"
        )
    points, stars = (
        np.asarray(poincare.exp0(torch.from_numpy(rows), -1.0)) for rows in (points / nearer, stars)
    )
    return View(kept, points, stars, True, how)


def _plane(rows: Array) -> tuple[Array, float]:
    """The plane (d, 2) of the two principal components of rows (m, d), whose largest entries are
    positive, and its share of the sum of squares."""
    basis = _two_columns(np.linalg.eigh(rows.T @ rows)[1][:, ::-1])
    basis = basis * np.where(basis[np.abs(basis).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    share = np.square(rows @ basis).sum() / max(np.square(rows).sum(), 1e-300)
    return basis, float(share)


def _two_columns(rows: Array) -> Array:
    """The first two columns, 0 where there are none."""
    return np.pad(rows[:, :2], ((0, 0), (0, max(2 - rows.shape[1], 0))))

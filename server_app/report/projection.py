"""Two dimensions of many: where features and prototypes are drawn."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from curvfed.geometry import poincare
from curvfed.server_app.directory.global_test_file import GlobalTest
from curvfed.server_app.report.units import percent

Array = NDArray[np.float64]

MOST_FEATURES = 2000
"""Features that are drawn."""

FAR, NEAR = 2.0, 1.2
"""Median length of tangent vectors beyond which they are drawn shorter, and what it is then: exp0 of these has norms 0.96
and 0.83."""

NEIGHBOURS = 15
"""UMAP's own number. Fewer features than twice that have no neighbourhoods to speak of."""

ALIKE = 0.5
"""Share of the first component's squares from which another counts as much."""

_CURVATURE = -1.0


@dataclass(frozen=True, eq=False)
class View:
    """A picture of features in the plane.

    Attributes
    ----------
    kept : int array (m,)
        Which features are drawn: those that are finite.
    points : array (m, 2)
    prototypes : array (C, 2), or (0, 2) for none
    disc : bool
        Whether these are points of the Poincaré disc.
    axes : (str, str)
        What the coordinates are.
    how : str
        The same in a sentence or two.
    """

    kept: NDArray[np.intp]
    points: Array
    prototypes: Array
    disc: bool
    axes: tuple[str, str]
    how: str


def project(test: GlobalTest) -> View | None:
    """Bring features and prototypes to the plane; equal input gives equal output, sign included.

    Parameters
    ----------
    test : GlobalTest
        Of which the first `MOST_FEATURES` features are drawn, and the prototypes, but for those of a flat space: there the
        rows of a classifier are no points among the features.

    Returns
    -------
    View or None
        None if there are not two finite features. In space "poincare" of up to two dimensions, the points themselves. Else
        by UMAP where it is installed, and otherwise by principal components.
    """
    features = test.features[:MOST_FEATURES]
    kept = np.flatnonzero(np.isfinite(features).all(axis=1))
    if len(kept) < 2 or not features.shape[1]:
        return None
    features, labels = features[kept], test.labels[kept]
    prototypes = test.prototypes
    if prototypes is None or test.space == "flat" or not np.isfinite(prototypes).all():
        prototypes = np.empty((0, features.shape[1]))
    if test.space == "poincare" and features.shape[1] <= 2:
        how = "This is the Poincaré disc itself, whose rim is infinitely far"
        return _in_disc(kept, _padded(features), _log0(_padded(prototypes)), how)
    if test.space == "sphere":
        features, prototypes = _unit(features), _unit(prototypes)
    elif test.space == "poincare":
        prototypes = _log0(prototypes)
    what = {"flat": "features", "sphere": "features on the unit sphere", "poincare": "tangent vectors at the origin"}
    whole = f"{what[test.space]} ({features.shape[1]} dimensions)"
    umap = _umap()
    if umap is not None and len(features) >= 2 * NEIGHBOURS:
        metric = "euclidean" if test.space == "flat" else "cosine"
        placed = _by_umap(umap, np.concatenate([features, prototypes]), metric)
        how = f"UMAP of the {whole} by their {metric} distance: who is near whom says more than how far"
        return View(kept, placed[: len(features)], placed[len(features) :], False, ("UMAP 1", "UMAP 2"), how)
    centre = 0.0 if test.space == "poincare" else features.mean(axis=0)
    basis, share, components = _plane(features - centre, labels)
    points, stars = (features - centre) @ basis, (prototypes - centre) @ basis
    how = f"The two principal components of the {whole}"
    if components > 2:
        how = f"A plane of the {components} principal components of the {whole}, in which the classes spread evenly"
    if test.space != "poincare":
        how += f", with {percent(share)} of the variance"
        return View(kept, points, stars, False, _axes(components), how)
    return _in_disc(kept, points, stars, f"{how}, with {percent(share)} of their squares, brought to the disc by exp0")


def _in_disc(kept: NDArray[np.intp], points: Array, stars: Array, how: str) -> View:
    """The view of tangent vectors (m, 2) and (C, 2), the former shortened where they would all be on the rim."""
    median, nearer = float(np.median(np.linalg.norm(points, axis=1))), 1.0
    if median > FAR:
        nearer = median / NEAR
        how += f". The dots are drawn {nearer:.3g} times nearer to the centre than they are, which is almost on the rim"
    return View(kept, _exp0(points / nearer), _exp0(stars), True, ("", ""), how)


def _plane(rows: Array, labels: NDArray[np.intp]) -> tuple[Array, float, int]:
    """The plane (d, 2) to draw rows (m, d) in, its share of the sum of their squares, and of how many components it is.

    It is that of the two principal components. But where more than two have squares like the first, as is so around
    prototypes that are spread evenly, which two come first is chance, and all but two classes would lie on top of each
    other: then it is the plane within all these that takes the means of the classes round a circle in their order (a
    regular polygon where they form a simplex, as prototypes may). The largest entry of a component is positive.
    """
    squares, vectors = np.linalg.eigh(rows.T @ rows)
    squares, vectors = squares[::-1], vectors[:, ::-1]
    components = max(int((squares >= ALIKE * squares[0]).sum()), min(2, len(squares)))
    basis = _padded(vectors)
    if components > 2:
        classes = np.unique(labels)
        means = np.stack([rows[labels == one].mean(axis=0) for one in classes]) @ vectors[:, :components]
        angles = 2 * np.pi * np.arange(len(classes)) / len(classes)
        turned, sizes = np.linalg.qr(means.T @ np.stack([np.cos(angles), np.sin(angles)], axis=1))
        if np.abs(np.diag(sizes)).min() > 1e-6 * np.abs(sizes).max():
            basis = vectors[:, :components] @ (turned * np.sign(np.diag(sizes)))
        else:  # fewer than three classes
            components = 2
    if components <= 2:
        basis = basis * np.where(basis[np.abs(basis).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    share = np.square(rows @ basis).sum() / max(np.square(rows).sum(), 1e-300)
    return basis, float(share), components


def _axes(components: int) -> tuple[str, str]:
    return ("first component", "second component") if components <= 2 else ("", "")


def _padded(rows: Array) -> Array:
    """The first two columns, 0 where there are none."""
    return np.pad(rows[:, :2], ((0, 0), (0, max(2 - rows.shape[1], 0))))


def _unit(rows: Array) -> Array:
    lengths: Array = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.maximum(lengths, 1e-300)


def _exp0(rows: Array) -> Array:
    return np.asarray(poincare.exp0(torch.from_numpy(rows), _CURVATURE))


def _log0(rows: Array) -> Array:
    return np.asarray(poincare.log0(torch.from_numpy(rows), _CURVATURE))


def _umap() -> Any:
    """The optional package, or None."""
    try:
        import umap
    except ImportError:
        return None
    return umap


def _by_umap(umap: Any, rows: Array, metric: str) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a seed costs it its threads
        placed = umap.UMAP(n_neighbors=NEIGHBOURS, metric=metric, random_state=0, n_jobs=1).fit_transform(rows)
    return np.asarray(placed, dtype=np.float64)

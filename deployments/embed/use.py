"""Cells of a site to disc coordinates, by a reference."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import chi2

from curvfed.deployments.embed.make import (
    NEAREST,
    WITHIN,
    Floats,
    distortion,
    interpolated,
    misfit,
    path_lengths,
    standardised,
)
from curvfed.geometry.poincare import exp0
from curvfed.tasks.errors import DataError
from curvfed.tasks.points.expression import Expression, read

MEASURED = 500
"""The most cells of which the distortion is measured."""

MANY = 0.1
"""The share of cells outside the reference's range above which a warning says so."""

USUAL = (0.75, 1.33)
"""The range of mean expression, in that of the reference, for values of one scale."""

FEWEST_GENES = 0.5
"""The share of a reference's genes that a site must have."""


@dataclass(frozen=True, eq=False)
class Reference:
    """What a reference holds: g genes, c components, n cells.

    Attributes
    ----------
    genes : list of str
    mean, deviation : (g,)
    axes : (g, c)
    components : (n, c)
        Of the cells of the graph; none in a reference by a secure sum.
    points : (n, 2)
        In the disc of curvature −1.
    scale : float
        Distance in the disc by length of path, or by distance between the first two components.
    misfit : float
        Above it, cells have expression that the components do not explain.
    variances : (c,)
        Of the components, in a reference by a secure sum.
    """

    genes: list[str]
    mean: Floats
    deviation: Floats
    axes: Floats
    components: Floats
    points: Floats
    scale: float
    misfit: float = np.inf
    variances: Floats = field(default_factory=lambda: np.empty(0))

    @classmethod
    def of_run(cls, folder: Path) -> "Reference":
        """The reference that a run of `method=pca` left. Its cells have a root mean square distance
        of 2 from the origin.

        Raises
        ------
        DataError
            It is no such run.
        """
        from curvfed.deployments.predict.trained_run import PredictError, TrainedRun

        try:
            run = TrainedRun.read(folder)
            mean, deviation, axes, variances = (
                run.arrays[name] for name in ("mean", "deviation", "axes", "variances")
            )
            genes = run.config.table("pca").names
        except (PredictError, KeyError) as error:
            raise DataError(
                f"--reference {folder} is no finished run of method=pca: {error}"
            ) from None
        none = np.empty((0, axes.shape[1]))
        return cls(
            genes,
            mean,
            deviation,
            axes,
            none,
            none[:, :2],
            2 / np.sqrt(variances[:2].sum()),
            variances=variances,
        )

    @classmethod
    def read(cls, path: Path) -> "Reference":
        """A file that `curvfed embed --make-reference` wrote, or the directory of a run of
        `method=pca`.

        Raises
        ------
        DataError
            It was not made so.
        """
        if path.is_dir():
            return cls.of_run(path)
        cells = read(path)
        try:
            kept = cells.uns["curvfed"]
            chosen = kept["graph_cells"]
            return cls(
                [str(gene) for gene in kept["genes"]],
                kept["mean"],
                kept["deviation"],
                kept["axes"],
                cells.obsm["X_curvfed_pca"][chosen],
                cells.obsm["X_poincare"][chosen],
                float(kept["scale"]),
                float(kept["misfit"]),
            )
        except (KeyError, TypeError, IndexError) as error:
            words = f"{type(error).__name__}: {error}"
            raise DataError(
                f"--reference {path} is no reference ({words}); one is made by "
                f"curvfed embed {path} --make-reference --out FILE"
            ) from None


def embed(
    given: Expression, reference: Reference, name: str, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Disc coordinates of cells, and how well they fit the reference, by their places in an
    `.h5ad`.

    Raises
    ------
    DataError
        They share too few genes with the reference.
    """
    there = set(given.genes)
    shared = [place for place, gene in enumerate(reference.genes) if gene in there]
    missing = [gene for gene in reference.genes if gene not in there]
    if missing:
        examples = ", ".join(missing[:10]) + (", ..." if len(missing) > 10 else "")
        tell(
            f"genes: {len(missing)} of the reference's {len(reference.genes)} are missing"
            f" ({examples})"
        )
    if len(shared) < FEWEST_GENES * len(reference.genes):
        raise DataError(
            f"{name} has {len(shared)} of the reference's {len(reference.genes)} genes; allowed is"
            f" at least {FEWEST_GENES:.0%}. Its names are like {', '.join(given.genes[:3])}, the"
            f" reference's like {', '.join(reference.genes[:3])}"
        )
    # A missing gene has the reference's mean, which is 0 in standard deviations.
    values = given.dense([reference.genes[place] for place in shared])
    _tell_scale(values, reference.mean[shared], tell)
    scaled = standardised(values, reference.mean[shared], reference.deviation[shared])
    components = scaled @ reference.axes[shared]
    if len(reference.points):
        points = interpolated(reference.components, reference.points, components)
        outside = _outside(reference.components, components)
    else:  # hydra's limit for small distances: the first two components are tangent vectors
        points = exp0(torch.from_numpy(reference.scale / 2 * components[:, :2]), -1.0).numpy()
        outside = (components**2 / reference.variances).sum(axis=1) > chi2.ppf(
            WITHIN, components.shape[1]
        )
    outside |= misfit(scaled, reference.axes[shared]) > reference.misfit
    chosen = np.random.default_rng(0).permutation(len(points))[:MEASURED]
    paths = path_lengths(np.concatenate([components[chosen], reference.components]))[
        : len(chosen), : len(chosen)
    ]
    error = distortion(points[chosen], paths, reference.scale) if len(chosen) > 1 else 0.0
    figures = {
        "distortion": error,
        "outside": float(outside.mean()),
        "genes_shared": len(shared),
        "genes_missing": np.array(missing, dtype=object),
    }
    usual = (
        "of the reference's own are"
        if len(reference.points)
        else "of cells with normal components would be"
    )
    tell(f"distortion: {error:.3f} (mean |disc distance / graph distance - 1|)")
    tell(
        f"outside the reference's range: {outside.mean():.1%} of {len(outside)} cells"
        f' (obs["curvfed_outside"]); {1 - WITHIN:.0%} {usual}'
    )
    if outside.mean() > MANY:
        tell(
            "warning: so many cells are outside that the coordinates say little: the cells are of"
            " other kinds than the reference's, or their values of another scale"
        )
    return {"obsm/X_poincare": points, "obs/curvfed_outside": outside, "uns/curvfed_embed": figures}


def _tell_scale(values: Floats, mean: Floats, tell: Callable[[str], None]) -> None:
    """Warn if expression (n, g) is on average far from the reference's mean (g,)."""
    ratio = float(values.mean(axis=0) @ mean / (mean @ mean))
    if not USUAL[0] < ratio < USUAL[1]:
        tell(
            f"warning: expression is {ratio:.2f} times the reference's on average, and without"
            " logarithm the shared genes of a cell sum to"
            f" {np.median(np.expm1(values).sum(axis=1)):.4g} (median): the values seem to be of"
            " another scale. Prepare them as the reference's were, with one target_sum of"
            " scanpy.pp.normalize_total"
        )


def _outside(components: Floats, new: Floats) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Cells farther from their `NEAREST`-th neighbour in the reference than `WITHIN` of its own
    cells are."""
    from sklearn.neighbors import NearestNeighbors

    near = NearestNeighbors(n_neighbors=min(NEAREST, len(components) - 1)).fit(components)
    own = near.kneighbors()[0][:, -1]  # a cell is no neighbour of itself
    return np.asarray(near.kneighbors(new)[0][:, -1] > np.quantile(own, WITHIN))

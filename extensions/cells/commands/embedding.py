"""Disc coordinates for the cells of a site, by a reference."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import chi2

from curvfed.extensions.cells.cell_files import entry, opened
from curvfed.extensions.cells.commands.make import (
    NEAREST,
    WITHIN,
    distortion,
    interpolated,
    misfit,
    path_lengths,
    standardised,
)
from curvfed.extensions.cells.expression import Expression
from curvfed.geometry.arrays import Floats
from curvfed.geometry.poincare import exp0
from curvfed.tasks.errors import DataError

SAMPLE = 500
"""Maximum number of cells for measuring the distortion."""

MAX_OUTSIDE = 0.1
"""Share of cells outside the reference's range above which a warning is printed."""

SAME_SCALE = (0.75, 1.33)
"""Range of the mean expression relative to the reference's, for values of the same scale."""

MIN_GENES = 0.5
"""Minimum share of a reference's genes in a site's cells."""


Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, eq=False)
class Reference:
    """A reference with g genes, c components and n cells.

    Attributes
    ----------
    genes : list of str
    mean, deviation : (g,)
    axes : (g, c)
    components : (n, c)
        Components of the cells of the graph; none in a reference by a secure sum.
    points : (n, 2)
        Coordinates in the disc of curvature −1.
    scale : float
        Distance in the disc per length of path, or per distance in the first two components.
    misfit : float
        Above it, the components do not explain a cell's expression.
    variances : (c,)
        Variances of the components, in a reference by a secure sum.
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
        """The reference of a run of `method=pca`. Its cells have a root mean square distance of 2
        from the origin.

        Raises
        ------
        DataError
            If it is not such a run.
        """
        from curvfed.deployments.inputs import PredictError
        from curvfed.deployments.predict.trained_run import TrainedRun

        try:
            run = TrainedRun.read(folder)
            mean, deviation, axes, variances = (
                run.arrays[name] for name in ("mean", "deviation", "axes", "variances")
            )
            genes = run.config.table("pca").names
        except (PredictError, KeyError) as error:
            raise DataError(
                f"--reference {folder} is no finished run of method=pca: {error}", key="reference"
            ) from None
        return cls(
            genes=genes,
            mean=mean,
            deviation=deviation,
            axes=axes,
            components=np.empty((0, axes.shape[1])),
            points=np.empty((0, 2)),
            scale=2 / np.sqrt(variances[:2].sum()),
            variances=variances,
        )

    @classmethod
    def read(cls, path: Path) -> "Reference":
        """A file that `curvfed embed --make-reference` wrote, or the directory of a run of
        `method=pca`.

        Raises
        ------
        DataError
            If it is neither.
        """
        if path.is_dir():
            return cls.of_run(path)
        places = ("uns/curvfed", "obsm/X_curvfed_pca", "obsm/X_poincare")
        with opened(path) as cells:
            entries = {place: entry(cells, place) for place in places if place in cells}
        try:
            stored = entries["uns/curvfed"]
            chosen = stored["graph_cells"]
            return cls(
                genes=[str(gene) for gene in stored["genes"]],
                mean=stored["mean"],
                deviation=stored["deviation"],
                axes=stored["axes"],
                components=entries["obsm/X_curvfed_pca"][chosen],
                points=entries["obsm/X_poincare"][chosen],
                scale=float(stored["scale"]),
                misfit=float(stored["misfit"]),
            )
        except (KeyError, TypeError, IndexError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise DataError(
                f"--reference {path} is no reference ({reason}); one is made by "
                f"curvfed embed {path} --make-reference --out FILE",
                key="reference",
            ) from None


def embed(
    expression: Expression, reference: Reference, name: str, report: Callable[[str], None]
) -> dict[str, Any]:
    """Disc coordinates of cells, and how well they fit the reference, by their places in an
    `.h5ad`.

    Raises
    ------
    DataError
        If they share too few genes with the reference.
    """
    genes = set(expression.genes)
    shared = [place for place, gene in enumerate(reference.genes) if gene in genes]
    missing = [gene for gene in reference.genes if gene not in genes]
    if missing:
        examples = ", ".join(missing[:10]) + (", ..." if len(missing) > 10 else "")
        report(
            f"genes: {len(missing)} of the reference's {len(reference.genes)} are missing"
            f" ({examples})"
        )
    if len(shared) < MIN_GENES * len(reference.genes):
        cell_genes = ", ".join(expression.genes[:3])
        reference_genes = ", ".join(reference.genes[:3])
        raise DataError(
            f"{name} has {len(shared)} of the reference's {len(reference.genes)} genes; allowed is"
            f" at least {MIN_GENES:.0%}. Its names are like {cell_genes}, the reference's like"
            f" {reference_genes}",
            key="few-genes",
        )
    # A missing gene has the reference's mean, which is 0 in standard deviations.
    values = expression.dense([reference.genes[place] for place in shared])
    _check_scale(values, reference.mean[shared], report)
    scaled = standardised(values, reference.mean[shared], reference.deviation[shared])
    components = scaled @ reference.axes[shared]
    points, is_outside = _place(components, reference)
    is_outside |= misfit(scaled, reference.axes[shared]) > reference.misfit
    error = _distortion(components, points, reference)
    report(f"distortion: {error:.3f} (mean |disc distance / graph distance - 1|)")
    if len(reference.points):
        comparison = "of the reference's own are"
    else:
        comparison = "of cells with normal components would be"
    share = float(is_outside.mean())
    report(
        f"outside the reference's range: {share:.1%} of {len(is_outside)} cells"
        f' (obs["curvfed_outside"]); {1 - WITHIN:.0%} {comparison}'
    )
    if share > MAX_OUTSIDE:
        report(
            "warning: so many cells are outside that the coordinates say little: the cells are of"
            " other kinds than the reference's, or their values of another scale"
        )
    figures = {
        "distortion": error,
        "outside": share,
        "genes_shared": len(shared),
        "genes_missing": np.array(missing, dtype=object),
    }
    return {
        "obsm/X_poincare": points,
        "obs/curvfed_outside": is_outside,
        "uns/curvfed_embed": figures,
    }


def _place(components: Floats, reference: Reference) -> tuple[Floats, Flags]:
    """Disc coordinates of cells, and whether they are outside the reference's range."""
    if len(reference.points):
        points = interpolated(reference.components, reference.points, components)
        return points, _outside(reference.components, components)
    # hydra's limit for small distances: the first two components are tangent vectors
    tangents = torch.from_numpy(reference.scale / 2 * components[:, :2])
    points = exp0(tangents, -1.0).numpy()
    squares = (components**2 / reference.variances).sum(axis=1)
    return points, squares > chi2.ppf(WITHIN, components.shape[1])


def _distortion(components: Floats, points: Floats, reference: Reference) -> float:
    """The distortion over a sample of the cells; 0 for a single cell."""
    if len(points) < 2:
        return 0.0
    chosen = np.random.default_rng(0).permutation(len(points))[:SAMPLE]
    paths = path_lengths(np.concatenate([components[chosen], reference.components]))
    count = len(chosen)
    return distortion(points[chosen], paths[:count, :count], reference.scale)


def _check_scale(values: Floats, mean: Floats, report: Callable[[str], None]) -> None:
    """Warn if expression (n, g) is on average far from the reference's mean (g,)."""
    ratio = float(values.mean(axis=0) @ mean / (mean @ mean))
    if not SAME_SCALE[0] < ratio < SAME_SCALE[1]:
        report(
            f"warning: expression is {ratio:.2f} times the reference's on average, and without"
            " logarithm the shared genes of a cell sum to"
            f" {np.median(np.expm1(values).sum(axis=1)):.4g} (median): the values seem to be of"
            " another scale. Prepare them as the reference's were, with one target_sum of"
            " scanpy.pp.normalize_total"
        )


def _outside(components: Floats, new: Floats) -> Flags:
    """Whether a cell is farther from its `NEAREST`-th neighbour in the reference than a share
    `WITHIN` of the reference's own cells."""
    from sklearn.neighbors import NearestNeighbors

    num_neighbours = min(NEAREST, len(components) - 1)
    near = NearestNeighbors(n_neighbors=num_neighbours).fit(components)
    distances = near.kneighbors()[0][:, -1]  # a cell is not its own neighbour
    return near.kneighbors(new)[0][:, -1] > np.quantile(distances, WITHIN)

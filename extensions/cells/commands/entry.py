"""`curvfed embed`: cells with gene expression as points in the Poincaré disc."""

from pathlib import Path
from typing import Annotated

import typer

from curvfed.deployments.application import expanded, failing
from curvfed.deployments.resources import check_output
from curvfed.deployments.terminal import open_console
from curvfed.tasks.errors import DataError


def embed(
    data: Annotated[Path, typer.Argument(metavar="FILE", parser=expanded)],
    out: Annotated[
        Path, typer.Option(parser=expanded, metavar="FILE", help="The .h5ad file to write.")
    ],
    reference: Annotated[
        Path | None,
        typer.Option(
            parser=expanded,
            metavar="FILE",
            help="A file by --make-reference, or the folder of a run of method=pca.",
        ),
    ] = None,
    make_reference: Annotated[
        bool, typer.Option("--make-reference", help="Make a reference from the cells of FILE.")
    ] = False,
    layer: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=(
                "Layer of the expression, or raw, or X; default: the first suitable one of raw, X"
                " and the only layer."
            ),
        ),
    ] = "",
) -> None:
    """Place cells with gene expression in the Poincaré disc, without pooling the sites' cells.

    curvfed embed atlas.h5ad --make-reference --out reference.h5ad
    curvfed embed site.h5ad --reference reference.h5ad --out site.embedded.h5ad

    FILE is an .h5ad of AnnData with logarithms of normalised counts. The reference
    is public: all sites use the same one, and no site's cells change it. A site's
    cells are projected by the genes, scaling and principal components of the
    reference, and get the coordinates of their nearest neighbours in it, in
    obsm["X_poincare"], curvature -1. The command prints missing genes, the distortion,
    and the share of cells outside the reference's range. The folder of a run of
    method=pca is a reference that the sites made together.

    Exit status: 0 embedded, 1 a file cannot be written, 2 wrong usage or unfit data.
    """
    if make_reference == (reference is not None):
        raise typer.BadParameter("give --reference FILE or --make-reference, one of the two")
    with failing(1, OSError), failing(2, DataError):
        check_output(out, [".h5ad"], data, *([reference] if reference else []))
        from curvfed.extensions.cells.cell_files import add_to_copy
        from curvfed.extensions.cells.commands import make
        from curvfed.extensions.cells.commands.embedding import Reference, embed
        from curvfed.extensions.cells.expression import expression, read

        console = open_console(stderr=True)

        def report(line: str) -> None:
            console.print(line, soft_wrap=True)

        cells = read(data)
        values = expression(cells, data, layer)
        report(f"{data}: {cells.n_obs} cells, their expression in {values.place}")
        if values.num_empty:
            report(
                f"warning: in {values.num_empty} cells no gene is expressed; such a cell lies"
                " anywhere, and in a reference moves the others: leave it out"
                " (scanpy.pp.filter_cells)"
            )
        if reference is None:
            added = make.make_reference(values, str(data), report)
        else:
            added = embed(values, Reference.read(reference), str(data), report)
        add_to_copy(data, out, added)
        report(f'written: {out}, with the coordinates in obsm["X_poincare"] (curvature -1)')

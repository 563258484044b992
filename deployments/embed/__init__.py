"""Cells with gene expression to points in the Poincaré disc, by a public reference alone."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from curvfed.deployments.output_file import check_output
from curvfed.tasks.errors import DataError


def main(data: Path, reference: Path | None, out: Path, layer: str = "") -> int:
    """Embed the cells of `data` by a reference, or make one of them; the exit status, 0 done, 1 a
    file cannot be written, 2 the data are unfit.

    Raises
    ------
    UsageError
        If `out` cannot be written.
    """
    check_output(out, [".h5ad"], data, *([reference] if reference else []))
    from curvfed.deployments.embed.make import make_reference
    from curvfed.deployments.embed.use import Reference, embed
    from curvfed.tasks.points.expression import add_to_copy, expression, read

    console = Console(stderr=True)

    def tell(line: str) -> None:
        console.print(escape(line), soft_wrap=True, highlight=False)

    try:
        cells = read(data)
        given = expression(cells, data, layer)
        tell(f"{data}: {cells.n_obs} cells, their expression in {given.place}")
        if given.num_empty:
            tell(
                f"warning: in {given.num_empty} cells no gene is expressed; such a cell lies"
                " anywhere, and in a reference moves the others: leave it out"
                " (scanpy.pp.filter_cells)"
            )
        if reference is None:
            added = make_reference(given, str(data), tell)
        else:
            added = embed(given, Reference.read(reference), str(data), tell)
        add_to_copy(data, out, added)
        tell(f'written: {out}, with the coordinates in obsm["X_poincare"] (curvature -1)')
    except (DataError, OSError) as error:
        console.print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
        return 2 if isinstance(error, DataError) else 1
    return 0

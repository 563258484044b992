"""Cells with gene expression to points in the Poincaré disc, by a public reference."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from curvfed.deployments.output_file import check_output


def main(data: Path, reference: Path | None, out: Path, layer: str = "") -> None:
    """Embed the cells of `data` by a reference, or make a reference from them.

    Raises
    ------
    UsageError, OSError
        If `out` cannot be written.
    DataError
        If the data are unfit.
    """
    check_output(out, [".h5ad"], data, *([reference] if reference else []))
    from curvfed.deployments.embed.make import make_reference
    from curvfed.deployments.embed.use import Reference, embed
    from curvfed.tasks.points.expression import add_to_copy, expression, read

    console = Console(stderr=True)

    def report(line: str) -> None:
        console.print(escape(line), soft_wrap=True, highlight=False)

    cells = read(data)
    values = expression(cells, data, layer)
    report(f"{data}: {cells.n_obs} cells, their expression in {values.place}")
    if values.num_empty:
        report(
            f"warning: in {values.num_empty} cells no gene is expressed; such a cell lies anywhere,"
            " and in a reference moves the others: leave it out (scanpy.pp.filter_cells)"
        )
    if reference is None:
        added = make_reference(values, str(data), report)
    else:
        added = embed(values, Reference.read(reference), str(data), report)
    add_to_copy(data, out, added)
    report(f'written: {out}, with the coordinates in obsm["X_poincare"] (curvature -1)')

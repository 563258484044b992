"""Cells with gene expression to points in the Poincaré disc, by a public reference alone."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from curvfed.tasks.errors import DataError


def main(data: Path, reference: Path | None, out: Path, layer: str = "") -> int:
    """Embed the cells of `data` by a reference, or make one of them; the exit status, 0 done, 1 it cannot be done."""
    from curvfed.deployments.embed.make import make_reference
    from curvfed.deployments.embed.use import Reference, embed
    from curvfed.tasks.points.expression import expression, read, write_cells

    console = Console(stderr=True)

    def tell(line: str) -> None:
        console.print(escape(line), soft_wrap=True, highlight=False)

    try:
        if data.resolve() == out.resolve():
            raise DataError(f"--out is {out}, the file that is read; allowed is any other")
        cells = read(data)
        tell(f"{data}: {cells.n_obs} cells")
        given = expression(cells, data, layer)
        if reference is None:
            make_reference(cells, given, str(data), tell)
        else:
            embed(cells, given, Reference.read(reference), str(data), tell)
        write_cells(cells, out)
        tell(f'written: {out}, with the coordinates in obsm["X_poincare"] (curvature -1)')
    except (DataError, OSError) as error:
        console.print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
        return 1
    return 0

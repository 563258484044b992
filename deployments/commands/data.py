"""`curvfed curvature` and `embed`: data before any run, whether the clients' graphs are curved, and
cells with gene expression as points in the Poincaré disc."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table as PrintedTable

from curvfed.deployments.application import Pairs, expanded, failing
from curvfed.deployments.arguments import read_request
from curvfed.deployments.output_file import check_output
from curvfed.tasks.errors import DataError


def curvature(
    pairs: Pairs = None,
    dimensions: Annotated[
        str, typer.Option(metavar="D,D", help="Dimensions of the spaces, with commas between.")
    ] = "2,5,10",
    nodes: Annotated[
        int,
        typer.Option(min=10, metavar="N", help="Nodes of a client whose distances are fitted."),
    ] = 300,
    to: Annotated[
        Path | None,
        typer.Option(parser=expanded, metavar="DIR", help="Folder of the page with figures."),
    ] = None,
) -> None:
    """Measure whether the clients' graphs are curved, and differently: whether tailored curvature
    can matter for these data, before any run.

    curvfed curvature dataset=cora data-dir=~/data num-supernodes=10 --to curvature
    curvfed curvature dataset=graph.pt num-supernodes=4

    For each client's graph it finds the constant curvature, negative, zero or
    positive, whose space distorts the distances between nodes least, in 2, 5 and 10
    dimensions, beside the mean Forman and Ollivier curvatures of its edges and
    Gromov's delta. It ends with the mean distortion with each client's own curvature,
    with the best common one, and in flat space. Less distortion need not mean better
    predictions: curvfed compare tells that.
    Exit status: 0 measured, 1 the page cannot be written, 2 wrong usage or unfit data.
    """
    sizes = read_dimensions(dimensions)
    request = read_request(pairs or [])
    # These imports take seconds, and a wrong key is reported at once.
    from curvfed.deployments import curvature as curvatures
    from curvfed.deployments.preflight import look_at_data

    look_at_data(request)
    console = Console()
    clients = track(
        range(request.num_supernodes),
        "clients",
        console=Console(stderr=True),
        transient=True,
    )
    measured = [curvatures.measure(request, client, sizes, nodes) for client in clients]
    graphs = [graph for graph in measured if graph is not None]
    if not graphs:
        raise typer.BadParameter(
            f"no client has a connected graph with more than {max(sizes)} nodes"
        )
    for table in curvatures.tables(graphs, sizes):
        printed = PrintedTable(*table.heads, *table.columns)
        for names, cells in table.rows:
            printed.add_row(*names, *(cell.text for cell in cells))
        console.print(printed)
    if len(graphs) < len(measured):
        console.print(f"{len(measured) - len(graphs)} clients have too few connected nodes")
    for size in sizes:
        for sentence in curvatures.sentences(graphs, size):
            console.print(escape(sentence), highlight=False)
    if to is not None:
        with failing(1, OSError):
            path = curvatures.write_page(graphs, sizes, request.config.dataset, to)
        console.print(escape(f"page: {path}"), soft_wrap=True, highlight=False)


def read_dimensions(text: str) -> list[int]:
    """The numbers of dimensions.

    Raises
    ------
    typer.BadParameter
    """
    try:
        sizes = [int(word) for word in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise typer.BadParameter(
            f"--dimensions is {text!r}; allowed are whole numbers, 1 or more, with commas between"
        )
    return list(dict.fromkeys(sizes))


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
        from curvfed.deployments.embed import make
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

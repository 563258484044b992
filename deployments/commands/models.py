"""`curvfed predict` and `adapt`: a trained model on data, and fitted to a new client's data;
`curvfed curvature` and `embed`: data before any run, whether the clients' graphs are curved, and
cells with gene expression as points in the Poincaré disc."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from curvfed.deployments.application import (
    Pairs,
    StatePath,
    Uncalibrated,
    expanded,
    failing,
)
from curvfed.deployments.arguments import Request, UsageError, read_request
from curvfed.deployments.resources import check_output
from curvfed.strategies.base.figures import VALIDATION, find
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.errors import DataError
from curvfed.tasks.kinds import KINDS
from curvfed.tasks.registry import is_file_name

if TYPE_CHECKING:
    from curvfed.server_app.report.page import Table as PageTable


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
    """Measure whether the clients' graphs are curved, and differently; or what the shape of a
    hierarchy lets expect of curvature, before any run.

    curvfed curvature dataset=cora data-dir=~/data num-supernodes=10 --to curvature
    curvfed curvature dataset=graph.pt num-supernodes=4
    curvfed curvature tree.tsv

    For each client's graph it finds the constant curvature, negative, zero or
    positive, whose space distorts the distances between nodes least, in 2, 5 and 10
    dimensions, beside the mean Forman and Ollivier curvatures of its edges and
    Gromov's delta. It ends with the mean distortion with each client's own curvature,
    with the best common one, and in flat space, and the number of graphs that are curved:
    their curvature lowers the distortion, Kruskal's stress, by more than 1 point. Less
    distortion need not mean better predictions: curvfed compare tells that.
    Of links it counts, for each relation, the entities with several direct parents,
    and gives the gain that was measured on hierarchies with such a share.
    Exit status: 0 measured, 1 the page cannot be written, 2 wrong usage or unfit data.
    """
    sizes = read_dimensions(dimensions)
    request = _curvature_request(pairs or [])
    expectation = KINDS[request.task].part("expectation")
    if expectation is not None:
        _print_expectation(request, expectation)
        return
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
        _print(table, console)
    if len(graphs) < len(measured):
        console.print(f"{len(measured) - len(graphs)} clients have too few connected nodes")
    for size in sizes:
        for sentence in curvatures.sentences(graphs, size):
            console.print(escape(sentence), highlight=False)
    if to is not None:
        with failing(1, OSError):
            path = curvatures.write_page(graphs, sizes, request.config.dataset, to)
        console.print(escape(f"page: {path}"), soft_wrap=True, highlight=False)


def _curvature_request(words: Sequence[str]) -> Request:
    """The request of `curvfed curvature`, whose words may be the path of a file or folder of data.

    Raises
    ------
    UsageError, ConfigError
        If several paths are named, or the data are neither graphs of nodes nor links.
    """
    paths = [word for word in words if _is_data(word)]
    if len(paths) > 1:
        raise UsageError(f"{', '.join(paths)}: allowed is one data set", key="several-data-sets")
    pairs = [f"dataset={_as_path(word)}" if _is_data(word) else word for word in words]
    try:
        return read_request(pairs)
    except ConfigError as error:
        if error.kind != "dataset-with-method":
            raise
        # Whatever the method could do with other data, the command needs a graph or links.
        data = str(error).partition(", but ")[0]
    for kind in KINDS.values():
        if kind.method:
            with contextlib.suppress(ConfigError):
                return read_request([*pairs, f"method={kind.method}"])
    raise UsageError(
        f"{data}, but curvfed curvature measures graphs and links: allowed is a data set of nodes,"
        " such as cora or trees, a .pt file with a graph, or a file of links",
        key="not-a-graph",
    )


def _is_data(word: str) -> bool:
    is_path = Path(word).expanduser().exists() or is_file_name(word)
    return "=" not in word and not word.endswith(".toml") and is_path


def _as_path(word: str) -> str:
    """The path so that it is not read as a data set's name."""
    return word if Path(word).suffix or "/" in word else f"./{word}"


def _print_expectation(request: Request, expectation: Any) -> None:
    """Print what the data of a run let expect of curvature."""
    from curvfed.deployments.preflight import look_at_data

    _, first_data = look_at_data(request)
    console = Console()
    expected = expectation(request.resolved)
    if expected is None:
        raise UsageError(
            f'dataset = "{request.config.dataset}" holds graphs, whose edges are no hierarchy;'
            " leave out method=, and the curvature of the graphs is measured",
            key="not-a-hierarchy",
        )
    _print(expected.table, console)
    for note in getattr(first_data, "notes", []):
        console.print(escape(f"note: {note}"), highlight=False, soft_wrap=True)
    console.print(escape(expected.sentence()), highlight=False, soft_wrap=True)
    console.print(escape(expected.advice), highlight=False)


def _print(table: "PageTable", console: Console) -> None:
    printed = Table(*table.heads, *table.columns)
    for names, cells in table.rows:
        printed.add_row(*map(escape, [*names, *(cell.text for cell in cells)]))
    console.print(printed)


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
        from curvfed.deployments.embed import Reference, embed, make
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


def predict(
    folder: Annotated[Path, typer.Argument(metavar="RUN")],
    data: Annotated[str, typer.Argument(metavar="DATA")],
    client: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Use this client's model, and its part of the run's own data set."
        ),
    ] = None,
    state_path: StatePath = None,
    uncalibrated: Uncalibrated = False,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=expanded,
            metavar="FILE",
            help="A .csv, .tsv or .json file, or an .h5ad if DATA is one; default: CSV to the"
            " standard output.",
        ),
    ] = None,
    show: Annotated[
        str, typer.Option(help="Of links: tails, neighbours or hierarchy.", metavar="WHAT")
    ] = "tails",
    most: Annotated[
        int, typer.Option(metavar="N", help="Of links: tails or neighbours of each entity.")
    ] = 10,
    known: Annotated[
        str | None,
        typer.Option(
            metavar="LINKS",
            help="Links that are no tails to show: a file, or the name of the run's data set.",
        ),
    ] = None,
) -> None:
    """Predict with a trained model.

    curvfed predict RUN images/ --out predictions.csv
    curvfed predict RUN graph.pt --client 3
    curvfed predict RUN cora --client 3
    curvfed predict RUN heads.tsv --known mammals

    RUN is a run directory, or the name of one in ~/curvfed/results. DATA is the name of the run's
    data set, or new data:
    - graphs: a .pt file of a graph or of a list of graphs, a folder in the TU
      collection's layout, or a folder of OGB. With the run's data set --client names the
      part;
    - images: a file, a folder of files, or a folder per class, which also gives the
      accuracy, as does a format of docs/data.md (MedMNIST, LEAF, CIFAR,
      TinyImageNet, Hugging Face). With the run's data set --client names the part;
      without it these are the global test images;
    - points in the disc: an .npz, .csv or .h5ad file, with or without classes, or a
      folder saved by Hugging Face's datasets. The run's data set stands for its global
      test points. There is no --client;
    - links: a .tsv or .csv file of heads, or of heads and relations. The run's data set stands
      for all entities. --show neighbours gives the nearest entities of each, --show hierarchy its
      distance from the origin and the nearest entity that is nearer to the origin.

    The model is that of the last aggregation, with the calibrated classifier if
    there is one. With --client it is that client's own: its fine-tuned model if
    there is one, otherwise the shared parameters with its personal ones.

    The CSV has a row per node, graph, image or point: its number, path or name of the cell, class,
    probability; for links a row per head and tail, with its rank and score. An .h5ad is DATA with
    obs["curvfed_label"], obs["curvfed_probability"] and obs["curvfed_unknown"]. The probability
    is the softmax of the logits, for an SVM Platt's scaling of its margins. It is not
    calibrated for hyperfed, whose logits are negative distances to the prototypes, and for
    spherefed, whose logits are cosines.

    Exit status: 0 predicted, 1 it cannot be done, 2 wrong usage.
    """
    from curvfed.deployments import predict as trained
    from curvfed.deployments.predict.prediction import check_out, write_prediction

    options = trained.Options(show, most, known)
    with failing(1, *trained.EXPECTED, OSError), failing(2, UsageError):
        check_out(out, data)
        run = trained.TrainedRun.read(folder)
        prediction = trained.predict(run, data, client, state_path, not uncalibrated, options)
        write_prediction(prediction.table(), data, out)
    console = Console(stderr=True)
    for name, value in prediction.notes.items():
        console.print(f"{name}: {escape(value)}", soft_wrap=True, highlight=False)


SCORES = ("score", "accuracy", VALIDATION)
"""The printed scores of the client."""


def adapt(
    folder: Annotated[Path, typer.Argument(metavar="RUN")],
    data: Annotated[str, typer.Argument(metavar="DATA")],
    out: Annotated[Path, typer.Option(parser=expanded, metavar="DIR", help="The folder to make.")],
    client: Annotated[
        int | None,
        typer.Option(metavar="N", help="The client's number; default: the next free number."),
    ] = None,
) -> None:
    """Join a finished run: train a client's personal part on its own data, with the shared part
    fixed.

    curvfed adapt RUN graph.pt --out joined
    curvfed adapt RUN cora --client 8 --out joined

    RUN is as for predict. DATA is the client's own, a .pt file, a folder, or a format of
    docs/data.md (MedMNIST, LEAF, CIFAR, OGB, Hugging Face), or the run's data set, of
    which --client names a part that no client of the run had. The command prints the
    client's scores, and how to predict with DIR.

    Exit status: 0 adapted, 1 it cannot be done, 2 wrong usage.
    """
    # These imports take seconds, and help shows at once.
    from curvfed.deployments.adapt import adapt as adapt_run
    from curvfed.deployments.predict import EXPECTED, TrainedRun
    from curvfed.strategies.base.training import TrainingError

    with failing(1, *EXPECTED, TrainingError, OSError), failing(2, UsageError):
        number, scores = adapt_run(TrainedRun.read(folder), data, out, client)
    table = Table(f"client {number}", "before", "after")
    for name in SCORES:
        if name in scores:
            figure = find(name)
            table.add_row(
                figure.words, figure.text(scores[f"{name} before"]), figure.text(scores[name])
            )
    Console(stderr=True).print(table)
    print(f"curvfed predict {out} {data} --client {number}")

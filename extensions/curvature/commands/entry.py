"""`curvfed curvature`: whether the clients' graphs are curved, and the gain that the shape of a
hierarchy lets expect, before any run."""

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from curvfed.deployments.application import Pairs, expanded, failing
from curvfed.deployments.arguments import NUM_SUPERNODES, Request, UsageError, read_request
from curvfed.deployments.terminal import open_console
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.amounts import amount
from curvfed.tasks.kinds import KINDS
from curvfed.tasks.registry import is_file_name
from curvfed.tasks.stored_files import write_fault

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
    """Measure whether the clients' graphs are curved, and differently; or the gain from curvature
    to expect from the shape of a hierarchy, before any run.

    curvfed curvature dataset=cora data-dir=~/data num-supernodes=10 --to curvature
    curvfed curvature dataset=graph.pt num-supernodes=4
    curvfed curvature tree.tsv

    For each client's graph it finds the constant curvature, negative, zero or
    positive, of the space that distorts the distances between nodes least, in 2, 5 and 10
    dimensions, and the mean Forman and Ollivier curvatures of its edges and
    Gromov's delta. It ends with the mean distortion with each client's own curvature,
    with the best common one, and in flat space, and the number of graphs that are curved:
    their curvature lowers the distortion, Kruskal's stress, by more than 1 point. So do
    random graphs with few edges, in few dimensions; and less distortion need not mean
    better predictions: curvfed compare shows that.
    For links it counts, for each relation, the entities with several direct parents,
    and gives the gain that was measured on hierarchies with such a share.
    Exit status: 0 measured, 1 the page cannot be written, 2 wrong usage or unfit data, or a
    folder of the page that cannot be made.
    """
    sizes = read_dimensions(dimensions)
    request = _curvature_request(pairs or [])
    expectation = KINDS[request.task].part("expectation")
    if expectation is not None:
        if to is not None:
            raise typer.BadParameter("--to is for graphs: links have no page with figures")
        _print_expectation(request, expectation)
        return
    if to is not None:
        _check_folder(to, "--to")
    # These imports take seconds, and a wrong key is reported at once.
    from curvfed.deployments.preflight import look_at_data
    from curvfed.extensions.curvature.commands import graphs as curvatures

    look_at_data(request)
    console = open_console()
    measured = []
    for client in _with_progress(request.num_supernodes):
        measured.append(curvatures.measure(request, client, sizes, nodes))
    graphs = [graph for graph in measured if graph is not None]
    if not graphs:
        raise typer.BadParameter(
            f"no client has a connected graph with more than {max(sizes)} nodes"
        )
    for table in curvatures.tables(graphs, sizes):
        _print(table, console)
    if len(graphs) < len(measured):
        number = len(measured) - len(graphs)
        console.print(f"{amount(number, 'client')} with too few connected nodes")
    for size in sizes:
        for sentence in curvatures.sentences(graphs, size):
            console.print(sentence)
    if to is not None:
        with failing(1, OSError):
            path = curvatures.write_page(graphs, sizes, request.config.dataset, to)
        console.print(f"page: {path}", soft_wrap=True)


def _with_progress(num_clients: int) -> Iterator[int]:
    """The clients, with a bar on stderr, or with a line for each where stderr is no terminal."""
    console = open_console(stderr=True)
    clients = range(num_clients)
    if console.is_terminal:
        yield from track(clients, "clients", console=console, transient=True)
        return
    for client in clients:
        yield client
        console.print(f"{client + 1} of {amount(num_clients, 'client')} measured")


def _curvature_request(words: Sequence[str]) -> Request:
    """The request of `curvfed curvature`; its words may be the path of a file or folder of data.

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
        if kind.comparison.curved:
            with contextlib.suppress(ConfigError):
                return read_request([*pairs, f"method={kind.comparison.curved}"])
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
    if Path(word).suffix or "/" in word:
        return word
    return f"./{word}"


def _print_expectation(request: Request, expectation: Any) -> None:
    """Print the gain from curvature to expect for the data of a run."""
    from curvfed.deployments.preflight import look_at_data

    # The shapes are those of all links, not of the first client's, and so are the notes.
    _, held = look_at_data(replace(request, num_supernodes=1))
    console = open_console()
    expected = expectation(request.resolved)
    if expected is None:
        raise UsageError(
            f'dataset = "{request.config.dataset}" holds graphs, whose edges are no hierarchy;'
            " leave out method=, and the curvature of the graphs is measured",
            key="not-a-hierarchy",
        )
    _print(expected.table, console)
    for note in getattr(held.get(0), "notes", []):
        console.print(f"note: {note}", soft_wrap=True)
    console.print(expected.sentence(), soft_wrap=True)
    console.print("This measures it on these links:")
    console.print(f"{expected.command}{_further_pairs(request)}", soft_wrap=True)


def _further_pairs(request: Request) -> str:
    """The number of clients and the folder of the data, where they are not the default ones."""
    pairs = ""
    if request.num_supernodes != NUM_SUPERNODES:
        pairs += f" num-supernodes={request.num_supernodes}"
    if data_dir := request.settings.get("data-dir"):
        pairs += f" data-dir={shlex.quote(str(data_dir))}"
    return pairs


def _print(table: "PageTable", console: Console) -> None:
    printed = Table(*table.heads, *table.columns)
    for names, cells in table.rows:
        printed.add_row(*names, *(cell.text for cell in cells))
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


def _check_folder(folder: Path, option: str) -> None:
    """Refuse a folder that cannot be made or written, before the computation; nothing stays
    created.

    Raises
    ------
    UsageError
    """
    path = folder.absolute()
    try:
        place = next(place for place in (path, *path.parents) if place.exists())
        fault = write_fault(place)
    except OSError as error:  # a folder that this user may not enter, or too long a name
        fault = str(error.strerror)
    if fault:
        raise UsageError(
            f'{option} is "{folder}", which cannot be made or written ({fault}); allowed is a'
            " folder that can",
            key="unwritable",
        )

"""The additions of extensions and other packages, such as methods, models and data sets, by their
entry points. They are imported on demand."""

import ast
import inspect
import logging
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from curvfed.tasks.amounts import with_article
from curvfed.tasks.errors import DataError
from curvfed.tasks.shipped import COMMANDS, SHIPPED

EVERYWHERE = "must be installed wherever server and clients run"

TESTS = "tests"
"""The folder of an extension's tests, which are in no wheel and no bundle."""

LOCAL = frozenset({TESTS, "commands"})
"""Folders of an extension that no server and no client of a run needs: no bundle has them."""

ENTRIES = "entry_points.toml"
"""The file in which an extension names its entry points."""

ENCODERS = "image-encoders"
"""The group of frozen networks for images; each object is a function from the value of
`images.encoder` to an `Encoder` of `curvfed.tasks.images.encoder`, or to None if the name has
another form than its own."""

MODEL_CODE = "model-code"
"""The group that recognises the code of a model that is not curvfed's: "note", a function from
its name to entries of `clients.json`, and "check", one from these, the run directory and the name,
which refuses another code."""

GRAPH_TASKS = "graph-tasks"
"""The group of training on parts of a graph: "selection", a function from a `ClientGraph` and a
share to the mask of the nodes used in training; "cut", one from a graph and its `GraphSpec` to the
cluster of each node; "clusters", the task of a graph with clusters."""

GRAPH_CURVATURES = "graph-curvatures"
"""The group of curvatures of a client's graph; see `curvfed.tasks.graphs.ricci.graph_curvature`."""

log = logging.getLogger("curvfed")

_OBJECTS: dict[str, Any] = {}
"""Objects of this process, by their places; another process must import them."""


@dataclass(frozen=True)
class DataSet:
    """A data set of another package, under an entry point of the group `curvfed.datasets`.

    Attributes
    ----------
    task : str
        A name of `curvfed.tasks.kinds.KINDS`: "nodes", "graphs", "images", "points" or "links".
    load : callable
        From the folder of the public data sets (`data-dir`) to the raw data: RawGraph, RawGraphs
        (`curvfed.tasks.graphs.data.raw`), RawImages (`curvfed.tasks.images.raw`) or RawPoints
        (`curvfed.tasks.points`). They are partitioned, split and normalised as the
        built-in data sets are.
    files : callable
        From the same folder to the files of the data set. If a file or the module changes, the
        clients' data are prepared again.
    """

    task: str
    load: Callable[[Path], Any]
    files: Callable[[Path], Iterable[Path]] = lambda folder: ()


@cache
def _scan() -> Any:
    """The entry points of all installed packages; reading them takes 15 ms for a hundred packages.

    Their type depends on the version of Python.
    """
    return entry_points()


def is_local(parts: Sequence[str]) -> bool:
    """Whether a path below the package, `extensions/NAME/…` by parts, is in a folder of `LOCAL`."""
    return parts[0] == "extensions" and not LOCAL.isdisjoint(parts[2:3])


@cache
def extension_files() -> dict[str, Path]:
    """The file `entry_points.toml` of each of curvfed's own extensions that is here, by name."""
    spec = find_spec("curvfed.extensions")
    if spec is None or not spec.submodule_search_locations:
        return {}
    (folder,) = spec.submodule_search_locations
    return {file.parent.name: file for file in sorted(Path(folder).glob(f"*/{ENTRIES}"))}


@cache
def of_extensions(kind: str) -> dict[str, str]:
    """The places of the group `curvfed.KIND` in `entry_points.toml` of curvfed's own extensions, by
    name; an extension with a deleted folder adds none."""
    places: dict[str, str] = {}
    for file in extension_files().values():
        groups = tomllib.loads(file.read_text(encoding="utf-8"))
        places |= groups.get(f"curvfed.{kind}", {})
    return places


def absent_hint(*groups: str) -> str:
    """The end of an error about an unknown name, if extensions that could know it were deleted.

    Parameters
    ----------
    groups : str
        The groups that can have the name; an extension that adds to none of them is not named.
    """
    absent = [
        name
        for name, added in SHIPPED.items()
        if name not in extension_files() and not {*groups}.isdisjoint(added)
    ]
    if not absent:
        return ""
    return (
        f" (This copy of curvfed lacks the extensions {', '.join(absent)}; an installation of the"
        " whole package has them.)"
    )


def lister(command: str) -> str:
    """The command that lists names, such as "`curvfed methods`"; "" in a copy without it."""
    return f"`curvfed {command}`" if command in additions(COMMANDS) else ""


def all_names(command: str, names: Iterable[str]) -> str:
    """Where all names are: "`curvfed COMMAND` lists all"; without that command the names
    themselves."""
    if lister(command):
        return f"{lister(command)} lists all"
    return f"known are {', '.join(names)}"


def additions(kind: str) -> list[str]:
    """The names in the group `curvfed.KIND` of curvfed's own extensions, then of other packages."""
    leave_out(kind, of_extensions(kind))
    return [*of_extensions(kind), *registered(kind)]


def addition(kind: str, name: str) -> Any:
    """Import the object with a name of `additions`.

    Raises
    ------
    DataError
        If the import fails, or no package or more than one has the name.
    """
    places = of_extensions(kind)
    if name in places:
        return imported(places[name])
    if name not in registered(kind):
        raise DataError(
            f'no package here adds "{name}" to the group curvfed.{kind}.{absent_hint(kind)}',
            key="absent-package",
        )
    return load(kind, name)


def usable(kind: str, allowed: type) -> Iterator[tuple[str, Any]]:
    """The objects of `additions` by name. One that cannot be imported or is no `allowed` is left
    out, with a warning."""
    for name in additions(kind):
        try:
            value = addition(kind, name)
        except DataError as error:
            log.warning("curvfed.%s: %s is left out: %s", kind, name, error)
            continue
        if isinstance(value, allowed):
            yield name, value
        else:
            log.warning(
                "curvfed.%s: %s is left out: it is %r; allowed is a %s.%s",
                kind,
                name,
                value,
                allowed.__module__,
                allowed.__name__,
            )


@cache
def registered(kind: str) -> dict[str, list[EntryPoint]]:
    """The entry points of the group `curvfed.KIND` of installed packages by name, without importing
    any."""
    points: dict[str, list[EntryPoint]] = {}
    for point in _scan().select(group=f"curvfed.{kind}"):
        points.setdefault(point.name, []).append(point)
    return points


def leave_out(kind: str, built_in: Iterable[str]) -> None:
    """Ignore the entry points with built-in names, and log a warning."""
    reserved = {name.lower() for name in built_in}
    for name in [name for name in registered(kind) if name.lower() in reserved]:
        places = ", ".join(point.value for point in registered(kind).pop(name))
        log.warning(
            'curvfed.%s: "%s" is a built-in name; %s is ignored and needs another name',
            kind,
            name,
            places,
        )


def load(kind: str, name: str) -> Any:
    """Import the object with a name of `registered`.

    Raises
    ------
    DataError
        If the import fails, or more than one package has the name.
    """
    points = registered(kind)[name]
    if len(points) > 1:
        places = ", ".join(point.value for point in points)
        raise DataError(
            f'more than one package has "{name}": {places}; allowed is one of them',
            key="several-packages",
        )
    return imported(points[0].value)


def register_object(value: Any, place: str) -> str:
    """Let this process find an object under a place, and return the place."""
    _OBJECTS[place] = value
    return place


def imported(place: str) -> Any:
    """The object "package.module:name", or an object of this process.

    Raises
    ------
    DataError
        If the import fails.
    """
    if place in _OBJECTS:
        return _OBJECTS[place]
    try:
        return EntryPoint("", place, "").load()
    except (Exception, SystemExit) as error:  # a program that reads its arguments may exit
        where = f"its package {EVERYWHERE}"
        if place.startswith("__main__:") or "<" in place:
            where = (
                "it was in the program that started the run, not in a module: only that program"
                " can resume the run and predict"
            )
        raise DataError(
            f'"{place}" cannot be imported here ({type(error).__name__}: {error}); {where}',
            key="import",
        ) from error


def is_model(name: str) -> bool:
    """Whether `model` names a model of another package: by an entry point, or as
    "package.module:factory".

    Keywords of the factory may follow: "package.module:factory(width=32)".
    """
    place = name.partition("(")[0]
    return ":" in place or place in registered("models")


def factory_of(name: str) -> Callable[..., Any]:
    """The factory that `model` names, with the keywords after the name.

    Raises
    ------
    DataError
        If the import fails, or the factory does not take the keywords.
    """
    place, bracket, arguments = name.partition("(")
    factory = imported(place) if ":" in place else load("models", place)
    try:
        keywords = _keywords(f"f({arguments}") if bracket else {}
    except (SyntaxError, ValueError) as error:
        raise DataError(
            f'model "{name}": allowed after the name are keywords such as (width=32); {error}',
            key="model-keywords",
        ) from None
    try:
        inspect.signature(factory).bind(None, None, **keywords)
    except TypeError as error:
        raise DataError(
            f'model "{name}" is called with two arguments and these keywords: {error}',
            key="model-keywords",
        ) from None
    except ValueError:  # a builtin lacks a signature
        pass
    return partial(factory, **keywords)


def _keywords(call: str) -> dict[str, Any]:
    tree = ast.parse(call, mode="eval").body
    if not isinstance(tree, ast.Call) or tree.args:
        raise ValueError("it is not a list of keywords")
    return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in tree.keywords}


def model(name: str, *arguments: Any) -> Any:
    """The torch module that another package's factory returns for these arguments.

    Raises
    ------
    DataError
        If the import of the factory fails, or the factory does not return a module.
    """
    factory = factory_of(name)
    try:
        module = factory(*arguments)
    except Exception as error:
        # A node sends the text of a DataError to the server; the text of this error may contain
        # data.
        log.error('model "%s": %s: %s', name, type(error).__name__, error)
        raise DataError(
            f'model "{name}" fails for {arguments} ({type(error).__name__}; the log has the text)',
            key="model-factory",
        ) from error
    if not hasattr(module, "named_parameters"):
        raise DataError(
            f'model "{name}" returns {with_article(type(module).__name__)} for {arguments};'
            " allowed is a torch.nn.Module",
            key="model-factory",
        )
    module.register_forward_hook(partial(_check_logits, name, arguments[-1]))
    return module


def _check_logits(name: str, num_classes: int, module: Any, inputs: Any, logits: Any) -> None:
    """Refuse other logits than (n, num_classes), also more columns, which training would accept."""
    shape = getattr(logits, "shape", None)
    if shape is None:
        returned = with_article(type(logits).__name__)
    else:
        # The number of rows may be that of a client's examples: it is not in the text.
        returned = f"a tensor ({', '.join(['n', *map(str, shape[1:])])})"
    if shape is None or len(shape) != 2 or shape[1] != num_classes:
        raise DataError(
            f'model "{name}" returns {returned}; allowed are logits (n, {num_classes}) of n'
            " examples",
            key="model-logits",
        )


def module_of(kind: str, name: str) -> str:
    """The module with the object of a name, in any case."""
    points = {spelled.lower(): points for spelled, points in registered(kind).items()}
    return points[name.lower()][0].module

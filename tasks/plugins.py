"""Methods, models and data sets of other packages, found by their entry points and imported when
they are needed."""

import ast
import inspect
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from curvfed.tasks.errors import DataError

TASKS = ("nodes", "graphs", "images", "points")

EVERYWHERE = "a package that brings it must be installed wherever server and clients run"

log = logging.getLogger("curvfed")

_OWN: dict[str, Any] = {}
"""Objects that this process was handed, by their places; another one must import them."""


@dataclass(frozen=True)
class DataSet:
    """A data set of another package, under an entry point of the group `curvfed.datasets`.

    Attributes
    ----------
    task : str
        "nodes", "graphs", "images" or "points".
    load : callable
        From the folder of the public data sets (`data-dir`) to the raw data, which are then cut,
        split and normalised as ours are: RawGraph, RawGraphs (`curvfed.tasks.graphs.data.raw`),
        RawImages (`curvfed.tasks.images.raw`) or RawPoints (`curvfed.tasks.points.readers`).
    files : callable
        From the same folder to the files that are read. The clients' data are prepared again when
        one of them, or the module itself, changes.
    """

    task: str
    load: Callable[[Path], Any]
    files: Callable[[Path], Iterable[Path]] = lambda folder: ()


@cache
def _scan() -> Any:  # whose type is another one from Python 3.12 on
    """The entry points of all installed packages; reading them takes 15 ms for a hundred
    packages.
    """
    return entry_points()


@cache
def found(kind: str) -> dict[str, list[EntryPoint]]:
    """The entry points of the group `curvfed.KIND`, "methods", "models" or "datasets", by name;
    none is imported."""
    points: dict[str, list[EntryPoint]] = {}
    for point in _scan().select(group=f"curvfed.{kind}"):
        points.setdefault(point.name, []).append(point)
    return points


def leave_out(kind: str, built_in: Iterable[str]) -> None:
    """Ignore the entry points that have a name of curvfed's own, and log a warning: curvfed's own
    is used."""
    ours = {name.lower() for name in built_in}
    for name in [name for name in found(kind) if name.lower() in ours]:
        places = ", ".join(point.value for point in found(kind).pop(name))
        log.warning(
            'curvfed.%s: "%s" is curvfed\'s own; left out is %s, which needs another name',
            kind,
            name,
            places,
        )


def load(kind: str, name: str) -> Any:
    """The object behind a name of `found`, imported.

    Raises
    ------
    DataError
        If it cannot be imported, or more than one package brings it.
    """
    first, *others = found(kind)[name]
    if others:
        places = ", ".join(point.value for point in (first, *others))
        raise DataError(
            f'"{name}" is brought by more than one package: {places}; allowed is one of them'
        )
    return imported(first.value)


def place_of(thing: Any, place: str) -> str:
    """Let this process find an object of its own under a place; the place."""
    _OWN[place] = thing
    return place


def imported(place: str) -> Any:
    """The object "package.module:name", or one of this process's own.

    Raises
    ------
    DataError
        If it cannot be imported here, for whatever reason.
    """
    if place in _OWN:
        return _OWN[place]
    try:
        return EntryPoint("", place, "").load()
    except Exception as error:
        where = EVERYWHERE
        if place.startswith("__main__:") or "<" in place:
            where = (
                "it was in the program that made the run, not in a module: that program alone"
                " resumes it and predicts"
            )
        raise DataError(
            f'"{place}" cannot be imported here ({type(error).__name__}: {error}); {where}'
        ) from error


def is_model(name: str) -> bool:
    """Whether `model` names a model of another package: by an entry point, or as
    "package.module:factory".

    Keywords of the factory may follow: "package.module:factory(width=32)".
    """
    place = name.partition("(")[0]
    return ":" in place or place in found("models")


def factory_of(name: str) -> Callable[..., Any]:
    """The factory that `model` names, with the keywords that follow the name.

    Raises
    ------
    DataError
        If it cannot be imported, or takes no such keywords.
    """
    place, bracket, rest = name.partition("(")
    factory = imported(place) if ":" in place else load("models", place)
    try:
        keywords = _keywords(f"f({rest}") if bracket else {}
    except (SyntaxError, ValueError) as error:
        raise DataError(
            f'model "{name}": allowed after the name are keywords such as (width=32); {error}'
        ) from None
    try:
        inspect.signature(factory).bind(None, None, **keywords)
    except TypeError as error:
        raise DataError(
            f'model "{name}" is called with two arguments and these keywords: {error}'
        ) from None
    except ValueError:  # a builtin has no signature
        pass
    return partial(factory, **keywords)


def _keywords(call: str) -> dict[str, Any]:
    tree = ast.parse(call, mode="eval").body
    if not isinstance(tree, ast.Call) or tree.args:
        raise ValueError("it is no list of keywords")
    return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in tree.keywords}


def model(name: str, *arguments: Any) -> Any:
    """The torch module that another package's factory makes of these arguments.

    Raises
    ------
    DataError
        If the factory cannot be imported, or does not make one.
    """
    factory = factory_of(name)
    try:
        made = factory(*arguments)
    except Exception as error:
        # A node sends the text of a DataError to the server; the text of this error may contain
        # data.
        log.error('model "%s": %s: %s', name, type(error).__name__, error)
        raise DataError(
            f'model "{name}" cannot be made of {arguments} ({type(error).__name__}; the log says'
            " more)"
        ) from error
    if not hasattr(made, "named_parameters"):
        raise DataError(
            f'model "{name}" makes a {type(made).__name__} of {arguments}; allowed is a'
            " torch.nn.Module"
        )
    return made


def data_set(name: str) -> DataSet | None:
    """The data set of this name, in any case; None where no package brings it.

    Raises
    ------
    DataError
        If it is not what it should be.
    """
    for spelled in found("datasets"):
        if spelled.lower() == name.lower():
            own = load("datasets", spelled)
            if isinstance(own, DataSet) and own.task in TASKS:
                return own
            raise DataError(
                f'the data set "{spelled}" is {own!r}; allowed is a curvfed.tasks.plugins.DataSet'
                f" of {', '.join(TASKS)}"
            )
    return None

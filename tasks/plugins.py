"""Methods, models and data sets of other packages, found by their entry points and imported when they are needed."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from curvfed.tasks.errors import DataError

TASKS = ("nodes", "graphs", "images", "points")

EVERYWHERE = "a package that brings it must be installed wherever server and clients run"

log = logging.getLogger("curvfed")


@dataclass(frozen=True)
class DataSet:
    """A data set of another package, under an entry point of the group `curvfed.datasets`.

    Attributes
    ----------
    task : str
        "nodes", "graphs", "images" or "points".
    load : callable
        From the folder of the public data sets (`data-dir`) to the raw data, which are then cut, split and normalised as
        ours are: RawGraph, RawGraphs (`curvfed.tasks.graphs.data.raw`), RawImages (`curvfed.tasks.images.raw`) or RawPoints
        (`curvfed.tasks.points.readers`).
    files : callable
        From the same folder to the files that are read. The clients' data are prepared again when one of them, or the
        module itself, changes.
    """

    task: str
    load: Callable[[Path], Any]
    files: Callable[[Path], Iterable[Path]] = lambda folder: ()


@cache
def _scan() -> Any:  # whose type is another one from Python 3.12 on
    """The entry points of all installed packages; reading them takes 15 ms for a hundred packages."""
    return entry_points()


@cache
def found(kind: str) -> dict[str, list[EntryPoint]]:
    """The entry points of the group `curvfed.KIND`, "methods", "models" or "datasets", by name; none is imported."""
    points: dict[str, list[EntryPoint]] = {}
    for point in _scan().select(group=f"curvfed.{kind}"):
        points.setdefault(point.name, []).append(point)
    return points


def leave_out(kind: str, built_in: Iterable[str]) -> None:
    """Ignore the entry points that have a name of curvfed's own, and log a warning: curvfed's own is used."""
    ours = {name.lower() for name in built_in}
    for name in [name for name in found(kind) if name.lower() in ours]:
        places = ", ".join(point.value for point in found(kind).pop(name))
        log.warning('curvfed.%s: "%s" is curvfed\'s own; left out is %s, which needs another name', kind, name, places)


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
        raise DataError(f'"{name}" is brought by more than one package: {places}; allowed is one of them')
    return imported(first.value)


def imported(place: str) -> Any:
    """The object "package.module:name".

    Raises
    ------
    DataError
        If it cannot be imported here, for whatever reason.
    """
    try:
        return EntryPoint("", place, "").load()
    except Exception as error:
        raise DataError(f'"{place}" cannot be imported here ({type(error).__name__}: {error}); {EVERYWHERE}') from error


def is_model(name: str) -> bool:
    """Whether `model` names a model of another package: by an entry point, or as "package.module:factory"."""
    return ":" in name or name in found("models")


def model(name: str, *arguments: Any) -> Any:
    """The torch module that another package's factory makes of these arguments.

    Raises
    ------
    DataError
        If the factory cannot be imported, or does not make one.
    """
    factory = imported(name) if ":" in name else load("models", name)
    try:
        made = factory(*arguments)
    except Exception as error:
        # A node sends the text of a DataError to the server; the text of this error may contain data.
        log.error('model "%s": %s: %s', name, type(error).__name__, error)
        raise DataError(
            f'model "{name}" cannot be made of {arguments} ({type(error).__name__}; the log says more)'
        ) from error
    if not hasattr(made, "named_parameters"):
        raise DataError(f'model "{name}" makes a {type(made).__name__} of {arguments}; allowed is a torch.nn.Module')
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
                f'the data set "{spelled}" is {own!r}; allowed is a curvfed.tasks.plugins.DataSet of {", ".join(TASKS)}'
            )
    return None

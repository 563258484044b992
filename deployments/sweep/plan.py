"""A sweep file: the settings of many runs. A list of values is an axis of a grid.

    title = "FlatLand against FedAvg"

    [settings]                              # for every run
    method = ["flatland", "fedavg"]
    seed = [0, 1, 2]
    num-rounds = 100

    [scales.smoke.settings]                 # one of several sizes (--scale); overrides the settings
    num-rounds = 30

    [[runs]]                                # optional; each overrides both, and may have own axes
    dataset = "cora"
    num-supernodes = [10, 20]

A scale may replace the common `runs`, `tables` and `figures` by its own. `[[tables]]` and
`[[figures]]` describe what `curvfed report` writes.
"""

import difflib
import hashlib
import itertools
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeGuard

from curvfed.deployments.pairs import (
    NUM_SUPERNODES,
    UsageError,
    Value,
    check_keys,
    pop_supernodes,
    read_toml,
)
from curvfed.server_app.directory.run_directory import FREE_TO_CHANGE
from curvfed.server_app.report import SUPERNODES, Plan, Planned
from curvfed.strategies.base.dotted import dotted, plain
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.all_keys import defaults
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import flatten
from curvfed.tasks.graphs.data.tu import is_path
from curvfed.tasks.points.datasets import ENDINGS

PLACES = ("data-dir", "results-dir", "run-name", "resume", "threads", "device", "round-timeout")
"""Keys that a sweep file may not have: the command line or the sweep sets them."""

NO_PART_OF_IT = FREE_TO_CHANGE.union(PLACES) - {"num-rounds", "test-data"}
"""Keys that say where and how a run is made, and so are no part of its identity."""

DEFAULTS: dict[str, Value] = defaults() | {SUPERNODES: NUM_SUPERNODES}

_OF_A_SCALE = ("settings", "runs", "tables", "figures")
_PARTS = ("title", "source", "about", "scales", *_OF_A_SCALE)


PATHS = ("dataset", "test-data", "init-from")
"""Keys whose values may be paths."""


def read_plan(path: Path, scale: str = "") -> Plan:
    """Read a sweep file.

    Raises
    ------
    UsageError
        If the file cannot be read, has unknown parts, lacks the scale, has no run, or has a key or
        value that a sweep file may not have.
    """
    content = read_toml(path)
    _check_parts(content, _PARTS, f"{path}")
    scales = _part(content, "scales", path, {})
    if scale and scale not in scales:
        raise UsageError(f"{path} has no scale {scale!r}; it has {', '.join(scales) or 'none'}")
    if scales and not scale:
        raise UsageError(f"{path} has the scales {', '.join(scales)}: name one by --scale")
    chosen = _part(scales, scale, path, {})
    _check_parts(chosen, _OF_A_SCALE, f"{path}, scale {scale}")
    common = dotted(_part(content, "settings", path, {})) | dotted(
        _part(chosen, "settings", path, {})
    )
    runs, tables, figures = (
        _part(chosen if key in chosen else content, key, path, [])
        for key in ("runs", "tables", "figures")
    )
    if not common and not any(runs):
        raise UsageError(f"{path} has no run: give it [settings], or [[runs]], or both")
    contents = cache(file_digest)
    once: dict[str, Planned] = {}
    for block in runs or [{}]:
        for settings in combinations(common | dotted(block), path):
            planned = plan_run(settings, path, contents)
            once.setdefault(planned.name, planned)
    title, source, about = (str(content.get(key, "")) for key in ("title", "source", "about"))
    return Plan(
        path,
        scale,
        title or path.stem,
        source,
        about,
        tuple(once.values()),
        tuple(tables),
        tuple(figures),
    )


def file_digest(place: Path) -> str:
    """A digest of a file, or of the files of a folder and their names; the path itself if it cannot
    be read."""
    digest = hashlib.sha256()
    try:
        place = place.expanduser()
        if not place.is_dir() and not place.is_file():  # a pipe would be waited for
            return str(place)
        for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if file.is_file():
                digest.update(str(file.relative_to(place)).encode(errors="surrogateescape"))
                with file.open("rb") as stream:
                    digest.update(hashlib.file_digest(stream, "sha256").digest())
    except (OSError, RuntimeError):  # not there; no such user
        return str(place)
    return digest.hexdigest()


def plan_run(
    settings: dict[str, Value], path: Path, contents: Callable[[Path], str] = file_digest
) -> Planned:
    """One run with these keys.

    Files and folders of the user's count by what they hold: their place may change, and what
    changes is another run's.

    Parameters
    ----------
    settings : dict
    path : Path
        The file that asks for it: relative paths are relative to its folder, and errors name it.
    contents : callable
        `file_digest`, or a cache of it for many runs.

    Raises
    ------
    UsageError
        If the number of clients is no such number; any other key that is wrong makes a run that is
        `refused`.
    """
    paths = {key: found for key in PATHS if (found := _absolute(key, settings.get(key), path))}
    given = settings | paths
    whole: dict[str, Any] = given
    try:
        number = pop_supernodes(given, NUM_SUPERNODES)
        config = parse(defaults() | given)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    except ConfigError as error:
        refused = str(error)
        stem = str(given.get("method", "run"))
    else:
        # The case of names does not matter.
        name = config.dataset if is_own_data(config.dataset) else config.dataset.lower()
        whole = flatten(config) | {"dataset": name}
        refused = ""
        stem = f"{config.method}-{Path(config.dataset).stem.lower()}"
    identity = {key: value for key, value in whole.items() if key not in NO_PART_OF_IT} | {
        SUPERNODES: number
    }
    places = {key: Path(str(whole[key])) for key in PATHS if _is_path(whole.get(key), key)}
    identity |= {key: contents(place) for key, place in places.items()}
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]
    safe = "".join(
        letter if letter.isascii() and letter.isalnum() else "-"
        for letter in stem.replace("+", "plus")
    )
    return Planned({**settings, SUPERNODES: number}, f"{safe[:60]}-{digest}", refused, paths)


def _absolute(key: str, value: Value | None, path: Path) -> str:
    """A path relative to the sweep file's folder, made absolute; "" for names and absolute
    paths.
    """
    if not _is_path(value, key) or Path(value).is_absolute() or value.startswith("~"):
        return ""
    return str((path.expanduser().parent / value).resolve())


def _is_path(value: object, key: str) -> TypeGuard[str]:
    if not isinstance(value, str):
        return False
    return is_own_data(value) if key == "dataset" else value not in ("", "auto", "none")


def is_own_data(dataset: str) -> bool:
    """Whether a data set is a file or folder of the user's, rather than a name."""
    return is_path(dataset) or Path(dataset).suffix.lower() in (".pt", *ENDINGS)


def combinations(settings: Mapping[str, Any], path: Path) -> Iterator[dict[str, Value]]:
    """All combinations of the lists, with the last key changing fastest.

    Raises
    ------
    UsageError
        For a key or a value that a sweep may not have.
    """
    axes: dict[str, list[Value]] = {}
    check_keys(settings, DEFAULTS, f"{path}: ")
    for key, value in settings.items():
        if key in PLACES:
            raise UsageError(
                f"{path}: {key!r} is not for a sweep; see --data, --results, --cpus and --gpus, the"
                " sweep sets the other keys itself"
            )
        values = value if isinstance(value, list) else [value]
        if isinstance(DEFAULTS[key], str):
            values = [plain(each, DEFAULTS[key]) for each in values]
        for one in values:
            if not isinstance(one, Value):
                raise UsageError(
                    f"{path}: {key} has {one!r}; allowed is a number, a string, true, false, or a"
                    " list of these"
                )
        if not values:
            raise UsageError(f"{path}: {key} is an empty list; allowed is one value or more")
        axes[key] = values
    for chosen in itertools.product(*axes.values()):
        yield dict(zip(axes, chosen, strict=True))


def _check_parts(table: Mapping[str, Any], allowed: Collection[str], where: str) -> None:
    for key in table:
        if key not in allowed:
            near = difflib.get_close_matches(key, allowed, n=1)
            hint = (
                f"; did you mean {near[0]!r}?"
                if near
                else "; keys of a run belong in [settings] or [[runs]]"
            )
            raise UsageError(
                f"{where}: {key!r} is not known; allowed are {', '.join(allowed)}{hint}"
            )


def _part(content: Mapping[str, Any], key: str, path: Path, empty: Any) -> Any:
    """A part of the file, a table or a list of tables as `empty` is; `empty` if the part is
    absent.
    """
    found = content.get(key, empty)
    entries = found if isinstance(found, list) else [found]
    if not isinstance(found, type(empty)) or not all(isinstance(one, Mapping) for one in entries):
        kind = f"tables, each headed by [[{key}]]" if empty == [] else "a table"
        raise UsageError(f"{path}: {key} is {found!r}, but must be {kind}")
    return found

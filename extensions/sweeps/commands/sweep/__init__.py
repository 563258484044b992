"""Many runs from one file, side by side, resumable, with all their figures in one table. A sweep
file has the settings of the runs; a list of values is an axis of a grid.

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

A scale may replace the common `runs` by its own.
"""

import hashlib
import itertools
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeGuard

from curvfed.deployments.arguments import (
    NUM_SUPERNODES,
    UsageError,
    Value,
    check_keys,
    pop_supernodes,
    read_toml,
)
from curvfed.deployments.package_files import name_hint, package_files
from curvfed.extensions.sweeps import SHIPPED
from curvfed.extensions.sweeps.commands.pages.study import SUPERNODES, Plan, Planned, data_keys
from curvfed.server_app.directory.run_name import FREE_TO_CHANGE
from curvfed.strategies.base.keys import dotted, python_value
from curvfed.strategies.config.parse import keys_not_read, parse
from curvfed.strategies.config.run_config import defaults, flatten
from curvfed.strategies.errors import ConfigError
from curvfed.tasks import plugins
from curvfed.tasks.errors import DataError, near_names
from curvfed.tasks.registry import is_own_data

PLACES = (
    "data-dir",
    "results-dir",
    "run-name",
    "resume",
    "report",
    "threads",
    "workers",
    "device",
    "round-timeout",
)
"""Keys that a sweep file cannot have: the command line or the sweep sets them."""

PLACE_KEYS = FREE_TO_CHANGE.union(PLACES) - {
    "num-rounds",
    "test-data",
    "early-stopping",
    "callbacks",
    "secure.patience",
}
"""Keys about the place and the machine of a run, which are not part of its identity."""

DEFAULTS: dict[str, Value] = defaults() | {SUPERNODES: NUM_SUPERNODES}

_SCALE_ENTRIES = ("settings", "runs")
_ENTRIES = ("title", "source", "about", "scales", *_SCALE_ENTRIES)

_NO_ENTRIES = ("tables", "figures")
"""Entries of sweep files that earlier versions had."""

LOGS = "logs"
"""The folder of the logs of the runs, beside their directories."""

PATHS = ("dataset", "test-data", "init-from")
"""Keys whose values can be paths."""


def read_plan(path: Path, scale: str = "") -> Plan:
    """Read a sweep file.

    Raises
    ------
    UsageError
        If the file cannot be read, or as `plan_of`.
    """
    return plan_of(read_toml(path), path, scale)


def plan_of(content: Mapping[str, Any], path: Path, scale: str = "") -> Plan:
    """Plan the runs of a sweep.

    Parameters
    ----------
    content : mapping
        The content of a sweep file.
    path : Path
        The file, which errors name.
    scale : str, optional

    Raises
    ------
    UsageError
        If the content has no such scale or no run, or an unknown or forbidden key or value.
    """
    _check_entries(content, _ENTRIES, f"{path}")
    scales = _entry(content, "scales", path, {})
    if scale and scale not in scales:
        raise UsageError(
            f"{path} has no scale {scale!r}; it has {', '.join(scales) or 'none'}", key="scale"
        )
    if scales and not scale:
        raise UsageError(
            f"{path} has the scales {', '.join(scales)}: name one by --scale", key="scale"
        )
    chosen = _entry(scales, scale, path, {})
    _check_entries(chosen, _SCALE_ENTRIES, f"{path}, scale {scale}")
    common = dotted(_entry(content, "settings", path, {})) | dotted(
        _entry(chosen, "settings", path, {})
    )
    runs = _entry(chosen if "runs" in chosen else content, "runs", path, [])
    if not common and not any(runs):
        raise UsageError(
            f"{path} has no run: give it [settings], or [[runs]], or both", key="no-run"
        )
    contents = cache(file_digest)
    unique: dict[str, Planned] = {}
    for block in runs or [{}]:
        for settings in combinations(common | dotted(block), path):
            planned = plan_run(settings, path, contents)
            unique.setdefault(planned.name, planned)
    return Plan(
        path=path,
        scale=scale,
        title=str(content.get("title", "")) or path.stem,
        source=str(content.get("source", "")),
        about=str(content.get("about", "")),
        runs=tuple(unique.values()),
    )


def file_digest(place: Path) -> str:
    """A digest of a file, or of a folder's files and their names; the path if it cannot be read."""
    digest = hashlib.sha256()
    try:
        place = place.expanduser()
        if not place.is_dir() and not place.is_file():  # reading a pipe would block
            return str(place)
        for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if file.is_file():
                digest.update(str(file.relative_to(place)).encode(errors="surrogateescape"))
                with file.open("rb") as stream:
                    digest.update(hashlib.file_digest(stream, "sha256").digest())
    except (OSError, RuntimeError):  # missing, or no such user
        return str(place)
    return digest.hexdigest()


def plan_run(
    settings: dict[str, Value], path: Path, contents: Callable[[Path], str] = file_digest
) -> Planned:
    """Plan a run with these keys.

    Keys that the run does not read are not part of its identity.
    Files and folders of the user are part of the identity by their content: a new place keeps the
    identity, new content changes it. So does new code of a model of the user.

    Parameters
    ----------
    settings : dict
    path : Path
        The sweep file: relative paths are relative to its folder, and errors name it.
    contents : callable
        `file_digest`, or a cache of it.

    Raises
    ------
    UsageError
        If the number of clients is wrong; any other wrong key gives a run that is `refused`.
    """
    absolute = {key: _absolute(key, settings.get(key), path) for key in PATHS}
    paths: dict[str, Value] = {key: place for key, place in absolute.items() if place}
    keys = settings | paths
    config_keys: dict[str, Any] = keys
    unread: frozenset[str] = frozenset()
    try:
        num_supernodes = pop_supernodes(keys, NUM_SUPERNODES)
        config = parse(defaults() | keys)
    except UsageError as error:
        raise UsageError(f"{path}: {error}", key="num-supernodes") from None
    except ConfigError as error:
        refused = str(error)
        stem = str(keys.get("method", "run"))
    else:
        # The case of names does not matter.
        name = config.dataset if is_own_data(config.dataset) else config.dataset.lower()
        config_keys = flatten(config) | {"dataset": name} | _model_code(config.model)
        # Tables name the data of every row, also for methods without keys for such data.
        unread = keys_not_read(config).difference(data_keys())
        config_keys |= {key: DEFAULTS[key] for key in unread & config_keys.keys()}
        refused = ""
        stem = f"{config.method}-{Path(config.dataset).stem.lower()}"
    identity = {key: value for key, value in config_keys.items() if key not in PLACE_KEYS}
    identity[SUPERNODES] = num_supernodes
    own = [key for key in PATHS if _is_path(config_keys.get(key), key)]
    identity |= {key: contents(Path(str(config_keys[key]))) for key in own}
    text = json.dumps(identity, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    safe = re.sub("[^A-Za-z0-9]", "-", stem.replace("+", "plus"))[:60]
    run_settings = {**settings, SUPERNODES: num_supernodes}
    name = f"{safe}-{digest}"
    data_digest = " ".join(str(identity[key])[:12] for key in own)
    return Planned(run_settings, name, refused, paths, data_digest, unread)


def _model_code(model: str | None) -> dict[str, str]:
    """The digest of the code of a model that is not curvfed's; empty for others, and for one that
    cannot be imported, whose run fails."""
    if "note" not in plugins.additions(plugins.MODEL_CODE):
        return {}
    try:
        return dict(plugins.addition(plugins.MODEL_CODE, "note")(model))
    except DataError:
        return {}


def _absolute(key: str, value: Value | None, path: Path) -> str:
    """The absolute path of a path relative to the sweep file's folder; "" for other values."""
    if not _is_path(value, key) or Path(value).is_absolute() or value.startswith("~"):
        return ""
    return str((path.expanduser().parent / value).resolve())


def _is_path(value: object, key: str) -> TypeGuard[str]:
    if not isinstance(value, str):
        return False
    if key == "dataset":
        return is_own_data(value)
    return value not in ("", "auto", "none")


def combinations(settings: Mapping[str, Any], path: Path) -> Iterator[dict[str, Value]]:
    """All combinations of the lists; the last key changes fastest.

    Raises
    ------
    UsageError
        For a forbidden key or value.
    """
    axes: dict[str, list[Value]] = {}
    check_keys(settings, DEFAULTS, f"{path}: ")
    for key, value in settings.items():
        if key in PLACES:
            raise UsageError(
                f"{path}: {key!r} is not for a sweep; see --data, --results, --cpus and --gpus, the"
                " sweep sets the other keys itself",
                key="place-key",
            )
        values = value if isinstance(value, list) else [value]
        if isinstance(DEFAULTS[key], str):
            values = [python_value(item, DEFAULTS[key]) for item in values]
        for item in values:
            if not isinstance(item, Value):
                raise UsageError(
                    f"{path}: {key} has {item!r}; allowed is a number, a string, true, false, or a"
                    " list of these",
                    key="value",
                )
        if not values:
            raise UsageError(
                f"{path}: {key} is an empty list; allowed is one value or more", key="value"
            )
        axes[key] = values
    for combination in itertools.product(*axes.values()):
        yield dict(zip(axes, combination, strict=True))


def _check_entries(table: Mapping[str, Any], allowed: Collection[str], where: str) -> None:
    for key in table:
        if key in _NO_ENTRIES:
            raise UsageError(
                f"{where}: a sweep file has no [[{key}]] any more, remove it; curvfed report writes"
                " one table, curves and boxes of every sweep, and results.sqlite has all figures",
                key="no-entry",
            )
        if key not in allowed:
            near = near_names(key, allowed)
            hint = "; keys of a run belong in [settings] or [[runs]]"
            if near:
                hint = f"; did you mean {near[0]!r}?"
            raise UsageError(
                f"{where}: {key!r} is not known; allowed are {', '.join(allowed)}{hint}",
                key="unknown-key",
            )


def _entry(content: Mapping[str, Any], key: str, path: Path, empty: Any) -> Any:
    """An entry of the file, a table or a list of tables like `empty`; `empty` if it is missing."""
    entry = content.get(key, empty)
    tables = entry if isinstance(entry, list) else [entry]
    is_tables = all(isinstance(table, Mapping) for table in tables)
    if not isinstance(entry, type(empty)) or not is_tables:
        kind = f"tables, each headed by [[{key}]]" if empty == [] else "a table"
        raise UsageError(f"{path}: {key} is {entry!r}, but must be {kind}", key="value")
    return entry


def find(name: str) -> Path:
    """The file of a sweep, by its path or by the name of a shipped sweep, such as
    `wire-precision`.

    Raises
    ------
    UsageError
        If it is neither.
    """
    if name.endswith(".toml"):
        return Path(name)
    try:
        return package_files(SHIPPED)[name]
    except KeyError:
        hint = name_hint(SHIPPED, name)
        if (Path(name) / "summary.json").is_file():
            page = Path(name) / "report.html"
            hint = f"of a run, in Python curvfed.load({name!r}).report() writes {page}"
        raise UsageError(
            f"{name!r} is neither a shipped sweep nor the path of a .toml file; {hint}",
            key="sweep",
        ) from None


def data_places(data: Path | None) -> dict[str, Value]:
    """The key `data-dir` of the command line.

    Raises
    ------
    UsageError
        If it is no folder.
    """
    if data is None:
        return {}
    if not data.is_dir():
        raise UsageError(f"--data: {data} is no folder", key="data-folder")
    return {"data-dir": str(data.resolve())}

"""`curvfed methods`, `datasets` and `presets`: lists, and details of one entry."""

import re
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Annotated

import typer

from curvfed.deployments.application import completed_values, failing
from curvfed.deployments.package_files import PRESETS, name_hint, package_files
from curvfed.deployments.terminal import print_data, print_rows
from curvfed.strategies.base.keys import kebab
from curvfed.strategies.base.method import Method
from curvfed.strategies.base.run_keys import folder_of
from curvfed.strategies.config.data_checks import tasks_of_dataset
from curvfed.strategies.config.parse import allowed
from curvfed.strategies.config.run_config import plain
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods import (
    METHODS,
    Listed,
    aggregation_rows,
    files,
    foreign_methods,
    listed,
)
from curvfed.tasks.errors import DataError, did_you_mean
from curvfed.tasks.plugins import absent_hint
from curvfed.tasks.public_data import PublicData
from curvfed.tasks.registry import NAMED, catalogue
from curvfed.tasks.shipped import METHOD_FOLDERS


def methods(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[METHOD]", autocompletion=lambda: completed_values("method")),
    ] = None,
) -> None:
    """List the methods, with a summary and the tasks of each, or show METHOD in detail: its source,
    its parts, and its keys with defaults and allowed values.

    curvfed methods fedprox
    """
    if name is None:
        plugins = foreign_methods()[0]
        rows = listed() | {name: Listed(row.summary, row.tasks) for name, row in plugins.items()}
        cells = [(name, row.summary, ", ".join(row.tasks)) for name, row in rows.items()]
        print_rows(("method", "what it is", "tasks"), cells)
        return
    if name in aggregation_rows():
        rule = aggregation_rows()[name]
        print_rows(
            (name, rule.summary),
            [("what it is", f"an aggregation of the server: aggregation={name} with a method")],
        )
        if keys := list(keys_of(rule)):
            print_rows(("key", "default", "allowed", "what it is"), keys)
        return
    if name not in METHODS:
        if reason := foreign_methods()[1].get(name):
            raise typer.BadParameter(f"{name!r} is left out: {reason}")
        hint = did_you_mean(name, METHODS, "`curvfed methods`")
        raise typer.BadParameter(
            f"{name!r} is not a method{hint}{absent_hint(METHOD_FOLDERS, 'aggregations')}"
        )
    row = METHODS[name]
    print_rows((name, row.summary), parts_of(name, row))
    if keys := list(keys_of(row)):
        print_rows(("key", "default", "allowed", "what it is"), keys)


def parts_of(name: str, row: Method) -> list[tuple[str, str]]:
    """The parts of a method, each with its title."""
    defaults = []
    for task, settings in row.settings.items():
        pairs = [f"{kebab(key)}={plain(value)}" for key, value in settings.items()]
        defaults.append(f"{task}: {' '.join(pairs)}")
    source = "another package"
    if name in listed():
        text = str(import_module(files()[listed()[name].file]).__doc__)
        source = " ".join(text.partition("\n\n")[0].split())
    summed = "the server sees only sums over the clients, always"
    if not row.sums_only:
        summed = "possible: the server needs only the sum of the updates"
        if row.summed_clients() == "none":
            summed = f"refused: its aggregation, {row.aggregation}, needs single updates"
    return [
        ("source", source),
        ("tasks", ", ".join(row.tasks)),
        ("models", row.space),
        ("stays at the client", ", ".join(row.personal) or "no parameter"),
        ("client half", _place(row.client)),
        ("server half", _place(row.server)),
        ("aggregation", row.aggregation),
        ("secure-sum", summed),
        ("own defaults", "\n".join(defaults) or "none: those of the task"),
    ]


def keys_of(row: Method) -> Iterable[tuple[str, str, str, str]]:
    """The method's own keys: name, default, allowed values, meaning."""
    for table, keys in row.keys.items():
        for name, field in keys.model_fields.items():
            default = "auto" if field.default is None else plain(field.default) or '""'
            yield f"{table}.{kebab(name)}", default, allowed(field), str(field.description)


def _place(half: type | str | None) -> str:
    """Where a half is written."""
    if half is None:
        return "that of fedavg"
    if isinstance(half, str):
        return half
    return f"{half.__module__}:{half.__name__}"


def datasets(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", autocompletion=lambda: completed_values("dataset")),
    ] = None,
    data_dir: Annotated[
        str,
        typer.Option(metavar="FOLDER", help="The folder of the data sets; default: as a run's."),
    ] = "",
) -> None:
    """List the data sets, with the task and the origin of each, or show NAME in detail: its files,
    whether they are on this machine, and the methods that learn from it.

    curvfed datasets cora
    """
    if name is None:
        rows = [(entry, task, _short(origin)) for entry, task, origin in catalogue()]
        print_rows(("data set", "task", "where from"), rows)
        return
    folder = folder_of(data_dir, "data")
    with failing(2, ConfigError):
        tasks = tasks_of_dataset(name, folder)
    entries = {key.lower(): row for key, row in NAMED.items()}
    entry = entries.get(name.lower())
    title = "" if entry is None else entry.title
    print_rows((name, title), _details(name, tasks, entry, folder))
    if entry is not None and entry.fetch:
        # Outside the table, which would break the line.
        print_data(f"download: {entry.command(folder)}\n")


def _details(
    name: str, tasks: Sequence[str], entry: PublicData | None, data_dir: Path
) -> Iterator[tuple[str, str]]:
    """The facts about a data set, each with its title."""
    yield "task", " or ".join(tasks)
    if entry is not None and entry.members:
        yield "data sets", ", ".join(entry.members)
    elif entry is not None and entry.folders:
        yield "where from", _short(entry.origin)
        yield "files", ", ".join(entry.files) or "those of its package"
        yield "searched in", "\n".join(map(str, entry.search_folders(data_dir)))
        yield "on this machine", _presence(entry, data_dir)
    elif entry is not None:
        yield "where from", entry.built_in
    rows = listed() | foreign_methods()[0]
    methods = [key for key, row in rows.items() if set(row.tasks) & set(tasks)]
    yield "methods", ", ".join(methods)
    for method in methods[:1]:
        yield "clients, classes", f"curvfed check method={method} dataset={name}"


def _presence(entry: PublicData, data_dir: Path) -> str:
    """Where the files of a data set are, or how they get here."""
    try:
        located = entry.locate(data_dir)
    except DataError as error:
        return str(error)
    if located is not None:
        return "yes: " + ", ".join(dict.fromkeys(str(path.parent) for path in located.files))
    if entry.fetch:
        return "no: a run downloads them"
    return f"no, and they are not published: make them by {entry.origin}"


def _short(origin: str) -> str:
    """An origin without long dotted names, which a narrow terminal breaks anywhere."""
    return re.sub(r"\b([a-z_]+)\.[a-z_.]*\b([A-Z]\w+)", r"\2 of \1", origin)


def presets(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[PRESET]", autocompletion=lambda: list(package_files(PRESETS))),
    ] = None,
) -> None:
    """List the shipped presets, which are sets of keys, or print PRESET.

    curvfed presets quick
    """
    files = package_files(PRESETS)
    if name is not None and name not in files:
        raise typer.BadParameter(f"{name!r} is no preset; {name_hint(PRESETS, name)}")
    if name is not None:
        print_data(files[name].read_text(encoding="utf-8"))
        return
    names: dict[str, list[str]] = {}
    for preset, path in files.items():
        names.setdefault(_first_sentence(path), []).append(preset)
    cells = [("\n".join(group), sentence) for sentence, group in names.items()]
    print_rows(("preset", "what it is"), cells)


def _first_sentence(path: Path) -> str:
    """The first sentence of the comment at the top of a file."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"^# format \d+ of curvfed\n", "", text, flags=re.MULTILINE)
    lines = takewhile(lambda line: line.startswith("#"), text.splitlines())
    comment = " ".join(line.removeprefix("# ") for line in lines)
    return re.split(r"(?<=\.) (?=[A-Z])|:? {3,}", comment)[0]

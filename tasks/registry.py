"""The data sets by name or path: their tasks and origins.

A configuration is checked with this file, which imports neither models nor readers.
"""

import os
from pathlib import Path

from curvfed.tasks import plugins, shipped
from curvfed.tasks.errors import DataError, did_you_mean
from curvfed.tasks.formats import (
    BY_PATH,
    FILE_ENDINGS,
    FORMATS,
    PATHS,
    UNKNOWN,
    Decision,
    decide,
)
from curvfed.tasks.graphs.data import is_path
from curvfed.tasks.kinds import ADDED, KINDS
from curvfed.tasks.public_data import PublicData, explain_reading, find_path
from curvfed.tasks.sources import GENERATED as BUILT_IN_DATA

_ROWS: dict[str, PublicData] = {}
for _, _rows in plugins.usable("public-data", dict):
    _ROWS |= _rows
for _adding in (*FORMATS, *(kind.files for kind in ADDED.values())):
    _ROWS |= _adding.sources

NAMED = BUILT_IN_DATA | _ROWS
"""The public and generated data sets, and groups of them, by name. Extensions and other packages
add them by the group `curvfed.public-data`, as dicts, or with a format or a kind of data."""

SOURCES = {name.lower(): row for name, row in NAMED.items() if not row.members}
"""The data sets by name in small letters."""

_SETS = {name.lower(): row for name, row in NAMED.items() if row.task == "graphs"}
"""The sets of graphs, and groups of them, by name in small letters."""

GENERATED = {kind.built_in for kind in KINDS.values()}
for _kind in ADDED.values():
    GENERATED |= {name for name, source in _kind.files.sources.items() if source.built_in}
"""The data sets without files."""

OWN = "own"
"""The `dataset` of a run on each node's own data."""

plugins.leave_out("datasets", NAMED)


def source_of(dataset: str) -> PublicData | None:
    """The public data set of a name, in any case, or None."""
    return SOURCES.get(dataset.lower())


def is_file_name(dataset: str) -> bool:
    """Whether a name ends like a file of data."""
    return dataset.lower().endswith(FILE_ENDINGS)


def is_own_data(dataset: str) -> bool:
    """Whether a data set is a file or folder of the user, and not a name."""
    return is_path(dataset) or is_file_name(dataset)


def decision_of(dataset: str, data_dir: Path = Path()) -> Decision | None:
    """The format of a user's file or folder; None for the name of a data set.

    Parameters
    ----------
    dataset : str
    data_dir : Path
        The folder where a path is looked up that the working folder does not hold.

    Raises
    ------
    DataError
        If it is of a kind that is not read, or of an unknown kind.
    """
    try:
        path = find_path(dataset, data_dir)
    except DataError:  # absent
        path = Path(dataset).expanduser()
    if is_named(dataset) or not (is_own_data(dataset) or path.is_file()):
        return None
    decision = decide(path)
    if decision.form is UNKNOWN:
        raise DataError(
            f"{decision.reason}; {explain_reading(dataset)}{plugins.absent_hint(*shipped.DATA)}",
            key="unknown-format",
        )
    return decision


def tasks_of(dataset: str, data_dir: Path = Path()) -> tuple[str, ...]:
    """The tasks of a named data set, or of a user's file or folder; see `decision_of`.

    Returns
    -------
    tuple of str
        Names of `curvfed.tasks.kinds.KINDS`: several for a `.pt` file, which may hold either kind
        of graphs or links, and for an absent path.

    Raises
    ------
    ValueError
        If the name is neither a data set nor a supported path, or if a list mixes tasks; names the
        nearest data set.
    """
    decision = decision_of(dataset, data_dir)
    if decision is not None:
        return decision.tasks
    if dataset.lower() == OWN:
        return tuple(KINDS)
    source = source_of(dataset)
    if source is not None:
        return (source.task,)
    if graph_sets(dataset) is not None:
        return ("graphs",)
    data_set = data_set_of_package(dataset)
    if data_set is not None:
        return (data_set.task,)
    if ending := Path(dataset).suffix:
        allowed = plugins.all_names("datasets", (*NAMED, *plugins.registered("datasets"), PATHS))
        raise ValueError(
            f'files that end in "{ending}" are not supported: {explain_reading(dataset)};'
            f" {allowed}{plugins.absent_hint(*shipped.DATA)}"
        )
    name = dataset.lower()
    plugin_names = tuple(plugins.registered("datasets"))
    names = (*NAMED, *plugin_names)
    if not dataset:
        raise ValueError("allowed is a name or a path; `curvfed datasets` lists both")
    hint = f'. Write "./{dataset}" for the folder "{dataset}"' if Path(dataset).is_dir() else ""
    similar = did_you_mean(name, names, plugins.lister("datasets"))
    advice = f"; {BY_PATH[name]}" if name in BY_PATH else similar
    raise ValueError(
        f"no such data set{hint}{advice}, and the files that are read; the package of a data set"
        f" {plugins.EVERYWHERE}; {explain_reading(dataset)}{plugins.absent_hint(*shipped.DATA)}"
    )


def partitioned_kind(task: str, dataset: str, data_dir: Path) -> str:
    """The kind of the data that are partitioned among the clients: for data made of others, such as
    links of a graph, these."""
    made_of = KINDS[task].made_of
    if not made_of or not dataset or task in tasks_of(dataset, data_dir):
        return task
    return made_of[0]


def graph_sets(text: str) -> tuple[str, ...] | None:
    """The sets of graphs that a run-config's `dataset` names, in their publisher's spelling.

    Parameters
    ----------
    text : str
        A data set, a group of them, or a list of both, separated by commas, in any case.

    Returns
    -------
    tuple of str, or None
        In the order of `text`; None if `text` is a path, or names no set of graphs.

    Raises
    ------
    DataError
        If a list names a data set twice, or something else than sets of graphs; names the item and
        the nearest data set.
    """
    if is_own_data(text):
        return None
    items = [item.strip() for item in text.split(",")]
    rows = [_SETS[item.lower()] for item in items if item.lower() in _SETS]
    if not rows:
        return None
    for item in items:
        if item.lower() not in _SETS:
            problem = _unknown_item(item, [row.title for row in rows])
            raise DataError(f'dataset is "{text}": {problem}', key="unknown-data-set")
    names = [name for row in rows for name in row.members or (row.title,)]
    doubled = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if doubled:
        raise DataError(
            f'dataset is "{text}": it names {", ".join(doubled)} twice; each may be named once',
            key="doubled-data-set",
        )
    return tuple(names)


def _unknown_item(item: str, recognised: list[str]) -> str:
    """The fault of `item` in a list of sets of graphs with the `recognised` names."""
    if not item:
        return "an item of the list is empty; single commas separate the names"
    if item.lower() in SOURCES:
        return (
            f'"{item}" is for the classification of nodes, {", ".join(recognised)} for that of'
            " graphs; a run has one task"
        )
    titles = [row.title for row in _SETS.values() if " " not in row.title]
    similar = did_you_mean(item, titles, plugins.lister("datasets"))
    return f'no set of graphs is called "{item}"{similar}'


def data_set_of_package(name: str) -> plugins.DataSet | None:
    """The data set of this name, in any case; None if no package has it.

    Raises
    ------
    DataError
        If the object is not a valid `curvfed.tasks.plugins.DataSet`.
    """
    for spelled in plugins.registered("datasets"):
        if spelled.lower() == name.lower():
            entry = plugins.load("datasets", spelled)
            if isinstance(entry, plugins.DataSet) and entry.task in KINDS:
                return entry
            raise DataError(
                f'the data set "{spelled}" is {entry!r}; allowed is a curvfed.tasks.plugins.DataSet'
                f" of {', '.join(KINDS)}",
                key="plugin-data-set",
            )
    return None


def num_sets(dataset: str) -> int:
    """The number of data sets in a run-config's `dataset`.

    Raises
    ------
    DataError
        See `graph_sets`.
    """
    return len(graph_sets(dataset) or [""])


def has_users(dataset: str, data_dir: Path) -> bool:
    """Whether the data of a path belong to users, whom the clients share by default; it is looked
    up as by `tasks_of`."""
    decision = decision_of(dataset, data_dir) if dataset else None
    return decision is not None and decision.form.has_users


def path_text(path: os.PathLike[str]) -> str:
    """A path as a run-config's `dataset`: with a separator, unlike a name."""
    text = os.fspath(path)
    if os.path.dirname(text):
        return text
    return os.path.join(os.curdir, text)


def is_named(dataset: str) -> bool:
    """Whether a run-config's `dataset` holds only names of data sets, and no path."""
    names = {name.lower() for name in (*NAMED, OWN, *plugins.registered("datasets"))}
    return all(name.strip().lower() in names for name in dataset.split(","))


def catalogue() -> list[tuple[str, str, str]]:
    """The name, task and origin of each named data set, then the allowed kinds of paths."""
    listed = [(name, row) for name, row in NAMED.items() if row.is_listed]
    listed.sort(key=lambda pair: list(KINDS).index(pair[1].task))
    rows = [(name, row.task, row.origin) for name, row in listed]
    for name, (entry, *_) in plugins.registered("datasets").items():
        rows.append((name, "see its package", f"{entry.value}, of another package"))
    rows += [
        ("own", "any", "each node's own data: its data-path, or data in memory in Python"),
    ]
    for form in FORMATS:
        rows.append(("a path", " or ".join(form.tasks), f"your own: {form.title}"))
    return rows

"""The data sets by name or path: their tasks and origins.

A configuration is checked with this file, which imports neither models nor readers.
"""

import os
from pathlib import Path

from curvfed.tasks import plugins
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
from curvfed.tasks.graphs.data import (
    GROUPS,
    LISTED,
    NAMES,
    ORIGIN,
    graph_dataset_names,
    is_path,
    tu_collection_set,
)
from curvfed.tasks.graphs.data import SOURCES as NODES
from curvfed.tasks.kinds import ADDED, KINDS
from curvfed.tasks.public_data import PublicData, explain_reading, find_path
from curvfed.tasks.sources import (
    ALIASES,
    IMAGE_SOURCES,
    POINT_SOURCES,
)

OTHERS: dict[str, PublicData] = {**IMAGE_SOURCES, **POINT_SOURCES}
for _adding in (*FORMATS, *ADDED.values()):
    OTHERS |= _adding.sources

SOURCES = NODES | {name.lower(): tu_collection_set(name) for name in NAMES} | OTHERS
"""The public and generated data sets, by name in small letters."""

BUILT_IN = (*NODES, *GROUPS, *NAMES, *OTHERS, *ALIASES)
"""The names of curvfed's data sets."""

GENERATED = {kind.built_in for kind in KINDS.values()}
for _kind in ADDED.values():
    GENERATED |= {name for name, source in _kind.sources.items() if source.built_in}
"""The data sets without files."""

OWN = "own"
"""The `dataset` of a run on each node's own data."""

plugins.leave_out("datasets", BUILT_IN)


def source_of(dataset: str) -> PublicData | None:
    """The public data set of a name, in any case, or None."""
    name = dataset.lower()
    return SOURCES.get(ALIASES.get(name, name))


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
            f"{decision.reason}; {explain_reading(dataset)}{plugins.absent_hint()}",
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
    if graph_dataset_names(dataset) is not None:
        return ("graphs",)
    data_set = data_set_of_package(dataset)
    if data_set is not None:
        return (data_set.task,)
    if ending := Path(dataset).suffix:
        raise ValueError(
            f'files that end in "{ending}" are not supported; allowed is {PATHS}, or a name:'
            f" `curvfed datasets` lists all; {explain_reading(dataset)}{plugins.absent_hint()}"
        )
    name = dataset.lower()
    plugin_names = tuple(plugins.registered("datasets"))
    names = (*BUILT_IN, *plugin_names)
    hint = f". Write ./{dataset} for the folder {dataset}" if Path(dataset).is_dir() else ""
    similar = did_you_mean(name, names, "`curvfed datasets`")
    advice = f"; {BY_PATH[name]}" if name in BY_PATH else similar
    raise ValueError(
        f"no such data set{hint}{advice};"
        f" {explain_reading(dataset)}. Also allowed are a path: {PATHS}; and the name of a data set"
        " of another package, which must be installed wherever server and clients run (here:"
        f" {', '.join(plugin_names) or 'none'}){plugins.absent_hint()}"
    )


def partitioned_kind(task: str, dataset: str, data_dir: Path) -> str:
    """The kind of the data that are partitioned among the clients: for data made of others, such as
    links of a graph, these."""
    made_of = KINDS[task].made_of
    if not made_of or not dataset or task in tasks_of(dataset, data_dir):
        return task
    return made_of[0]


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
        See `curvfed.tasks.graphs.data.graph_dataset_names`.
    """
    return len(graph_dataset_names(dataset) or [""])


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
    names = {name.lower() for name in (*BUILT_IN, OWN, *plugins.registered("datasets"))}
    return all(name.strip().lower() in names for name in dataset.split(","))


def catalogue() -> list[tuple[str, str, str]]:
    """The name, task and origin of each named data set, then the allowed kinds of paths."""
    rows = [(name, source.task, source.origin) for name, source in NODES.items()]
    for name in ("CHEM", "BIO", "SN"):
        rows.append((name, "graphs", f"{ORIGIN}: {', '.join(GROUPS[name])}"))
    rows.append(("BIO-CHEM-SN", "graphs", f"{ORIGIN}: the sets of BIO, CHEM and SN"))
    rows.append(("of the TU collection, one or several", "graphs", f"{ORIGIN}: {LISTED}"))
    rows += [(name, source.task, source.origin) for name, source in OTHERS.items()]
    for name, (entry, *_) in plugins.registered("datasets").items():
        rows.append((name, "see its package", f"{entry.value}, of another package"))
    rows += [
        ("own", "any", "each node's own data: its data-path, or data in memory in Python"),
    ]
    for form in FORMATS:
        rows.append(("a path", " or ".join(form.tasks), f"your own: {form.title}"))
    return rows

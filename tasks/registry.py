"""The data sets by name or path: their tasks and origins.

A configuration is checked with this file, which imports neither models nor readers.
"""

import os
from pathlib import Path

from curvfed.tasks import plugins
from curvfed.tasks.class_names import names_listed
from curvfed.tasks.errors import did_you_mean
from curvfed.tasks.formats import (
    BY_PATH,
    FILE_ENDINGS,
    FORMATS,
    READ_AS,
    format_of,
    is_tu_folder,
    refuse_foreign,
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
from curvfed.tasks.images import is_image_folder
from curvfed.tasks.kinds import KINDS
from curvfed.tasks.public_data import PublicData, explain_reading
from curvfed.tasks.sources import (
    ALIASES,
    ENDINGS,
    IMAGE_SOURCES,
    LINK_SOURCES,
    POINT_SOURCES,
    STORED,
)

OTHERS: dict[str, PublicData] = {**IMAGE_SOURCES, **POINT_SOURCES, **LINK_SOURCES}

SOURCES = NODES | {name.lower(): tu_collection_set(name) for name in NAMES} | OTHERS
"""The public and generated data sets, by name in small letters."""

BUILT_IN = (*NODES, *GROUPS, *NAMES, *OTHERS, *ALIASES)
"""The names of curvfed's data sets."""

PATHS = (
    "a .pt file of graphs (PyTorch Geometric's, by torch.save), a folder in the TU collection's"
    " layout, a folder with a folder of images per class,"
    f" {', '.join(dict.fromkeys(form.title for form in FORMATS))}, or a file of points with a class"
    f" for each, {', '.join(ENDINGS)}"
)
"""The kinds of paths that are data sets."""

GENERATED = {*(kind.built_in for kind in KINDS.values()), "random-tree"}
"""The data sets without files."""

OWN = "own"
"""The `dataset` of a run on each node's own data."""

plugins.leave_out("datasets", BUILT_IN)


def source_of(dataset: str) -> PublicData | None:
    """The public data set of a name, in any case, or None."""
    name = dataset.lower()
    return SOURCES.get(ALIASES.get(name, name))


def is_points_file(dataset: str) -> bool:
    """Whether a name ends like a file of points."""
    return Path(dataset).suffix.lower() in ENDINGS


def is_file_name(dataset: str) -> bool:
    """Whether a name ends like a file of data."""
    return dataset.lower().endswith(FILE_ENDINGS)


def is_own_data(dataset: str) -> bool:
    """Whether a data set is a file or folder of the user, and not a name."""
    return is_path(dataset) or is_file_name(dataset)


def _user_path(dataset: str, data_dir: Path | None) -> Path:
    """A user's file or folder in the working folder, or else in `data_dir`; if neither holds it,
    that in the working folder."""
    path = Path(dataset).expanduser()
    if data_dir is None or not is_own_data(dataset) or path.exists():
        return path
    stored = data_dir.expanduser() / path
    return stored if stored.exists() else path


def tasks_of(dataset: str, data_dir: Path | None = None) -> tuple[str, ...]:
    """The tasks of a named data set, or of a user's file or folder.

    Parameters
    ----------
    dataset : str
    data_dir : Path or None
        The folder where a path is looked up that the working folder does not hold.

    Returns
    -------
    tuple of str
        Names of `curvfed.tasks.kinds.KINDS`. A `.pt` file may hold either kind of graphs. A folder
        of another machine may hold graphs or images.

    Raises
    ------
    ValueError
        If the name is neither a data set nor a supported path, or if a list mixes tasks; names the
        nearest data set.
    """
    name = dataset.lower()
    if name == OWN:
        return tuple(KINDS)
    if name in GENERATED:
        return (SOURCES[name].task,)
    path = _user_path(dataset, data_dir)
    other = format_of(path)
    if other is not None:
        return (other.task,)
    if path.is_file():
        refuse_foreign(path)
    if name.endswith(STORED):
        return ("nodes", "graphs")
    source = source_of(dataset)
    if source is not None:
        return (source.task,)
    if is_points_file(dataset):
        return ("points",)
    if is_path(dataset) and not path.is_file():
        return _tasks_of_folder(path, dataset)
    if not is_path(dataset) and graph_dataset_names(dataset) is not None:
        return ("graphs",)
    data_set = plugins.data_set(dataset)
    if data_set is not None:
        return (data_set.task,)
    if ending := Path(dataset).suffix:
        raise ValueError(
            f'files that end in "{ending}" are not supported; allowed is {PATHS}, or a name:'
            f" `curvfed datasets` lists all; {explain_reading(dataset)}"
        )
    plugin_names = tuple(plugins.registered("datasets"))
    names = (*BUILT_IN, *plugin_names)
    hint = f". Write ./{dataset} for the folder {dataset}" if path.is_dir() else ""
    similar = did_you_mean(name, names, "`curvfed datasets`")
    advice = f"; {BY_PATH[name]}" if name in BY_PATH else similar
    raise ValueError(
        f"no such data set{hint}{advice};"
        f" {explain_reading(dataset)}. Also allowed are a path: {PATHS}; and the name of a data set"
        " of another package, which must be installed wherever server and clients run (here:"
        f" {', '.join(plugin_names) or 'none'})"
    )


def _tasks_of_folder(path: Path, dataset: str) -> tuple[str, ...]:
    """The tasks of a folder, which `dataset` names; those of an absent one are known later."""
    if not path.is_dir():
        return ("graphs", "images")
    if not any(path.glob("*")):
        raise ValueError(
            f"the folder is empty, or cannot be read; {explain_reading(dataset)}, and as a folder"
            f" because it is one; allowed is {PATHS}"
        )
    # A folder of graphs may also hold a picture.
    if is_tu_folder(path):
        return ("graphs",)
    if is_image_folder(path):
        return ("images",)
    refuse_foreign(path)
    parts = sorted(file.name for file in path.glob("*train*") if file.is_file())
    if parts:
        raise ValueError(f"the folder holds {names_listed(parts)}; {READ_AS}")
    raise ValueError(
        "the folder holds no files of the TU collection, NAME_A.txt, and no image in a folder of"
        f" its class; {explain_reading(dataset)}, and a folder is looked through for these in this"
        f" order; allowed is {PATHS}"
    )


def partitioned_kind(task: str, dataset: str, data_dir: Path) -> str:
    """The kind of the data that are partitioned among the clients: for links made of a graph, its
    nodes; a .pt file holds links."""
    if task != "links" or not dataset or dataset.lower().endswith(STORED):
        return task
    return task if task in tasks_of(dataset, data_dir) else "nodes"


def num_sets(dataset: str) -> int:
    """The number of data sets in a run-config's `dataset`.

    Raises
    ------
    DataError
        See `curvfed.tasks.graphs.data.graph_dataset_names`.
    """
    return len(graph_dataset_names(dataset) or [""])


def kind_of_path(path: Path) -> str:
    """The task of a client's own data by their path: "points", "images", "graphs", "nodes" or
    "links".

    A `.pt` file is "nodes", but may also hold graphs: the settings that shape data are the same for
    both.
    """
    if path.name.lower().endswith(STORED):
        return "nodes"
    other = format_of(path)
    if other is not None:
        return other.task
    if path.is_dir() and is_image_folder(path):
        return "images"
    refuse_foreign(path)
    return "points" if is_points_file(path.name) else "graphs"


def has_users(dataset: str, data_dir: Path) -> bool:
    """Whether the data of a path belong to users, whom the clients share by default; it is looked
    up as by `tasks_of`."""
    if not dataset or is_named(dataset):
        return False
    form = format_of(_user_path(dataset, data_dir))
    return form is not None and form.has_users


def path_text(path: os.PathLike[str]) -> str:
    """A path as a run-config's `dataset`: with a separator, unlike a name."""
    text = os.fspath(path)
    return text if os.path.dirname(text) else os.path.join(os.curdir, text)


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
        (
            "a path",
            "nodes or graphs",
            "your own: a .pt file, or a folder in the TU collection's layout",
        ),
        ("a path", "images", "your own: a folder with a folder of images per class"),
        ("a path", "points", f"your own: a file, {', '.join(ENDINGS)}"),
    ]
    for form in FORMATS:
        rows.append(("a path", form.task, f"your own: {form.title}"))
    return rows

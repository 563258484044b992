"""Which kinds of task a data set can be for, known by its name, or for a path by a glance."""

import difflib
from pathlib import Path

from curvfed.tasks import plugins
from curvfed.tasks.graphs.datasets import SOURCES
from curvfed.tasks.graphs.tu import GROUPS, NAMES, graph_dataset_names, is_path
from curvfed.tasks.images.datasets import ALIASES, source_of
from curvfed.tasks.images.datasets import SOURCES as IMAGES
from curvfed.tasks.images.folder import is_image_folder
from curvfed.tasks.points.datasets import NAMES as POINTS
from curvfed.tasks.points.datasets import is_points
from curvfed.tasks.points.readers import READERS

BUILT_IN = ("trees", *SOURCES, *GROUPS, *NAMES, *IMAGES, *ALIASES, *POINTS)
"""The names of our data sets."""

plugins.leave_out("datasets", BUILT_IN)


def tasks_of(dataset: str) -> tuple[str, ...]:
    """The tasks of a named data set, by its name alone, or of a user's file or folder.

    Returns
    -------
    tuple of str
        "nodes": classification of the nodes of graphs; "graphs": of whole graphs; "images"; "points". A `.pt` file may hold
        either kind of graphs. A folder that is not here, such as another machine's, may hold graphs or images.

    Raises
    ------
    ValueError
        If the name is neither a data set nor a path of a kind that is read, or if a list has data sets of more than one
        task; names the nearest data set.
    """
    name = dataset.lower()
    if name.endswith(".pt"):
        return ("nodes", "graphs")
    if name in ("trees", *SOURCES):
        return ("nodes",)
    if is_points(dataset):
        return ("points",)
    if source_of(dataset) is not None:
        return ("images",)
    if is_path(dataset):
        return _tasks_of_folder(Path(dataset).expanduser())
    if graph_dataset_names(dataset) is not None:
        return ("graphs",)
    if (own := plugins.data_set(dataset)) is not None:
        return (own.task,)
    brought = tuple(plugins.found("datasets"))
    known = {one.lower(): one for one in (*BUILT_IN, *brought)}
    near = difflib.get_close_matches(name, known, n=1)
    hint = f'; did you mean "{known[near[0]]}"?' if near else ""
    raise ValueError(
        f"no such data set{hint}; allowed are {', '.join(('trees', *SOURCES))} for nodes, {', '.join(GROUPS)} and the "
        f"names of the TU collection for graphs, {', '.join(IMAGES)} for images, {', '.join(POINTS)} for points, or a "
        "path: of a .pt file, of a folder in that collection's layout, of one with a folder of images per class, or of a "
        f"file of points, {', '.join(READERS)}; or the name of a data set of another package, which must be installed "
        f"wherever server and clients run (here: {', '.join(brought) or 'none'})"
    )


def _tasks_of_folder(path: Path) -> tuple[str, ...]:
    if not path.is_dir():
        return ("graphs", "images")
    # A picture beside the files of the TU collection makes no data set of images.
    return ("images",) if not any(path.glob("*_A.txt")) and is_image_folder(path) else ("graphs",)

"""The names of data sets and models, and the tasks that they are for.

A configuration is checked without importing the models, and a run imports the files of all data
sets only where its own has to be looked up among them.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from curvfed.tasks import plugins
from curvfed.tasks.foreign import refuse_foreign

GENERATED = {"trees": "nodes", "digits": "images", "uniform": "points"}
"""The tasks of the data sets that need no files."""

OWN = "own"
"""The `dataset` of a run on what every node has itself."""

MODELS: dict[str, tuple[str, ...]] = {
    "nodes": ("gcn", "gated", "lorentz", "split"),
    "graphs": ("gin", "gcn", "lorentz"),
    "images": ("cnn", "convnet", "resnet18", "resnet18-7x7", "vgg13", "mobilenetv2", "senet18"),
    "points": (),
}
"""The names of the models for each task."""

plugins.leave_out("models", {"auto", *(name for names in MODELS.values() for name in names)})
if plugins.found("datasets"):
    from curvfed.tasks.registry import BUILT_IN

    plugins.leave_out("datasets", BUILT_IN)


def tasks_of(dataset: str) -> tuple[str, ...]:
    """The tasks of a named data set, or of a user's file or folder.

    Returns
    -------
    tuple of str
        "nodes": classification of the nodes of graphs; "graphs": of whole graphs; "images";
        "points". A `.pt` file may hold either kind of graphs. A folder that is not here, such as
        another machine's, may hold graphs or images.

    Raises
    ------
    ValueError
        If the name is neither a data set nor a path of a readable kind, or if a list has data sets
        of more than one task; names the nearest data set.
    """
    if dataset.lower() in GENERATED:
        return (GENERATED[dataset.lower()],)
    if dataset.lower() == OWN:
        return tuple(MODELS)
    from curvfed.tasks.registry import look_up

    return look_up(dataset)


def num_sets(dataset: str) -> int:
    """How many data sets a run-config's `dataset` names.

    Raises
    ------
    DataError
        As `curvfed.tasks.graphs.data.tu.graph_dataset_names`.
    """
    if dataset.lower() in (*GENERATED, OWN):
        return 1
    from curvfed.tasks.graphs.data.tu import graph_dataset_names

    return len(graph_dataset_names(dataset) or [""])


def kind_of_path(path: Path) -> str:
    """The task of a client's own data, as far as their path tells: "points", "images", "graphs" or
    "nodes".

    A `.pt` file is "nodes", as in `tasks_of`, but may hold graphs too: settings that shape data are
    the same for both.
    """
    from curvfed.tasks.images.layout import is_image_folder
    from curvfed.tasks.points.datasets import is_points

    if path.name.lower().endswith(".pt"):
        return "nodes"
    if path.is_dir() and is_image_folder(path):
        return "images"
    refuse_foreign(path)
    return "points" if is_points(path.name) else "graphs"


def path_text(path: os.PathLike[str]) -> str:
    """A path as a run-config's `dataset` has it: with a separator, as no name has."""
    text = os.fspath(path)
    return text if os.path.dirname(text) else os.path.join(os.curdir, text)


def is_named(dataset: str) -> bool:
    """Whether a run-config's `dataset` names data sets alone, and no path."""
    if dataset.lower() in (*GENERATED, OWN):
        return True
    from curvfed.tasks.registry import BUILT_IN

    known = {name.lower() for name in (*BUILT_IN, *plugins.found("datasets"))}
    return all(name.strip().lower() in known for name in dataset.split(","))


def titles(space: str, class_names: Iterable[str]) -> list[str]:
    """The names of classes, after that of the data set where the clients have several.

    Examples
    --------
    >>> titles("mutag", ["0", "1"])
    ['mutag: 0', 'mutag: 1']
    """
    return [f"{space}: {name}" if space else name for name in class_names]

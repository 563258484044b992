"""The names of data sets and models, and their tasks.

Checking a configuration imports no models, and imports the registry of all data sets only to look
up a name.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from curvfed.tasks import plugins
from curvfed.tasks.foreign import refuse_foreign
from curvfed.tasks.formats import format_of

GENERATED = {"trees": "nodes", "digits": "images", "uniform": "points"}
"""The tasks of the data sets without files."""

OWN = "own"
"""The `dataset` of a run on each node's own data."""

MODELS: dict[str, tuple[str, ...]] = {
    "nodes": ("gcn", "gated", "lorentz", "split"),
    "graphs": ("gin", "gcn", "lorentz"),
    "images": ("cnn", "convnet", "resnet18", "resnet18-7x7", "vgg13", "mobilenetv2", "senet18"),
    "points": (),
}
"""The models of each task."""

plugins.leave_out("models", {"auto", *(name for names in MODELS.values() for name in names)})
if plugins.registered("datasets"):
    from curvfed.tasks.registry import BUILT_IN

    plugins.leave_out("datasets", BUILT_IN)


def tasks_of(dataset: str) -> tuple[str, ...]:
    """The tasks of a named data set, or of a user's file or folder.

    Returns
    -------
    tuple of str
        "nodes" (classification of the nodes of graphs), "graphs" (of whole graphs), "images",
        "points". A `.pt` file may hold either kind of graphs. A folder of another machine may hold
        graphs or images.

    Raises
    ------
    ValueError
        If the name is neither a data set nor a supported path, or if a list mixes tasks; names the
        nearest data set.
    """
    if dataset.lower() in GENERATED:
        return (GENERATED[dataset.lower()],)
    if dataset.lower() == OWN:
        return tuple(MODELS)
    from curvfed.tasks.registry import look_up

    return look_up(dataset)


def num_sets(dataset: str) -> int:
    """The number of data sets in a run-config's `dataset`.

    Raises
    ------
    DataError
        See `curvfed.tasks.graphs.data.tu.graph_dataset_names`.
    """
    if dataset.lower() in (*GENERATED, OWN):
        return 1
    from curvfed.tasks.graphs.data.tu import graph_dataset_names

    return len(graph_dataset_names(dataset) or [""])


def kind_of_path(path: Path) -> str:
    """The task of a client's own data by their path: "points", "images", "graphs" or "nodes".

    A `.pt` file is "nodes", but may also hold graphs: the settings that shape data are the same for
    both.
    """
    from curvfed.tasks.images.layout import is_image_folder
    from curvfed.tasks.points.datasets import is_points

    if path.name.lower().endswith(".pt"):
        return "nodes"
    other = format_of(path)
    if other is not None:
        return other.task
    if path.is_dir() and is_image_folder(path):
        return "images"
    refuse_foreign(path)
    return "points" if is_points(path.name) else "graphs"


def path_text(path: os.PathLike[str]) -> str:
    """A path as a run-config's `dataset`: with a separator, unlike a name."""
    text = os.fspath(path)
    return text if os.path.dirname(text) else os.path.join(os.curdir, text)


def is_named(dataset: str) -> bool:
    """Whether a run-config's `dataset` holds only names of data sets, and no path."""
    if dataset.lower() in (*GENERATED, OWN):
        return True
    from curvfed.tasks.registry import BUILT_IN

    names = {name.lower() for name in (*BUILT_IN, *plugins.registered("datasets"))}
    return all(name.strip().lower() in names for name in dataset.split(","))


def titles(space: str, class_names: Iterable[str]) -> list[str]:
    """The names of classes, each after the name of its data set if the clients have several.

    Examples
    --------
    >>> titles("mutag", ["0", "1"])
    ['mutag: 0', 'mutag: 1']
    """
    return [f"{space}: {name}" if space else name for name in class_names]

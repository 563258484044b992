"""Data that Python holds."""

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from curvfed.tasks import plugins, shipped
from curvfed.tasks.amounts import with_article
from curvfed.tasks.class_names import number_labels
from curvfed.tasks.errors import DataError
from curvfed.tasks.formats import FORMATS
from curvfed.tasks.graphs.data.raw import RawGraph, RawGraphs
from curvfed.tasks.graphs.data.user_file import check_graphs
from curvfed.tasks.images.pictures import (
    are_pictures,
    check_not_flat,
    in_columns,
    listed_images,
)
from curvfed.tasks.images.raw import RawImages, pixels_of, raw_images
from curvfed.tasks.kinds import ADDED
from curvfed.tasks.points import RawPoints, raw_points


class Raw(Protocol):
    """Checked data in memory.

    Attributes
    ----------
    task : str
        The key of `curvfed.tasks.kinds.KINDS`.
    """

    task: ClassVar[str]


KINDS: dict[str, type[RawGraph | RawGraphs | RawImages | RawPoints]] = {
    "nodes": RawGraph,
    "graphs": RawGraphs,
    "images": RawImages,
    "points": RawPoints,
}
"""The class of the data of each kind of the core."""

ALLOWED = (
    "a graph whose nodes have classes (torch_geometric.data.Data, or a dict, of x, edge_index, y),"
    " a list of graphs with one y each, (images, labels) with images (n, h, w), (n, c, h, w) or (n,"
    " h, w, c) of uint8 or a list of them or of Pillow's, a list of pairs of image and label, such"
    " as list(dataset) of torchvision's, (points, labels) with points (n, 2)"
    f"{''.join(f'; or {form.objects_hint}' for form in FORMATS if form.objects)}"
    f"{''.join(f'; or {kind.files.memory_hint}' for kind in ADDED.values())}"
)


def check_data(
    where: str,
    item: object,
    stand_in: Sequence[str] = (),
    tasks: Sequence[str] = (),
    label_key: str = "",
) -> Raw:
    """Check one client's data in memory.

    Parameters
    ----------
    where : str
        The name of the data in error texts.
    item : object
        One of `ALLOWED`; arrays are NumPy's or torch's, labels whole numbers or names.
    stand_in : sequence of str
        Class names for data without classes: the class of each node or graph is then unknown, each
        image or point has the first class, and an array without labels is allowed. Empty: labels
        are required.
    tasks : sequence of str
        The tasks of the method: a graph may be other data for a method of these alone, such as
        links.
    label_key : str
        The column of the classes in a table; "" for the usual one.

    Raises
    ------
    DataError
        Names the fault and the requirement.
    """
    if isinstance(item, list | tuple) and not item:
        raise DataError(
            f"{where}: the list is empty; it must hold at least one example", key="no-data"
        )
    for form in FORMATS:
        raw: Raw | None = None
        if form.objects:
            raw = plugins.imported(form.objects)(where, item, label_key)
        if raw is not None:
            return raw
    added = None if stand_in else _of_added_kind(where, item, tasks)
    if added is not None:
        return added
    if hasattr(item, "__array__"):
        item = (item, None)
    pair: Any = in_columns(item)
    is_pair = isinstance(pair, tuple) and len(pair) == 2
    if is_pair and (hasattr(pair[0], "__array__") or are_pictures(pair[0])):
        examples, labels = pair
        if labels is None and stand_in:
            labels = np.full(len(examples), stand_in[0])
        if are_pictures(examples):
            return listed_images(where, examples, _array(labels))
        examples = _array(examples)
        if examples.ndim == 2:
            check_not_flat(where, examples)
            return raw_points(where, examples, _array(labels), ("points", "labels"))
        return _images(where, examples, _array(labels))
    first = item[0] if isinstance(item, list | tuple) and item else None
    is_table = isinstance(first, list | tuple | str | int | float | np.generic)
    if is_table or not (isinstance(item, list | tuple | dict) or hasattr(item, "stores")):
        entries = f" of {type(first).__name__}" if is_table else ""
        raise DataError(
            f"{where} is {with_article(type(item).__name__)}{entries}; allowed is {ALLOWED}"
            f"{plugins.absent_hint(*shipped.DATA)}",
            key="unsupported-data",
        )
    return check_graphs(where, item, stand_in)


def _of_added_kind(where: str, item: object, tasks: Sequence[str]) -> Raw | None:
    """Data of a kind that an extension adds; None for others."""
    for name, kind in ADDED.items():
        read = kind.part("memory")
        raw: Raw | None = read(where, item, list(tasks) == [name]) if read else None
        if raw is not None:
            return raw
    return None


def _images(where: str, images: NDArray[np.generic], labels: NDArray[np.generic]) -> RawImages:
    if images.ndim == 3 and images.shape[-1] == 3:
        raise DataError(
            f"{where}: an array of shape {images.shape} would be images 3 pixels wide, but may be a"
            " single one in colour; allowed for that is images[None], of shape (1, h, w, 3)",
            key="single-image",
        )
    pixels = pixels_of(where, images)
    numbers, names = number_labels(where, labels, len(pixels), "labels")
    return raw_images(torch.from_numpy(np.ascontiguousarray(pixels)), numbers, names)


def _array(values: object) -> NDArray[np.generic]:
    return values.numpy(force=True) if isinstance(values, Tensor) else np.asarray(values)

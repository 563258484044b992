"""Check data in memory as files are checked."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from curvfed.tasks.class_names import number_labels
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.raw import RawGraph, RawGraphs
from curvfed.tasks.graphs.data.user_file import check_graphs
from curvfed.tasks.huggingface import from_datasets, is_dataset
from curvfed.tasks.images.raw import RawImages, pixels_of, raw_images
from curvfed.tasks.points.raw_points import RawPoints, raw_points

Raw = RawGraph | RawGraphs | RawImages | RawPoints

KINDS = {"nodes": RawGraph, "graphs": RawGraphs, "images": RawImages, "points": RawPoints}
"""The class of each task's data."""

ALLOWED = (
    "a graph whose nodes have classes (torch_geometric.data.Data, or a dict, of x, edge_index, y),"
    " a list of graphs with one y each, (images, labels) with images (n, h, w), (n, c, h, w) or (n,"
    " h, w, c) of uint8, (points, labels) with points (n, 2); or a"
    " Dataset of Hugging Face's datasets with a column of images or points and one of classes"
)


def task_of(raw: Raw) -> str:
    """The task of checked data: "nodes", "graphs", "images" or "points"."""
    return next(task for task, kind in KINDS.items() if isinstance(raw, kind))


def check_data(where: str, item: object, stand_in: Sequence[str] = ()) -> Raw:
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

    Raises
    ------
    DataError
        Names what is wrong and what is allowed.
    """
    if is_dataset(item):
        return from_datasets(where, item)
    if hasattr(item, "__array__"):
        item = (item, None)
    if isinstance(item, tuple) and len(item) == 2 and hasattr(item[0], "__array__"):
        examples = _array(item[0])
        labels = item[1]
        if labels is None and stand_in:
            labels = np.full(len(examples), stand_in[0])
        if examples.ndim == 2:
            return raw_points(where, examples, _array(labels), ("points", "labels"))
        return _images(where, examples, _array(labels))
    if not isinstance(item, list | tuple | dict) and not hasattr(item, "stores"):
        raise DataError(
            f"{where} is a {type(item).__name__}; allowed is {ALLOWED}", key="unsupported-data"
        )
    return check_graphs(where, item, stand_in)


def _images(where: str, images: NDArray[np.generic], labels: NDArray[np.generic]) -> RawImages:
    pixels = pixels_of(where, images)
    numbers, names = number_labels(where, labels, len(pixels), "labels")
    return raw_images(torch.from_numpy(np.ascontiguousarray(pixels)), numbers, names)


def _array(values: object) -> NDArray[np.generic]:
    return values.numpy(force=True) if isinstance(values, Tensor) else np.asarray(values)

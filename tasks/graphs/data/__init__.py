"""The data of graphs: facts of public ones, and the names of sets of graphs."""

import os
from dataclasses import dataclass
from typing import Any

from curvfed.tasks.public_data import PublicData


@dataclass(frozen=True, kw_only=True)
class Source(PublicData):
    """A public graph with classified nodes.

    Attributes
    ----------
    metric : str
        "accuracy" or "roc_auc".
    """

    metric: str = "accuracy"


def in_collection(
    origin: str, name: str, root: str, folder: str, *files: str, task: str = "nodes"
) -> dict[str, Any]:
    """The fields of `PublicData` for a data set that the class `origin` downloads into
    `root/folder/raw`."""
    module, _, collection = origin.rpartition(".")
    return {
        "title": name,
        "folders": (f"{root}/{folder}/raw", f"{folder}/raw"),
        "files": files,
        "fetch": f"from {module} import {collection}; {collection}(root={{root}}, name={name!r})",
        "root": root,
        "origin": origin,
        "task": task,
    }


def is_path(text: str) -> bool:
    """Whether a data set is given by a path: paths have a separator, names do not."""
    return "/" in text or os.sep in text

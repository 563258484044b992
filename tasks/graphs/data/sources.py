"""The public data sets of graphs whose nodes are classified, by name: their files, readers and
metrics."""

from dataclasses import dataclass
from typing import Any

from curvfed.tasks.public_data import PublicData

PYG = "torch_geometric.datasets"
PLANETOID_ENDINGS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
OGB_TABLES = ("edge", "node-feat", "node-label")
OGB_SPLITS = ("train", "valid", "test")


@dataclass(frozen=True, kw_only=True)
class Source(PublicData):
    """A public data set: a row of `SOURCES`.

    Attributes
    ----------
    read : str
        The reader, a function of `curvfed.tasks.graphs.data.readers`: (source, raw folder) ->
        RawGraph.
    metric : str
        "accuracy" or "roc_auc".
    """

    read: str
    metric: str = "accuracy"


def in_collection(origin: str, name: str, root: str, folder: str, *files: str) -> dict[str, Any]:
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
    }


def _planetoid(name: str) -> Source:
    files = [f"ind.{name.lower()}.{ending}" for ending in PLANETOID_ENDINGS]
    return Source(
        **in_collection(f"{PYG}.Planetoid", name, "planetoid", name, *files), read="read_planetoid"
    )


def _amazon(name: str) -> Source:
    file = f"amazon_electronics_{name.lower()}.npz"
    return Source(**in_collection(f"{PYG}.Amazon", name, "amazon", name, file), read="read_amazon")


def _heterophilous(name: str, metric: str) -> Source:
    folder = name.lower().replace("-", "_")
    files = in_collection(
        f"{PYG}.HeterophilousGraphDataset", name, "heterophilous", folder, f"{folder}.npz"
    )
    return Source(**files, read="read_heterophilous", metric=metric)


def _ogb(name: str, split: str) -> Source:
    tables = [f"{table}.csv.gz" for table in OGB_TABLES]
    splits = [f"../split/{split}/{split_part}.csv.gz" for split_part in OGB_SPLITS]
    # OGB's class for PyTorch Geometric loads its own output by a torch.load that newer versions
    # refuse.
    origin = "ogb.nodeproppred.NodePropPredDataset"
    files = in_collection(origin, name, "ogb", name.replace("-", "_"), *tables, *splits)
    return Source(**files, package="ogb", read="read_ogb")


SOURCES = {
    "cora": _planetoid("Cora"),
    "citeseer": _planetoid("CiteSeer"),
    "pubmed": _planetoid("PubMed"),
    "amazon-photo": _amazon("Photo"),
    "amazon-computers": _amazon("Computers"),
    "roman-empire": _heterophilous("Roman-empire", "accuracy"),
    "amazon-ratings": _heterophilous("Amazon-ratings", "accuracy"),
    "minesweeper": _heterophilous("Minesweeper", "roc_auc"),
    "tolokers": _heterophilous("Tolokers", "roc_auc"),
    "questions": _heterophilous("Questions", "roc_auc"),
    "ogbn-arxiv": _ogb("ogbn-arxiv", "time"),
}

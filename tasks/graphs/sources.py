"""The public data sets of graphs whose nodes are classified, by name: their files, and what is measured on them."""

from dataclasses import dataclass

from curvfed.tasks.graphs import download

PLANETOID_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
OGB_TABLES = ("edge", "node-feat", "node-label")
OGB_SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Source:
    """A public data set: a row of `SOURCES`.

    Attributes
    ----------
    collection, name : str
        The class that fetches it and its `name` argument.
    root : str
        Where below the data folder that class is rooted.
    folder : str
        The data set's folder below `root`; the raw files lie in its `raw`.
    files : tuple of str
        The raw files, by their paths from `raw`.
    read : str
        The function of `curvfed.tasks.graphs.readers`: (source, raw folder) -> RawGraph.
    metric : str
        "accuracy" or "roc_auc".
    own_splits : bool
        Whether the data set's own splits are used rather than a random one.
    package : str
        Where that class is imported from.
    """

    collection: str
    name: str
    root: str
    folder: str
    files: tuple[str, ...]
    read: str
    metric: str
    own_splits: bool
    package: str = download.PYG


def _planetoid(name: str) -> Source:
    files = tuple(f"ind.{name.lower()}.{part}" for part in PLANETOID_PARTS)
    return Source("Planetoid", name, "planetoid", name, files, "read_planetoid", "accuracy", own_splits=False)


def _amazon(name: str) -> Source:
    files = (f"amazon_electronics_{name.lower()}.npz",)
    return Source("Amazon", name, "amazon", name, files, "read_amazon", "accuracy", own_splits=False)


def _heterophilous(name: str, metric: str) -> Source:
    folder = name.lower().replace("-", "_")
    return Source(
        "HeterophilousGraphDataset",
        name,
        "heterophilous",
        folder,
        (f"{folder}.npz",),
        "read_heterophilous",
        metric,
        own_splits=True,
    )


def _ogb(name: str, split: str) -> Source:
    tables = [f"{table}.csv.gz" for table in OGB_TABLES]
    splits = [f"../split/{split}/{part}.csv.gz" for part in OGB_SPLITS]
    return Source(
        # Not the class for PyTorch Geometric: it reads its own output by torch.load, which newer versions refuse.
        "NodePropPredDataset",
        name,
        "ogb",
        name.replace("-", "_"),
        (*tables, *splits),
        "read_ogb",
        metric="accuracy",
        own_splits=True,
        package="ogb.nodeproppred",
    )


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

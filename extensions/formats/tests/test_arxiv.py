"""OGB's public graph by name: fetched by its own package, read from its tables, damaged or unfit."""

import gzip

import numpy as np
import pytest
import torch
from errors import refuses
from format_fixtures import write_ogb
from graph_fixtures import PLANTED_NODES, planted

from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.data.partition import clean_edges
from curvfed.tasks.graphs.dataset import GraphDataset


def test_ogbn_arxiv(tmp_path):
    tables = write_ogb(tmp_path)
    graph = GraphDataset(GraphSpec("ogbn-arxiv", tmp_path)).locate().read()
    assert torch.equal(graph.features, torch.from_numpy(tables["raw/node-feat"].astype(np.float32)))
    assert graph.labels.tolist() == tables["raw/node-label"].tolist()
    assert graph.edge_index.T.tolist() == tables["raw/edge"].tolist()
    pairs = sorted([i, j] for edge in planted().edges for i, j in (edge, edge[::-1]))
    assert clean_edges(graph.edge_index.numpy(), PLANTED_NODES).T.tolist() == pairs
    for mask, split in zip(graph.split.masks, ("train", "valid", "test"), strict=True):
        assert mask.shape == (PLANTED_NODES, 1)
        assert mask[:, 0].nonzero()[:, 0].tolist() == tables[f"split/time/{split}"].tolist()
    assert graph.class_names == ("0", "1", "2")
    assert graph.metric == "accuracy"


@pytest.fixture
def ogb(tmp_path, monkeypatch):
    """A package `ogb` in place of the real one, and a network that is there; returns the package's
    folder.

    Its class does as the real one: it takes `name` first, and leaves tables, splits, a release and
    what it made of them.
    """
    write_ogb(tmp_path / "origin", folder=".")
    origin = tmp_path / "origin/ogbn_arxiv"
    (origin / "processed").mkdir()
    for name in ("processed/data_processed", "RELEASE_v1.txt"):
        (origin / name).touch()
    package = tmp_path / "packages/ogb"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "nodeproppred.py").write_text(
        "import shutil\n"
        "class NodePropPredDataset:\n"
        "    def __init__(self, name, root='dataset'):\n"
        f"        shutil.copytree({str(origin)!r}, root + '/' + name.replace('-', '_'))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    monkeypatch.setattr("curvfed.extensions.public_data.downloads._PROBE", "")
    return package


@pytest.mark.usefixtures("ogb")
def test_arxiv_is_fetched_by_its_own_package(tmp_path):
    data = tmp_path / "data"
    graph = GraphDataset(GraphSpec("ogbn-arxiv", data), tmp_path / "cache").client(0, 1)
    assert len(graph.labels) == 600
    assert [path.name for path in (data / "ogb").iterdir()] == ["ogbn_arxiv"]
    assert sorted(path.name for path in (data / "ogb/ogbn_arxiv").iterdir()) == [
        "RELEASE_v1.txt",
        "raw",
        "split",
    ]


@pytest.mark.parametrize(
    "table", ["raw/edge", "raw/node-feat", "raw/node-label", "split/time/valid"]
)
@pytest.mark.parametrize("damage", ["empty", "cut", "no table", "ragged"])
def test_damaged_arxiv_table_is_named(tmp_path, table, damage):
    write_ogb(tmp_path)
    path = tmp_path / "ogb/ogbn_arxiv" / f"{table}.csv.gz"
    content = path.read_bytes()
    path.write_bytes(
        {
            "empty": b"",
            "cut": content[:-20],
            "no table": gzip.compress(b"nodes\n"),
            "ragged": gzip.compress(gzip.decompress(content) + b"1,2,3\n"),
        }[damage]
    )
    with refuses("unreadable", path.name, "ogbn-arxiv"):
        GraphDataset(GraphSpec("ogbn-arxiv", tmp_path), tmp_path / "cache").client(0, 1)


ARXIV_UNFIT = {
    "label with a fraction": (
        "raw/node-label",
        lambda table: table + 0.5,
        ("unreadable", "node-label.csv.gz"),
    ),
    "labels too few": ("raw/node-label", lambda table: table[:-1], ("node-range", "0..638")),
    "edge too high": ("raw/edge", lambda table: table + 1, ("node-range", "edge_index")),
    "split too high": (
        "split/time/test",
        lambda table: table + 640,
        ("node-range", "test.csv.gz", "0..639"),
    ),
    "splits overlap": (
        "split/time/valid",
        lambda table: np.arange(640),
        ("split-overlap", "train_mask"),
    ),
}


@pytest.mark.parametrize("case", ARXIV_UNFIT)
def test_arxiv_tables_that_do_not_fit_together(tmp_path, case):
    name, change, facts = ARXIV_UNFIT[case]
    table = change(write_ogb(tmp_path)[name])
    path = tmp_path / "ogb/ogbn_arxiv" / f"{name}.csv.gz"
    np.savetxt(path, table, fmt="%g", delimiter=",")
    with refuses(*facts, tmp_path / "ogb/ogbn_arxiv/raw"):
        GraphDataset(GraphSpec("ogbn-arxiv", tmp_path), tmp_path / "cache").client(0, 1)


def test_a_package_that_is_not_installed_is_named(tmp_path, ogb):
    (ogb / "__init__.py").write_text("raise ModuleNotFoundError('no ogb')")
    with refuses("no-public-data", "ModuleNotFoundError"):
        GraphDataset(GraphSpec("ogbn-arxiv", tmp_path / "data"), tmp_path / "cache").client(0, 1)

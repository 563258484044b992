"""Raw files of public graphs, absent, fetched, damaged or unfit: a DataError names the file and
what is allowed."""

import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest
from errors import refuses
from graph_fixtures import write_amazon, write_minesweeper, write_ogb, write_planetoid

from curvfed.tasks import public_data
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.dataset import GraphDataset

PYG, OGB = "torch_geometric.datasets", "ogb.nodeproppred"
FETCHED = [
    ("cora", PYG, "Planetoid", "Cora", "planetoid", "Cora/raw"),
    ("PubMed", PYG, "Planetoid", "PubMed", "planetoid", "PubMed/raw"),
    ("amazon-Photo", PYG, "Amazon", "Photo", "amazon", "Photo/raw"),
    (
        "Roman-empire",
        PYG,
        "HeterophilousGraphDataset",
        "Roman-empire",
        "heterophilous",
        "roman_empire/raw",
    ),
    (
        "minesweeper",
        PYG,
        "HeterophilousGraphDataset",
        "Minesweeper",
        "heterophilous",
        "minesweeper/raw",
    ),
    ("ogbn-arxiv", OGB, "NodePropPredDataset", "ogbn-arxiv", "ogb", "ogbn_arxiv/raw"),
]


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize(("dataset", "package", "collection", "name", "root", "folder"), FETCHED)
def test_absent_data_offline(tmp_path, dataset, package, collection, name, root, folder):
    data_dir = tmp_path / "no such folder"
    with pytest.raises(DataError) as error:
        GraphDataset(GraphSpec(dataset, data_dir), tmp_path / "cache").client(0, 1)
    assert f"are not in {data_dir / root / folder} nor in {data_dir / folder}" in str(error.value)
    install = "pip install ogb && " if package == OGB else ""
    code = (
        f"from {package} import {collection}; {collection}(root={str(data_dir / root)!r},"
        f" name={name!r})"
    )
    assert f'run:\n{install}python -c "{code}"\n' in str(error.value)
    assert not data_dir.exists()


def test_downloaded_files_are_used_and_nothing_else_is_left(tmp_path, monkeypatch):
    """The two subprocesses, the probe and PyTorch Geometric, are played; the rest is real."""
    calls = []

    def played(code, *arguments, seconds):
        calls.append(arguments)
        if "torch_geometric" in code:
            assert code.endswith("Planetoid(root=sys.argv[1], name='Cora')")
            write_planetoid(Path(arguments[0]), "Cora", folder=".")
            (Path(arguments[0]) / "Cora" / "processed").mkdir()

    monkeypatch.setattr(public_data, "_python", played)
    graph = GraphDataset(GraphSpec("cora", tmp_path / "data"), tmp_path / "cache").client(0, 1)
    assert len(graph.labels) == 600
    assert len(calls) == 2
    assert [path.name for path in (tmp_path / "data/planetoid").iterdir()] == ["Cora"]
    assert [path.name for path in (tmp_path / "data/planetoid/Cora").iterdir()] == ["raw"]
    GraphDataset(GraphSpec("cora", tmp_path / "data"), tmp_path / "cache").client(0, 1)
    assert len(calls) == 2


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
    monkeypatch.setattr(public_data, "_PROBE", "")
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
    ("part", "damage"),
    [("x", b""), ("allx", b"\x80\x02garbage"), ("graph", b""), ("ty", b"\x80\x02garbage")],
)
def test_damaged_planetoid_file_is_named(tmp_path, part, damage):
    write_planetoid(tmp_path)
    path = tmp_path / f"planetoid/Cora/raw/ind.cora.{part}"
    path.write_bytes(damage)
    with refuses("unreadable", path):
        GraphDataset(GraphSpec("cora", tmp_path), tmp_path / "cache").client(0, 1)


@pytest.mark.parametrize(
    ("part", "content"),
    [("ty", pickle.dumps(np.eye(3)[:5])), ("test.index", b"nodes"), ("test.index", b"600\n601\n")],
)
def test_planetoid_files_that_do_not_fit_together(tmp_path, part, content):
    write_planetoid(tmp_path)
    raw = tmp_path / "planetoid/Cora/raw"
    (raw / f"ind.cora.{part}").write_bytes(content)
    with refuses("unreadable", raw):
        GraphDataset(GraphSpec("cora", tmp_path), tmp_path / "cache").client(0, 1)


@pytest.mark.parametrize("damage", ["cut", "text", "field", "pickle"])
def test_damaged_minesweeper_file_is_named(tmp_path, damage):
    arrays = write_minesweeper(tmp_path)
    path = tmp_path / "heterophilous/minesweeper/raw/minesweeper.npz"
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    elif damage == "text":
        path.write_text("no archive")
    elif damage == "field":
        np.savez(path, **{name: array for name, array in arrays.items() if name != "edges"})
    else:
        np.savez(path, **arrays | {"node_labels": np.array([{}] * 400)})
    with refuses("unreadable", path):
        GraphDataset(GraphSpec("minesweeper", tmp_path), tmp_path / "cache").client(0, 1)


AMAZON_DAMAGE = {
    "field": {"adj_indptr": None},
    "pickle": {"labels": np.array([{}] * 640)},
    "column too high": {"attr_indices": lambda array: array + 1},
    "rows cut": {"attr_indptr": lambda array: array[:-1]},
    "text": {"labels": lambda array: array.astype(str)},
}


@pytest.mark.parametrize("damage", AMAZON_DAMAGE)
def test_damaged_amazon_file_is_named(tmp_path, damage):
    _, arrays = write_amazon(tmp_path)
    path = tmp_path / "amazon/Photo/raw/amazon_electronics_photo.npz"
    for name, change in AMAZON_DAMAGE[damage].items():
        arrays[name] = change(arrays[name]) if callable(change) else change
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    with refuses("unreadable", path):
        GraphDataset(GraphSpec("amazon-photo", tmp_path), tmp_path / "cache").client(0, 1)


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
    "labels too few": (
        "raw/node-label",
        lambda table: table[:-1],
        ("node-range", "0..638"),
    ),
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


def test_contents_of_public_files_are_checked_too(tmp_path):
    arrays = write_minesweeper(tmp_path)
    arrays["node_features"][7] = np.nan
    path = tmp_path / "heterophilous/minesweeper/raw/minesweeper.npz"
    np.savez(path, **arrays)
    with refuses("not-finite", path, "1 of 400"):
        GraphDataset(GraphSpec("minesweeper", tmp_path), tmp_path / "cache").client(0, 1)

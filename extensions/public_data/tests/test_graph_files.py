"""Raw files of public graphs, absent, fetched, damaged or unfit: an error names the file."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from errors import refuses
from graph_fixtures import write_amazon, write_minesweeper, write_planetoid

from curvfed.extensions.public_data import downloads
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.dataset import GraphDataset

PYG = "torch_geometric.datasets"
FETCHED = [
    ("cora", PYG, "Planetoid", "Cora", "planetoid", "Cora/raw"),
    ("amazon-Photo", PYG, "Amazon", "Photo", "amazon", "Photo/raw"),
    (
        "Roman-empire",
        PYG,
        "HeterophilousGraphDataset",
        "Roman-empire",
        "heterophilous",
        "roman_empire/raw",
    ),
    ("imdb-multi", PYG, "TUDataset", "IMDB-MULTI", "tu", "IMDB-MULTI/raw"),
]


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize(("dataset", "package", "collection", "name", "root", "folder"), FETCHED)
def test_absent_data_offline(tmp_path, dataset, package, collection, name, root, folder):
    data_dir = tmp_path / "no such folder"
    with pytest.raises(DataError) as error:
        GraphDataset(GraphSpec(dataset, data_dir), tmp_path / "cache").client(0, 1)
    assert f"are not in {data_dir / root / folder} nor in {data_dir / folder}" in str(error.value)
    code = (
        f"from {package} import {collection}; {collection}(root={str(data_dir / root)!r},"
        f" name={name!r})"
    )
    assert f'run:\npython -c "{code}"\n' in str(error.value)
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

    monkeypatch.setattr(downloads, "_python", played)
    graph = GraphDataset(GraphSpec("cora", tmp_path / "data"), tmp_path / "cache").client(0, 1)
    assert len(graph.labels) == 600
    assert len(calls) == 2
    assert [path.name for path in (tmp_path / "data/planetoid").iterdir()] == ["Cora"]
    assert [path.name for path in (tmp_path / "data/planetoid/Cora").iterdir()] == ["raw"]
    GraphDataset(GraphSpec("cora", tmp_path / "data"), tmp_path / "cache").client(0, 1)
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("part", "content"),
    [
        ("x", b""),
        ("allx", b"\x80\x02garbage"),
        ("graph", b""),
        ("ty", b"\x80\x02garbage"),
        ("ty", pickle.dumps(np.eye(3)[:5])),  # does not fit the others
        ("test.index", b"nodes"),
        ("test.index", b"600\n601\n"),
    ],
)
def test_damaged_planetoid_file_is_named(tmp_path, part, content):
    write_planetoid(tmp_path)
    raw = tmp_path / "planetoid/Cora/raw"
    (raw / f"ind.cora.{part}").write_bytes(content)
    with refuses("unreadable", raw):
        GraphDataset(GraphSpec("cora", tmp_path), tmp_path / "cache").client(0, 1)


@pytest.mark.parametrize("damage", ["cut", "text", "field", "pickle", "NaN"])
def test_damaged_minesweeper_file_is_named(tmp_path, damage):
    arrays = write_minesweeper(tmp_path)
    path = tmp_path / "heterophilous/minesweeper/raw/minesweeper.npz"
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    elif damage == "text":
        path.write_text("no archive")
    elif damage == "NaN":
        arrays["node_features"][7] = np.nan
        np.savez(path, **arrays)
    elif damage == "field":
        np.savez(path, **{name: array for name, array in arrays.items() if name != "edges"})
    else:
        np.savez(path, **arrays | {"node_labels": np.array([{}] * 400)})
    facts = ("not-finite", "1 of 400") if damage == "NaN" else ("unreadable",)
    with refuses(*facts, path):
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

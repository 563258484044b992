"""A user's graph that is absent, unreadable or unfit: one DataError names the file."""

import io
import pickle
import zipfile
from pathlib import Path

import pytest
import torch
from errors import refuses
from graph_fixtures import Trap, user_fields, user_graphs, write_user_graph
from torch_geometric.data import Data

from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.data.user_file import check_graphs
from curvfed.tasks.graphs.dataset import GraphDataset

NODES = 60
NOBODY = torch.zeros(NODES, dtype=torch.bool)
HALF = torch.arange(NODES) < NODES // 2


def changed(name, place, value):
    tensor = user_fields()[name].clone()
    tensor[place] = value
    return {name: tensor}


UNFIT = {
    "x absent": ({"x": None}, ("features",)),
    "x NaN": (changed("x", (3, 1), float("nan")), ("not-finite", "1", "60")),
    "sparse x infinite": (
        changed("x", (3, 1), float("inf")),
        ("not-finite", "1", "60"),
    ),
    "x too large for float32": (
        {"x": torch.full((NODES, 2), 1e300, dtype=torch.float64)},
        ("not-finite", "60"),
    ),
    "edges transposed": (
        {"edge_index": torch.zeros(5, 2, dtype=torch.int64)},
        ("edge-index", "edge_index", "(5, 2)"),
    ),
    "edge too high": (
        changed("edge_index", (0, 0), NODES),
        ("node-range", "1", "edge_index", "0..59"),
    ),
    "labels negative": (changed("y", 0, -2), ("label-range", "-1")),
    "labels all different": (
        {"y": torch.arange(NODES) + 10**6, "class_names": ["a"]},
        ("class-names", "class_names"),
    ),
    "names too few": ({"class_names": ["left"]}, ("class-names", "class_names", "0..1")),
    "masks overlap": (
        {"train_mask": HALF, "val_mask": NOBODY, "test_mask": HALF},
        ("split-overlap", "30", "train_mask", "val_mask", "test_mask"),
    ),
    "mask too short": (
        {"train_mask": HALF, "val_mask": NOBODY[:9], "test_mask": ~HALF},
        ("split", "val_mask", "(60,)", "(60, splits)", "(9,)"),
    ),
    "numbers outside": (
        {"train_idx": torch.arange(10), "test_idx": torch.arange(55, 70)},
        ("node-range", "test_idx", "15", "10", "0..59"),
    ),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("case", UNFIT)
def test_unfit_user_graph(tmp_path, case):
    changes, facts = UNFIT[case]
    path = tmp_path / "own.pt"
    own = GraphDataset(GraphSpec("", tmp_path))
    shared = GraphDataset(GraphSpec(str(path), tmp_path), tmp_path / "cache")
    for load in (lambda: own.own(path), lambda: shared.client(0, 2)):
        with refuses("no-file", path):
            load()
    fields = user_fields() | changes
    if case.startswith("sparse"):
        fields["x"] = fields["x"].to_sparse_csr()
    torch.save({name: value for name, value in fields.items() if value is not None}, path)
    for load in (lambda: own.own(path), lambda: shared.client(0, 2)):
        with refuses(*facts, path):
            load()


def zipped(files: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return content.getvalue()


CONTENTS = {
    "empty": b"",
    "text": b"no graph",
    "text of which the unpickler makes a number": b"G1\n",
    "a zip of something else": zipped({"notes.txt": b"nothing of the kind"}),
    "a pickle of something else": pickle.dumps(Path("elsewhere")),
}


@pytest.mark.parametrize(
    "content", [*CONTENTS, "cut", "trap", "trap in a list", "tensor", "number"]
)
def test_unreadable_user_graph(tmp_path, content):
    path, sprung = tmp_path / "own.pt", tmp_path / "sprung"
    write_user_graph(path)
    objects = {
        "trap": {"x": Trap(sprung)},
        "trap in a list": [*user_graphs(), {"x": Trap(sprung)}],
        "tensor": torch.ones(3),
        "number": 3,
    }
    if content in objects:
        torch.save(objects[content], path)
    else:
        path.write_bytes(CONTENTS.get(content, path.read_bytes()[:-200]))
    with pytest.raises(DataError, match=r"torch_geometric\.data\.Data, or a dict, of x"):
        GraphDataset(GraphSpec("", tmp_path)).own(path)
    assert not sprung.exists()


def test_user_graph_of_an_older_torch_cut_anywhere(tmp_path):
    """Its pickle then ends in the middle of a number, a name, a stack."""
    path = tmp_path / "own.pt"
    torch.save(user_fields(), path, _use_new_zipfile_serialization=False)
    stored = path.read_bytes()
    for kept in range(0, 400, 7):
        path.write_bytes(stored[:kept])
        with refuses("unreadable", path):
            GraphDataset(GraphSpec("", tmp_path)).own(path)


def test_classes_are_the_labels_that_occur(tmp_path):
    """Labels with gaps are names of classes: two sites agree on what each is."""
    y = torch.tensor([0, 5, 900])[torch.arange(NODES) % 3]
    torch.save(user_fields() | {"y": y}, tmp_path / "own.pt")
    torch.save(user_fields() | {"y": y.masked_fill(y == 5, 10**9).float()}, tmp_path / "other.pt")
    one, other = (
        GraphDataset(GraphSpec("", tmp_path)).own(tmp_path / name)
        for name in ("own.pt", "other.pt")
    )
    assert one.class_names == ("0", "5", "900")
    assert one.labels.tolist() == [0, 1, 2] * 20
    assert other.class_names == ("0", "900", "1000000000")


@pytest.mark.parametrize(
    ("graph", "held"),
    [
        (Data(), "Data without content;"),
        (Data(colour=torch.ones(2)), "Data with the keys colour;"),
        ({}, "a dict without content;"),
        (1, "graph 1 holds an int;"),
    ],
)
def test_what_a_file_holds_is_not_what_is_expected(graph, held):
    with refuses("no-graph", held):
        check_graphs("own.pt", [user_graphs()[0], graph])


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32])
def test_edges_of_a_dtype_that_cannot_hold_the_number_of_nodes(dtype):
    """No comparison wraps around: 127 + 1 in int8, 255 + 1 in uint8, 300 nodes in either."""
    highest = min(torch.iinfo(dtype).max, 299)
    edges = torch.tensor([[0, 50, highest], [1, 51, 0]], dtype=dtype)
    fields = user_fields(300) | {"edge_index": edges}
    assert check_graphs("own.pt", fields).edge_index.tolist() == edges.tolist()
    graphs = [{"edge_index": edges, "y": label} for label in (0, 1)]
    assert len(check_graphs("own.pt", graphs).attributes) == 2 * (highest + 1)


def test_sparse_features_are_never_made_dense_as_a_whole(tmp_path):
    """Dense they would take 13 GB."""
    nodes, features, each = 400, 2**23, 5
    rows = torch.arange(nodes).repeat_interleave(each)
    columns = torch.randint(features, (nodes * each,), generator=torch.Generator().manual_seed(0))
    entries = torch.stack([rows, columns]), torch.ones(nodes * each)
    x = torch.sparse_coo_tensor(*entries, (nodes, features)).coalesce()
    torch.save(user_fields(nodes) | {"x": x}, tmp_path / "own.pt")
    graph = GraphDataset(GraphSpec("", tmp_path)).own(tmp_path / "own.pt")
    assert graph.features.layout == torch.sparse_csr
    sizes = torch.zeros(nodes).index_add(0, x.indices()[0], x.values().square()).sqrt()
    torch.testing.assert_close(graph.features.values(), x.values() / sizes[x.indices()[0]])

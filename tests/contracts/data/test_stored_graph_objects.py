"""Graphs in the forms that PyTorch Geometric, OGB, NumPy and SciPy leave them in."""

import collections
import copy
import datetime
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch
import torch_geometric.transforms as T
from errors import refuses
from graph_fixtures import user_fields, user_graphs
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data, InMemoryDataset

from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.data.stored_objects import read_objects
from curvfed.tasks.graphs.data.user_file import check_graphs, read_user_file
from curvfed.tasks.graphs.dataset import GraphDataset
from curvfed.tasks.in_memory import check_data

NODES = 60


def plain_data() -> Data:
    return Data(**user_fields())


def sorted_data() -> Data:
    data = plain_data()
    data.node_attrs()
    return data.sort()


def with_edge_index() -> Data:
    data = plain_data()
    data.edge_index = EdgeIndex(data.edge_index, sparse_size=(NODES, NODES))
    return data


class MyData(Data):
    """A user's own class, which no node knows."""


class MyList(list):
    """A user's own list."""


class MyDict(dict):
    """A user's own dict, with attributes beside its entries, as EasyDict has them."""


def odd_containers() -> Data:
    data = plain_data()
    data.log, data.steps = collections.deque([1, 2]), MyList([1, 2])
    data.options = MyDict(width=3)
    data.options.width = 3
    return data


def odd_extras() -> Data:
    data = plain_data()
    data.scale, data.made = np.float64(3), datetime.datetime(2024, 1, 2)
    data.path, data.words = Path("here"), {"a", "b"}
    return data


def with_arrays() -> dict[str, object]:
    fields = user_fields()
    arrays = {name: fields[name].numpy() for name in ("x", "edge_index", "y")}
    arrays["x"] = np.asfortranarray(arrays["x"])
    return arrays | {"class_names": np.array(["left", "right"])}


FORMS = {
    "as it is": plain_data,
    "ToUndirected": lambda: T.ToUndirected()(plain_data()),
    "ToSparseTensor": lambda: T.ToSparseTensor()(T.ToUndirected()(plain_data())),
    "sorted": sorted_data,
    "a copy": lambda: copy.copy(sorted_data()),
    "EdgeIndex": with_edge_index,
    "a class of the user's": lambda: MyData(**user_fields()),
    "a batch of one": lambda: Batch.from_data_list([plain_data()]),
    "odd values beside": odd_extras,
    "odd containers beside": odd_containers,
    "arrays of NumPy": with_arrays,
    "arrays of another byte order": lambda: {
        name: value.astype(value.dtype.newbyteorder(">")) if value.dtype.kind in "if" else value
        for name, value in with_arrays().items()
    },
    "sparse features": lambda: Data(**user_fields() | {"x": user_fields()["x"].to_sparse_csr()}),
    "labels in a column": lambda: Data(**user_fields() | {"y": user_fields()["y"].unsqueeze(1)}),
    "labels True and False": lambda: Data(**user_fields() | {"y": user_fields()["y"] == 1}),
    "labels as one-hot codes": lambda: Data(
        **user_fields() | {"y": torch.eye(2)[user_fields()["y"]]}
    ),
    "edge attributes of zeros": lambda: Data(
        **user_fields(), edge_attr=torch.zeros(user_fields()["edge_index"].shape[1], 1)
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.filterwarnings("ignore")
def test_every_form_is_read_as_the_same_graph(tmp_path, form, zipped):
    torch.save(user_fields(), tmp_path / "plain.pt")
    expected = GraphDataset(GraphSpec("", tmp_path)).own(tmp_path / "plain.pt")
    stored = FORMS[form]()
    torch.save(stored, tmp_path / "own.pt", _use_new_zipfile_serialization=zipped)
    raw = read_user_file(tmp_path / "own.pt")
    torch.testing.assert_close(raw.features.to_dense(), user_fields()["x"])
    result = GraphDataset(GraphSpec("", tmp_path)).own(tmp_path / "own.pt")
    torch.testing.assert_close(result.features.to_dense(), expected.features.to_dense())
    for name in ("edge_index", "labels", "train", "val", "test"):
        assert torch.equal(getattr(result, name), getattr(expected, name)), name
    assert result.edge_weights is None
    in_memory = check_data("here", stored)
    assert torch.equal(in_memory.labels, raw.labels)
    assert (
        in_memory.class_names
        == raw.class_names
        == (("left", "right") if "arrays" in form else ("0", "1"))
    )


def test_an_adjacency_matrix_stands_for_edges_and_their_weights():
    fields = user_fields()
    matrix = torch.zeros(NODES, NODES).index_put(tuple(fields.pop("edge_index")), torch.tensor(2.0))
    for stored in (matrix, matrix.to_sparse_csr(), scipy.sparse.coo_matrix(matrix.numpy())):
        raw = check_graphs("here", fields | {"adj": stored})
        assert torch.equal(raw.edge_index, matrix.nonzero().t())
        assert raw.edge_weights is not None
        assert set(raw.edge_weights.tolist()) == {2.0}


def older_data(**fields: object) -> object:
    """What PyTorch Geometric 1 stored: an object whose attributes are the fields."""
    module = types.ModuleType("torch_geometric.data.data")
    kind = type("Data", (), {"__module__": module.__name__})
    made = kind()
    vars(made).update(fields)
    return made, kind, module


@pytest.mark.parametrize("collated", [False, True])
def test_files_of_version_1(tmp_path, monkeypatch, collated):
    fields = user_fields()
    graphs = user_graphs()
    made, kind, module = older_data(**fields, edge_attr=None, pos=None, norm=None, face=None)
    whole, slices = InMemoryDataset.collate([Data.from_dict(graph) for graph in graphs])
    if collated:
        vars(made).clear()
        vars(made).update(
            {"x": whole.x, "edge_index": whole.edge_index, "y": whole.y, "edge_attr": None}
        )
        vars(made)["__num_nodes__"] = [len(graph["x"]) for graph in graphs]
    module.Data = kind
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, module.__name__, module)
        torch.save((made, slices) if collated else made, tmp_path / "own.pt")
    raw = read_user_file(tmp_path / "own.pt")
    assert raw.labels.tolist() == (
        [number % 3 for number in range(12)] if collated else fields["y"].tolist()
    )


@pytest.mark.parametrize("form", ["list", "saved", "collated", "collated by version 1"])
def test_a_graph_of_nodes_that_stands_alone_in_a_list(tmp_path, monkeypatch, form):
    graph = plain_data()
    graph.train_mask = torch.arange(NODES) < 20
    graph.test_mask = torch.arange(NODES) >= 40
    graph.val_mask = ~(graph.train_mask | graph.test_mask)
    expected = check_graphs("here", graph)
    made, kind, module = older_data(**graph.to_dict(), edge_attr=None, pos=None, face=None)
    module.Data = kind
    lengths = {"x": NODES, "edge_index": graph.num_edges, "y": NODES, "train_mask": NODES}
    slices = {name: torch.tensor([0, length]) for name, length in lengths.items()}
    stored = {"list": [graph], "collated": (graph, slices), "collated by version 1": (made, slices)}
    with monkeypatch.context() as patch:
        if form == "collated by version 1":
            patch.setitem(sys.modules, module.__name__, module)
        if form == "saved":
            InMemoryDataset.save([graph], tmp_path / "own.pt")
        else:
            torch.save(stored[form], tmp_path / "own.pt")
    raw = read_user_file(tmp_path / "own.pt")
    for name in ("features", "edge_index", "labels"):
        assert torch.equal(getattr(raw, name), getattr(expected, name)), name
    assert raw.split.names == expected.split.names == ("train_mask", "val_mask", "test_mask")


def test_a_batch_of_graphs_with_a_class_each_is_a_list(tmp_path):
    graphs = [Data.from_dict(graph) for graph in user_graphs()]
    torch.save(graphs, tmp_path / "list.pt")
    torch.save(Batch.from_data_list(graphs), tmp_path / "batch.pt")
    expected = read_user_file(tmp_path / "list.pt")
    for raw in (
        read_user_file(tmp_path / "batch.pt"),
        check_graphs("here", Batch.from_data_list(graphs)),
    ):
        for name in ("attributes", "edge_index", "graph_of_node", "labels"):
            assert torch.equal(getattr(raw, name), getattr(expected, name)), name


def test_the_class_of_a_graph_in_every_shape():
    shapes = (torch.tensor([[2]]), torch.tensor([2.0]), torch.tensor([[0, 0, 1]]), torch.tensor(2))
    for y in (*shapes, np.int64(2), [2]):
        graphs = user_graphs()
        graphs[4]["y"] = y
        assert check_graphs("here", graphs).labels[4] == 2


def collated_without_features() -> tuple[object, object]:
    whole, slices = InMemoryDataset.collate([plain_data(), plain_data()])
    del whole.x, whole.edge_index
    return whole, slices


REFUSED = {
    "a table of another library": (
        lambda: {"x": datetime.date(2024, 1, 2), "edge_index": 1},
        ("no-tensor", "datetime.date"),
    ),
    "no graph": (lambda: Path("here"), ("no-graph",)),
    "a class without fields": (lambda: MyData(), ("no-graph", "MyData")),
    "a collated object without features": (collated_without_features, ("no-graph", "Data")),
    "an object whose state is odd": (
        lambda: types.SimpleNamespace(_store=types.SimpleNamespace(_mapping=3)),
        ("no-graph", "types.SimpleNamespace"),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_named_with_what_to_do(tmp_path, case):
    make, facts = REFUSED[case]
    torch.save(make(), tmp_path / "own.pt")
    with refuses(*facts, "torch.save("):
        read_user_file(tmp_path / "own.pt")


def test_the_keys_of_a_dict_that_is_no_graph_are_named(tmp_path):
    torch.save({"features": torch.zeros(3, 2), "links": 1}, tmp_path / "own.pt")
    with refuses("no-graph", "a dict with the keys features, links; expected") as caught:
        read_user_file(tmp_path / "own.pt")
    assert "to_dict" not in str(caught.value)


def test_stand_ins_run_nothing(tmp_path):
    class Trap:
        def __reduce__(self) -> tuple[object, ...]:
            return exec, ("open('sprung', 'w')",)

    torch.save([Trap(), np.array([1, "a", None], dtype=object)], tmp_path / "own.pt")
    trap, array = read_objects(tmp_path / "own.pt", "anything")
    assert type(trap).__name__ == "builtins.exec"
    assert array.value == [1, "a", None]
    assert not Path("sprung").exists()


def test_files_are_read_by_one_thread_at_a_time(tmp_path):
    torch.save(with_arrays(), tmp_path / "arrays.pt")
    before = torch.serialization.get_safe_globals()
    with ThreadPoolExecutor(4) as pool:
        graphs = list(pool.map(lambda _: read_user_file(tmp_path / "arrays.pt"), range(12)))
    assert len(graphs) == 12
    assert torch.serialization.get_safe_globals() == before

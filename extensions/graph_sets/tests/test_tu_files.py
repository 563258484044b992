"""The text files of the TU collection: read as meant, refused by name where unfit."""

import numpy as np
import pytest
import torch
from errors import refuses
from graph_fixtures import TUGraph, write_tu
from hypothesis import given
from hypothesis import strategies as st

from curvfed.extensions.graph_sets.tu_files import find_files, raw_files, read_tu
from curvfed.tasks.formats import decide
from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.dataset import GraphDataset
from curvfed.tasks.registry import tasks_of


def dense(raw):
    """All features of RawGraphs, (N, F)."""
    ones = torch.zeros(len(raw.codes), raw.num_codes).scatter_(1, raw.codes, 1)
    return torch.cat([raw.attributes, ones], dim=1)


def edges_by_hand(graphs):
    """Both directions of all edges in the numbering of the whole set."""
    result, start = [], 0
    for graph in graphs:
        result += [
            pair
            for i, j in graph.edges
            for pair in ((start + i, start + j), (start + j, start + i))
        ]
        start += len(graph.node_labels)
    return sorted(result)


def check_structure(raw, graphs):
    assert raw.edge_index.dtype == torch.int64
    assert [tuple(edge) for edge in raw.edge_index.T.tolist()] == edges_by_hand(graphs)
    assert raw.graph_of_node.tolist() == [
        number for number, graph in enumerate(graphs) for _ in graph.node_labels
    ]
    values = sorted({graph.label for graph in graphs})
    assert raw.class_names == tuple(str(value) for value in values)
    assert [values[label] for label in raw.labels.tolist()] == [graph.label for graph in graphs]


def test_degrees_stand_in_for_features(tmp_path):
    graphs = write_tu(tmp_path, "COLLAB", attributes=False, node_labels=False)
    raw = read_tu(tmp_path / "tu/COLLAB/raw", "COLLAB")
    check_structure(raw, graphs)
    degrees = [
        sum(node in edge for edge in graph.edges)
        for graph in graphs
        for node in range(len(graph.node_labels))
    ]
    assert raw.num_codes == max(degrees) + 1
    assert torch.equal(dense(raw), torch.eye(max(degrees) + 1)[degrees])


def test_features_and_labels_are_those_of_pytorch_geometric(tmp_path):
    from torch_geometric.io import read_tu_data

    write_tu(tmp_path, "BZR")
    folder = tmp_path / "tu/BZR/raw"
    # its reader wants a row for each of the edges that it merges
    (folder / "BZR_edge_labels.txt").unlink()
    data, slices, _ = read_tu_data(str(folder), "BZR")
    raw = read_tu(folder, "BZR")
    assert torch.equal(dense(raw), data.x)
    assert torch.equal(raw.labels, data.y)
    assert torch.equal(torch.bincount(raw.graph_of_node), slices["x"].diff())


def test_several_columns_of_node_labels_stand_side_by_side(tmp_path):
    graphs = write_tu(tmp_path, attributes=False)
    folder = tmp_path / "tu/MUTAG/raw"
    rows = [
        (label, node % 4 - 10) for graph in graphs for node, label in enumerate(graph.node_labels)
    ]
    (folder / "MUTAG_node_labels.txt").write_text("".join(f"{a}, {b}\n" for a, b in rows))
    expected = [
        [float(a == column) for column in range(-2, 4)] + [float(b == c) for c in range(-10, -6)]
        for a, b in rows
    ]
    assert torch.equal(dense(read_tu(folder, "MUTAG")), torch.tensor(expected))


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n"])
def test_ends_of_lines_and_of_the_file_do_not_matter(tmp_path, end):
    graphs = write_tu(tmp_path)
    folder = tmp_path / "tu/MUTAG/raw"
    for path in folder.iterdir():
        text = path.read_text().rstrip("\n")
        path.write_bytes(
            (text.replace("\n", "\r\n") if "\r" in end else text).encode() + end.encode()
        )
    check_structure(read_tu(folder, "MUTAG"), graphs)


@st.composite
def sets_of_graphs(draw):
    def graph():
        size = draw(st.integers(1, 5))
        pairs = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)).filter(
            lambda pair: pair[0] < pair[1]
        )
        edges = draw(st.frozensets(pairs)) if size > 1 else frozenset()
        numbers = draw(st.lists(st.floats(-1e6, 1e6, width=32), min_size=size, max_size=size))
        labels = draw(st.lists(st.integers(-9, 9), min_size=size, max_size=size))
        return TUGraph(
            draw(st.integers(-(2**40), 2**40)), [[number] for number in numbers], labels, edges
        )

    return [graph() for _ in range(draw(st.integers(1, 6)))]


@given(graphs=sets_of_graphs())
def test_any_set_of_graphs_is_read_as_written(tmp_path_factory, graphs):
    root = tmp_path_factory.mktemp("any")
    write_tu(root, "ANY", graphs)
    raw = read_tu(root / "tu/ANY/raw", "ANY")
    check_structure(raw, graphs)
    assert raw.attributes.flatten().tolist() == [
        row[0] for graph in graphs for row in graph.attributes
    ]
    values = np.concatenate([graph.node_labels for graph in graphs])
    assert raw.codes.flatten().tolist() == (values - values.min()).tolist()


# What is refused. The set of `tu_graphs()` has 24 graphs.


def rows_of(path):
    return path.read_text().splitlines()


def with_row(row, text):
    """Put `text` into a row, counted from 1; None takes the row out."""

    def change(lines):
        return [*lines[: row - 1], *([] if text is None else [text]), *lines[row:]]

    return change


UNFIT = {
    "indicator from 0": (
        "graph_indicator",
        lambda lines: [str(int(line) - 1) for line in lines],
        ("node-order", "1"),
    ),
    "graph without nodes": (
        "graph_indicator",
        lambda lines: [str(int(line) + (int(line) > 1)) for line in lines],
        ("node-order",),
    ),
    "indicator with two columns": (
        "graph_indicator",
        lambda lines: [f"{line}, 1" for line in lines],
        ("table-shape", "2", "1"),
    ),
    "edge to node 0": ("A", with_row(2, "0, 1"), ("node-range", "1", "2", "1..")),
    "edge beyond all numbers": ("A", with_row(2, f"1, {2**70}"), ("unreadable", "2")),
    "edge between graphs": ("A", lambda lines: [*lines, "1, 90"], ("crossing-edges", "1")),
    "bytes": ("A", with_row(1, "\udcff, 1"), ("unreadable",)),
    "labels too few": ("graph_labels", with_row(1, None), ("table-shape", "23", "24")),
    "labels by name": ("graph_labels", with_row(24, "toxic"), ("unreadable", "24")),
    "node labels too wide": ("node_labels", with_row(1, str(2**62)), ("label-range", "100000")),
    "attributes NaN": ("node_attributes", with_row(2, "1, nan, 3"), ("not-finite", "1")),
}


@pytest.mark.parametrize("case", UNFIT)
def test_unfit_files_are_named(tmp_path, case):
    part, change, facts = UNFIT[case]
    write_tu(tmp_path)
    path = tmp_path / f"tu/MUTAG/raw/MUTAG_{part}.txt"
    path.write_bytes("\n".join(change(rows_of(path))).encode(errors="surrogateescape"))
    with refuses(*facts, path) as error:
        read_tu(path.parent, "MUTAG")
    assert not any(
        value in str(error.value)
        for value in ("secret", "toxic", "two", "12345", str(2**62), "1e39")
    )


@pytest.mark.parametrize("part", ["A", "graph_indicator", "graph_labels"])
def test_absent_files_are_named(tmp_path, part):
    write_tu(tmp_path)
    folder = tmp_path / "tu/MUTAG/raw"
    (folder / f"MUTAG_{part}.txt").unlink()
    with refuses("unreadable", folder / f"MUTAG_{part}.txt"):
        read_tu(folder, "MUTAG")
    with refuses("no-file", folder, f"MUTAG_{part}.txt", "MUTAG_A.txt"):
        raw_files(folder, "MUTAG")


def test_a_folder_is_found_by_its_files(tmp_path):
    write_tu(tmp_path, "FIRSTMM_DB")
    raw = tmp_path / "tu/FIRSTMM_DB/raw"
    assert find_files(raw) == find_files(raw.parent) == (raw, "FIRSTMM_DB")
    with refuses("no-file", tmp_path, "NAME_A.txt", "NAME_graph_indicator"):
        find_files(tmp_path)
    (raw / "DD_A.txt").write_text("")
    with refuses("several-data-sets", "DD", "FIRSTMM_DB"):
        find_files(raw.parent)


def test_nodes_and_server_decide_alike_and_with_a_reason(tmp_path):
    """A folder of graphs with a picture was graphs to the server and images to a node."""
    path = tmp_path / "tu"
    (path / "pictures").mkdir(parents=True)
    (path / "MUTAG_A.txt").touch()
    (path / "pictures/0.png").touch()
    assert decide(path).text == "tu: graphs (it holds MUTAG_A.txt)"
    assert tasks_of(f"{path}/") == decide(path).tasks == ("graphs",)
    with refuses("no-file", "MUTAG_graph_indicator.txt"):
        GraphDataset(GraphSpec("own", tmp_path)).own(path)

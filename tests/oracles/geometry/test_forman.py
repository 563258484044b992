"""Forman–Ricci curvature against a count by hand and by brute force."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from textbook import both_directions, forman_by_counting
from tiers import examples

from curvfed.geometry import curvature as module
from curvfed.geometry.curvature import forman_ricci


@st.composite
def graphs(draw):
    num_nodes = draw(st.integers(2, 12))
    pairs = [(i, j) for i in range(num_nodes) for j in range(i)]
    return (
        num_nodes,
        draw(st.lists(st.sampled_from(pairs), unique=True)),
        draw(st.randoms(use_true_random=False)),
    )


@examples(60)
@given(graph=graphs(), triangles=st.booleans(), block=st.sampled_from([1, 7, 2**22]))
def test_equals_brute_force_in_any_column_order(graph, triangles, block):
    num_nodes, edges, random = graph
    edge_index = both_directions(edges)
    order = list(range(edge_index.shape[1]))
    random.shuffle(order)
    edge_index = edge_index[:, order]
    expected = forman_by_counting(edges, num_nodes, triangles)
    with pytest.MonkeyPatch.context() as patch:
        # Of edges whose triangles are counted at once.
        patch.setattr(module, "_CANDIDATES", block)
        value = forman_ricci(edge_index, num_nodes, triangles)
    assert value.tolist() == [expected[i, j] for i, j in edge_index.T.tolist()]


def weighted(graph, of_edges, of_nodes):
    """Edges and nodes of a graph with drawn weights, 1 where they are not to differ."""
    num_nodes, edges, random = graph
    edge = {frozenset(pair): random.uniform(0.1, 5) if of_edges else 1.0 for pair in edges}
    node = [random.uniform(0.1, 5) if of_nodes else 1.0 for _ in range(num_nodes)]
    edge_index = both_directions(edges)
    columns = [frozenset(column) for column in edge_index.T.tolist()]
    weights = torch.tensor([edge[pair] for pair in columns], dtype=torch.float64)
    return edge_index, columns, edge, node, weights


@given(graph=graphs(), of_edges=st.booleans(), of_nodes=st.booleans())
def test_with_weights_it_is_the_sum_over_the_other_edges(graph, of_edges, of_nodes):
    """FlatLand, Appendix B.2, as printed."""
    edge_index, columns, edge, node, weights = weighted(graph, of_edges, of_nodes)
    value = forman_ricci(
        edge_index,
        graph[0],
        triangles=False,
        weights=weights if of_edges else None,
        vertex_weights=torch.tensor(node, dtype=torch.float64) if of_nodes else None,
    )
    for curvature, ends in zip(value.tolist(), columns, strict=True):
        own = edge[ends]
        expected = own * sum(
            node[end] / own
            - sum(
                node[end] / (own * edge[next_one]) ** 0.5
                for next_one in edge
                if end in next_one != ends
            )
            for end in ends
        )
        assert curvature == pytest.approx(expected, rel=1e-5, abs=1e-4)


@given(graph=graphs(), triangles=st.booleans(), of_edges=st.booleans())
def test_nodes_of_weight_1_change_no_bit(graph, triangles, of_edges):
    edge_index, _, _, node, weights = weighted(graph, of_edges, False)
    weights = weights if of_edges else None
    plain = forman_ricci(edge_index, graph[0], triangles, weights)
    ones = forman_ricci(edge_index, graph[0], triangles, weights, torch.tensor(node))
    assert torch.equal(plain, ones)


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan")])
@pytest.mark.parametrize("kind", ["weights", "vertex_weights"])
def test_refused_weights(kind, wrong):
    pair = torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(ValueError, match="allowed are numbers above 0"):
        forman_ricci(pair, 2, **{kind: torch.tensor([wrong, wrong])})


def test_more_nodes_than_one_block_of_rows():
    generator = torch.Generator().manual_seed(0)
    pairs = torch.randint(0, 2500, (6000, 2), generator=generator).tolist()
    # A wheel of 40 spokes beside the random edges, so that there are triangles over block borders.
    pairs += [(0, 60 * k) for k in range(1, 41)] + [(60 * k, 60 * k + 60) for k in range(1, 40)]
    edges = {(max(p), min(p)) for p in pairs if p[0] != p[1]}
    edge_index = both_directions(edges)
    expected = forman_by_counting(edges, 2500, True)
    assert forman_ricci(edge_index, 2500).tolist() == [
        expected[i, j] for i, j in edge_index.T.tolist()
    ]


@pytest.mark.parametrize("num_nodes", [0, 3])
def test_no_edges(num_nodes):
    value = forman_ricci(torch.empty(2, 0, dtype=torch.int64), num_nodes)
    assert value.shape == (0,)
    assert value.dtype == torch.get_default_dtype()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([(0, 1), (1, 0), (2, 2)], "2–2 in column 2 is a self-loop"),
        ([(0, 1), (1, 0), (1, 0), (0, 1)], "1–0 in column 2 occurs a second time"),
        ([(0, 1), (1, 0), (1, 2)], "1–2 in column 2 lacks its other direction"),
        ([(0, 1), (1, 0), (1, 3), (3, 1)], "1–3 in column 2 is out of range; nodes are 0 … 2"),
        # 0·3+5 and 1·3+2 share a key: the range is looked at first.
        ([(0, 5), (5, 0)], "out of range"),
        ([(0, -1), (-1, 0)], "out of range"),
    ],
)
def test_refused_edges(columns, message):
    with pytest.raises(ValueError, match=message):
        forman_ricci(torch.tensor(columns).T, 3)


@pytest.mark.parametrize(
    "edge_index",
    [
        torch.zeros(3, 2, dtype=torch.int64),
        torch.zeros(2, dtype=torch.int64),
        torch.tensor([[0.0, 1.0], [1.0, 0.0]]),
    ],
)
def test_refused_shapes_and_dtypes(edge_index):
    with pytest.raises(ValueError, match=r"must be \(2, E\), int64 or int32"):
        forman_ricci(edge_index, 3)

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


@given(graph=graphs())
def test_with_weights_it_is_the_sum_over_the_other_edges(graph):
    """FlatLand, Appendix B.2, with nodes of weight 1."""
    num_nodes, edges, random = graph
    weight = {frozenset(edge): random.uniform(0.1, 5) for edge in edges}
    edge_index = both_directions(edges)
    columns = [frozenset(column) for column in edge_index.T.tolist()]
    weights = torch.tensor([weight[edge] for edge in columns], dtype=torch.float64)
    value = forman_ricci(edge_index, num_nodes, triangles=False, weights=weights)
    for curvature, edge in zip(value.tolist(), columns, strict=True):
        edge_weight = weight[edge]
        expected = edge_weight * sum(
            1 / edge_weight
            - sum(
                (edge_weight * weight[neighbour]) ** -0.5
                for neighbour in weight
                if node in neighbour != edge
            )
            for node in edge
        )
        assert curvature == pytest.approx(expected, abs=1e-4)


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

"""Ollivier–Ricci curvature against values by hand, an integer linear program, theorems."""

import math
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from curvfed.extensions.curvature import ollivier
from curvfed.extensions.curvature.ollivier import ollivier_ricci
from curvfed.geometry.curvature import forman_ricci

EPS = float(np.finfo(np.float64).eps)


@pytest.fixture(autouse=True)
def double():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def both_directions(edges) -> torch.Tensor:
    edges = list(edges)
    return torch.tensor([*edges, *[(j, i) for i, j in edges]], dtype=torch.int64).reshape(-1, 2).T


def curvatures(graph: nx.Graph, idleness) -> dict[tuple[int, int], float]:
    """{(i, j): value} in both directions; the nodes are 0 … N−1."""
    edge_index = both_directions(graph.edges)
    value = ollivier_ricci(edge_index, graph.number_of_nodes(), float(idleness))
    assert value.dtype == torch.float64
    return dict(zip(zip(*edge_index.tolist()), value.tolist()))


def brute_force(graph: nx.Graph, idleness: Fraction) -> dict[tuple[int, int], Fraction]:
    """{(i, j): value} by the definition: all mass may go anywhere, by networkx's shortest paths.

    In units that make all masses whole the optimum is whole too, and what the linear program
    returns is rounded to it.
    """
    from scipy.optimize import linprog

    distance = dict(nx.all_pairs_shortest_path_length(graph))

    def walk(node):
        return {node: idleness} | dict.fromkeys(graph[node], (1 - idleness) / graph.degree[node])

    values = {}
    for i, j in graph.edges:
        start, end = walk(i), walk(j)
        masses = [*start.values(), *end.values()]
        unit = math.lcm(*(mass.denominator for mass in masses))
        leaves = np.kron(np.eye(len(start)), np.ones(len(end)))
        arrives = np.kron(np.ones(len(start)), np.eye(len(end)))
        solution = linprog(
            [distance[a][b] for a in start for b in end],
            A_eq=np.concatenate([leaves, arrives]),
            b_eq=[float(mass * unit) for mass in masses],
        )
        assert solution.status == 0
        assert abs(solution.fun - round(solution.fun)) < 1e-6
        values[i, j] = values[j, i] = 1 - Fraction(round(solution.fun), unit)
    return values


def assert_close(
    value: dict[tuple[int, int], float], expected: dict[tuple[int, int], Fraction], graph: nx.Graph
):
    """Within the docstring's bound and the rounding of the idleness, at most 3 times it."""
    assert value.keys() == expected.keys()
    for (i, j), exact in expected.items():
        assert (
            abs(Fraction(value[i, j]) - exact) <= (graph.degree[i] + graph.degree[j] + 3) * EPS
        ), (i, j)


@st.composite
def graphs(draw):
    num_nodes = draw(st.integers(2, 10))
    pairs = [(i, j) for i in range(num_nodes) for j in range(i)]
    graph = nx.empty_graph(num_nodes)
    graph.add_edges_from(draw(st.lists(st.sampled_from(pairs), unique=True)))
    return graph


# Where an edge's curvature has its kinks, 1/(max(d, d') + 1) and 1/(lcm(d, d') + 1) among them, and
# between.
idlenesses = st.sampled_from([Fraction(k, 12) for k in range(12)]) | st.sampled_from(
    [Fraction(1, n) for n in (5, 7, 8, 11, 13, 21, 31, 1000)] + [Fraction(999, 1000)]
)


@examples(50)
@given(graph=graphs(), idleness=idlenesses)
def test_equals_brute_force(graph, idleness):
    assert_close(curvatures(graph, idleness), brute_force(graph, idleness), graph)


@pytest.mark.parametrize("idleness", [Fraction(0), Fraction(1, 40), Fraction(1, 2)])
def test_equals_brute_force_at_hubs(idleness):
    # Two hubs of degree 22 or more with 11 neighbours in common or more.
    graph = nx.gnp_random_graph(34, 0.05, seed=0)
    graph.add_edges_from([(0, i) for i in range(1, 23)] + [(1, i) for i in range(12, 34)])
    assert_close(curvatures(graph, idleness), brute_force(graph, idleness), graph)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    "graph", [nx.cycle_graph(5), nx.star_graph(4), nx.ladder_graph(4), nx.lollipop_graph(5, 2)]
)
def test_idleness_just_beside_a_kink(graph, side):
    # A surplus of one rounding at the ends of the edge is neither lost nor taken for more.
    for degree in range(1, 6):
        kink = Fraction(1, degree + 1)
        value = curvatures(graph, np.nextafter(float(kink), side))
        assert_close(value, brute_force(graph, kink), graph)


def test_blocks_mean_nothing(monkeypatch):
    graph = nx.barabasi_albert_graph(60, 4, seed=0)
    at_once = curvatures(graph, 0.3)
    for entries in (1, 60 * 30):
        monkeypatch.setattr(ollivier, "_ENTRIES", entries)
        assert curvatures(graph, 0.3) == at_once


def test_dtypes():
    edge_index = both_directions(nx.barabasi_albert_graph(30, 3, seed=0).edges)
    double = ollivier_ricci(edge_index, 30)
    assert torch.equal(ollivier_ricci(edge_index.int(), 30), double)
    torch.set_default_dtype(torch.float32)
    single = ollivier_ricci(edge_index, 30)
    assert single.dtype == torch.float32
    assert torch.equal(single, double.float())


@pytest.mark.parametrize("num_nodes", [0, 1, 3])
def test_no_edges(num_nodes):
    value = ollivier_ricci(torch.empty(2, 0, dtype=torch.int64), num_nodes)
    assert value.shape == (0,)
    assert value.dtype == torch.get_default_dtype()


@pytest.mark.parametrize(
    "edge_index",
    [
        torch.tensor([[0, 1, 2], [1, 0, 2]]),
        torch.tensor([[0, 1, 0, 1], [1, 0, 1, 0]]),
        torch.tensor([[0, 1, 1], [1, 0, 2]]),
        torch.tensor([[0, 3], [3, 0]]),
        torch.tensor([[0, -1], [-1, 0]]),
        torch.zeros(3, 2, dtype=torch.int64),
        torch.tensor([[0.0, 1.0], [1.0, 0.0]]),
    ],
)
def test_refuses_what_forman_ricci_refuses(edge_index):
    with pytest.raises(ValueError, match="edge_index") as forman:
        forman_ricci(edge_index, 3)
    with pytest.raises(ValueError, match="edge_index") as refused:
        ollivier_ricci(edge_index, 3)
    assert str(refused.value) == str(forman.value)


@pytest.mark.parametrize("idleness", [-0.01, 1.0, 1.5, math.nan, math.inf])
def test_refused_idleness(idleness):
    with pytest.raises(ValueError, match=r"idleness: got .* must be at least 0 and less than 1"):
        ollivier_ricci(both_directions([(0, 1)]), 2, idleness)


@pytest.mark.parametrize(("patience", "lines"), [(-1.0, 1), (1e9, 0)])
def test_one_line_in_the_log_where_it_takes_long(patience, lines, monkeypatch):
    messages = []
    monkeypatch.setattr(ollivier, "_PATIENCE", patience)
    monkeypatch.setattr(ollivier.log, "info", lambda text, *values: messages.append(text % values))
    curvatures(nx.cycle_graph(8), 0.5)
    assert messages == ["Ollivier-Ricci curvature takes its time: 1 of 8 edges done"][:lines]


def test_says_where_the_optimum_is_not_found(monkeypatch):
    monkeypatch.setattr(ollivier, "_PIVOTS", 1)
    graph = nx.gnp_random_graph(40, 0.2, seed=0)
    with (
        pytest.warns(UserWarning, match="numItermax"),
        pytest.raises(RuntimeError, match="optimal transport from"),
    ):
        curvatures(graph, 0.5)

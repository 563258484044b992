"""Ollivier–Ricci curvature against values by hand, a linear program in whole numbers, and
theorems.
"""

import math
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from curvfed.geometry import curvature
from curvfed.geometry.curvature import forman_ricci, ollivier_ricci

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
    """Within what the docstring allows, and the rounding of the idleness: the curvature changes at
    most 3 times it."""
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


@examples(40)
@given(graph=graphs(), idleness=st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(7, 8)]))
def test_only_the_last_operations_are_rounded_where_the_weights_are_whole(graph, idleness):
    value = curvatures(graph, idleness)
    for edge, exact in brute_force(graph, idleness).items():
        assert abs(Fraction(value[edge]) - exact) <= 2 * EPS * abs(exact)


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


def complete(n):
    # μx − μy = (p − (1−p)/(n−1))·(δx − δy), and x and y are at distance 1.
    return nx.complete_graph(n), lambda p: 1 - abs(p - (1 - p) / (n - 1))


def cycle(n):
    # q = (1−p)/2; z is the other neighbour of x, w that of y. x has p − q more than needed, y as
    # much less; z has q more, w as much less.
    #   n = 4, z–w an edge: |p − q| between x and y, q from z to w.
    # n = 5, d(z, w) = 2: p ≥ q: p − q from x to y and 2q for z to w, together 1 − q. p < q: q − p
    # from z to x and from
    #   y to w, the other p from z to w, together 2q.
    # n ≥ 6, d(z, w) = 3: all go one step on, and no transport is cheaper than the difference of the
    # means on the line.
    value = {
        4: lambda p: 1 - abs(p - (1 - p) / 2) - (1 - p) / 2,
        5: lambda p: min((1 - p) / 2, p),
    }
    return nx.cycle_graph(n), value.get(n, lambda p: 0)


def star(n):
    # The edges to the n−1 other leaves carry (1−p)/n each, the edge itself |p − (1−p)/n|.
    return nx.star_graph(n), lambda p: 1 - (n - 1) * (1 - p) / n - abs(p - (1 - p) / n)


def complete_bipartite(m, n):
    # x in the part of m nodes, y in that of n, m ≥ n, p ≥ 1/(m + 1). f is 2 at x, 1 in y's part, 0
    # at the others of x's part: 1-Lipschitz, and its means are 2p + (1−p) under μx, p + 2(1−p)/m
    # under μy, so W₁ ≥ 1 − 2(1−p)/m. As much is enough: p − (1−p)/n from x to y, (1−p)(1/n − 1/m)
    # from x to the others of its part at distance 2, and to them, at distance 1, all that y's part
    # has but y: (1−p)(1 − 1/n).
    return nx.complete_bipartite_graph(m, n), lambda p: 2 * (1 - p) / m


def hypercube(n):
    # p ≥ 1/(n + 1): f, 1 on x's half of the cube and 0 on y's, has means p + (1−p)(n−1)/n and
    # (1−p)/n. As much is enough: every other neighbour of x sends (1−p)/n over its edge to a
    # neighbour of y, x sends p − (1−p)/n to y.
    return nx.convert_node_labels_to_integers(nx.hypercube_graph(n)), lambda p: 2 * (1 - p) / n


def ricci_flat(graph):
    # Lin, Lu, Yau, Ricci-flat graphs with girth at least five (2014): p ≥ 1/(max degree + 1).
    return graph, lambda p: 0


def assert_one_value(graph, curvature, idlenesses):
    for p in idlenesses:
        value = curvatures(graph, p)
        assert_close(value, dict.fromkeys(value, curvature(p)), graph)


@pytest.mark.parametrize(
    ("graph", "curvature"),
    [
        *[pytest.param(*complete(n), id=f"complete {n}") for n in (2, 3, 4, 7)],
        *[pytest.param(*cycle(n), id=f"cycle {n}") for n in (4, 5, 6, 7, 12)],
        *[pytest.param(*star(n), id=f"star {n}") for n in (1, 2, 5, 9)],
    ],
)
def test_graphs_of_one_curvature(graph, curvature):
    assert_one_value(graph, curvature, [Fraction(k, 10) for k in range(10)])


@pytest.mark.parametrize(
    ("graph", "curvature"),
    [
        *[
            pytest.param(*complete_bipartite(m, n), id=f"{m} and {n}")
            for m, n in ((2, 2), (3, 1), (5, 3), (7, 7))
        ],
        *[pytest.param(*hypercube(n), id=f"hypercube {n}") for n in (1, 2, 3, 5)],
        pytest.param(*ricci_flat(nx.petersen_graph()), id="Petersen"),
        pytest.param(*ricci_flat(nx.dodecahedral_graph()), id="dodecahedron"),
    ],
)
def test_graphs_of_one_curvature_under_large_idleness(graph, curvature):
    assert_one_value(graph, curvature, [Fraction(1, 2), Fraction(2, 3), Fraction(99, 100)])


@given(num_nodes=st.integers(2, 30), seed=st.integers(0, 1000), p=idlenesses)
def test_trees(num_nodes, seed, p):
    # W₁ is the sum of what crosses each edge: (1−p)/dᵢ and (1−p)/dⱼ at the other neighbours, and
    # between i and j the difference of what the two walks leave on i's side: p + (1−p)(1 − 1/dᵢ)
    # and (1−p)/dⱼ.
    tree = nx.random_labeled_tree(num_nodes, seed=seed)
    expected = {}
    for i, j in [*tree.edges, *[(j, i) for i, j in tree.edges]]:
        shares = Fraction(1, tree.degree[i]) + Fraction(1, tree.degree[j])
        expected[i, j] = 1 - (1 - p) * (2 - shares) - abs(p + (1 - p) * (1 - shares))
    assert_close(curvatures(tree, p), expected, tree)


@given(graph=graphs(), p=idlenesses)
def test_bounds_by_triangles(graph, p):
    # Jost and Liu, Ollivier's Ricci curvature, local clustering and curvature-dimension
    # inequalities on graphs (2014), for idleness 0; κ is concave in p and 0 at 1, so the lower
    # bound holds for all p times 1 − p.
    simple, lazy = curvatures(graph, 0), curvatures(graph, p)
    for i, j in graph.edges:
        small, large = sorted((graph.degree[i], graph.degree[j]))
        triangles = len(list(nx.common_neighbors(graph, i, j)))
        free = 1 - Fraction(1, small) - Fraction(1, large)
        lower = (
            Fraction(triangles, large)
            - max(0, free - Fraction(triangles, small))
            - max(0, free - Fraction(triangles, large))
        )
        rounding = (small + large + 3) * EPS
        assert lower - rounding <= simple[i, j] <= Fraction(triangles, large) + rounding
        assert lazy[i, j] >= (1 - p) * lower - rounding
        assert lazy[i, j] >= (1 - p) * Fraction(simple[i, j]) - 2 * rounding


@given(graph=graphs(), random=st.randoms(use_true_random=False))
def test_numbers_of_nodes_and_order_of_columns_mean_nothing(graph, random):
    place = list(range(graph.number_of_nodes()))
    random.shuffle(place)
    renamed = nx.empty_graph(len(place))
    columns = [(place[i], place[j]) for i, j in graph.edges]
    random.shuffle(columns)
    renamed.add_edges_from(columns)
    value, renumbered = curvatures(graph, 0.5), curvatures(renamed, 0.5)
    assert {(place[i], place[j]): kappa for (i, j), kappa in value.items()} == renumbered


def test_other_components_and_isolated_nodes_mean_nothing():
    parts = (
        nx.wheel_graph(6),
        nx.empty_graph(2),
        nx.complete_bipartite_graph(3, 2),
        nx.path_graph(2),
    )
    alone = [curvatures(component, 0.25) for component in parts]
    begin = np.cumsum([0, *map(len, parts)]).tolist()
    expected = {
        (i + offset, j + offset): kappa
        for offset, component in zip(begin, alone)
        for (i, j), kappa in component.items()
    }
    assert curvatures(nx.disjoint_union_all(parts), 0.25) == expected


def test_blocks_mean_nothing(monkeypatch):
    graph = nx.barabasi_albert_graph(60, 4, seed=0)
    at_once = curvatures(graph, 0.3)
    for entries in (1, 60 * 30):
        monkeypatch.setattr(curvature, "_ENTRIES", entries)
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
    monkeypatch.setattr(curvature, "_PATIENCE", patience)
    monkeypatch.setattr(curvature.log, "info", lambda text, *values: messages.append(text % values))
    curvatures(nx.cycle_graph(8), 0.5)
    assert messages == ["Ollivier-Ricci curvature takes its time: 1 of 8 edges done"][:lines]


def test_says_where_the_optimum_is_not_found(monkeypatch):
    monkeypatch.setattr(curvature, "_PIVOTS", 1)
    graph = nx.gnp_random_graph(40, 0.2, seed=0)
    with (
        pytest.warns(UserWarning, match="numItermax"),
        pytest.raises(RuntimeError, match="optimal transport from"),
    ):
        curvatures(graph, 0.5)

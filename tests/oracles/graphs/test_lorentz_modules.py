"""Lorentz layers as modules: examples, the formula, orders of edges, matrices' lives."""

import doctest
import gc

import pytest
import torch
from errors import refuses
from torch_geometric.nn import GCNConv

from curvfed import nn as curved
from curvfed.geometry import lorentz
from curvfed.tasks.graphs import lorentz_modules as modules
from curvfed.tasks.graphs import ricci
from curvfed.tasks.graphs.data import checked_parts

NODES, WIDTH, RADIUS = 7, 5, 1.3
EDGES = torch.tensor([[0, 1, 2, 3, 4, 1], [1, 2, 3, 4, 0, 4]])


@pytest.mark.parametrize("module", [curved, modules, ricci])
def test_examples(module):
    outcome = doctest.testmod(module)
    assert (outcome.failed, outcome.attempted > 0) == (0, True)


def layer_and_input(**changes):
    torch.manual_seed(1)
    layer = curved.LorentzConv(WIDTH, 3, **changes).double()
    with torch.no_grad():
        layer.time.normal_()
    return (
        layer,
        torch.randn(NODES, WIDTH, dtype=torch.float64),
        torch.tensor(-1 / RADIUS, dtype=torch.float64),
    )


@pytest.mark.parametrize("gate", [False, True])
def test_it_is_the_formula_over_points_with_weights_of_pygs_gcn(gate):
    layer, space, curvature = layer_and_input(gate=gate)
    time = (1 - curvature * space.square().sum(1, keepdim=True)).sqrt()
    out = space @ layer.weight.T + time * layer.time + layer.bias
    points = lorentz.lift(out, curvature)
    conv = GCNConv(NODES, NODES, bias=False).double()
    conv.lin.weight.data = torch.eye(NODES, dtype=torch.float64)
    both = torch.cat([EDGES, EDGES.flip(0)], dim=1)
    weights = conv(torch.eye(NODES, dtype=torch.float64), both)
    low = torch.stack([lorentz.centroid(points, row, curvature) for row in weights])[:, 1:]
    share = torch.sigmoid(layer.gate) if gate else 1.0
    expected = torch.relu(share * low + (1 - share) * (out - low))
    assert torch.allclose(layer(space, EDGES, curvature), expected, rtol=1e-12, atol=1e-12)


def test_direction_order_loops_and_repeats_of_edges_do_not_matter():
    layer, space, curvature = layer_and_input()
    expected = layer(space, EDGES, curvature)
    loops = torch.arange(NODES).expand(2, -1)
    for variant in (
        EDGES.flip(0),
        EDGES.flip(1),
        torch.cat([EDGES, EDGES.flip(0), loops, EDGES], dim=1),
    ):
        assert torch.equal(layer(space, variant, curvature), expected)


def test_a_matrix_is_made_once_anew_for_other_edges_and_goes_with_them():
    layer, space, curvature = layer_and_input()
    edges = EDGES.clone()
    before = layer(space, edges, curvature)
    matrix = modules._adjacencies[edges][1]
    with torch.inference_mode():
        layer(space, edges, curvature)
    assert modules._adjacencies[edges][1] is matrix
    edges[:, 0] = torch.tensor([5, 6])
    assert not torch.equal(layer(space, edges, curvature), before)
    count = len(modules._adjacencies)
    del edges, matrix
    gc.collect()
    assert len(modules._adjacencies) == count - 1


def test_what_scoring_made_first_can_be_trained_with():
    layer, space, curvature = layer_and_input()
    edges = EDGES.clone()
    with torch.inference_mode():
        layer(space, edges, curvature)
    layer(space, edges, curvature).sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())


def test_dropout_is_for_training_alone():
    layer, space, curvature = layer_and_input(dropout=0.9)
    assert torch.equal(layer.eval()(space, EDGES, curvature), layer(space, EDGES, curvature))
    assert not torch.equal(
        layer.train()(space, EDGES, curvature), layer.eval()(space, EDGES, curvature)
    )


def test_edges_made_in_inference_mode():
    torch.manual_seed(0)
    layer, curvature = curved.LorentzConv(3, 2).eval(), -1.0
    edges, x = torch.tensor([[0, 1], [1, 2]]), torch.randn(3, 3)
    with torch.inference_mode():
        copied = edges.clone()
        assert torch.equal(layer(x, copied, curvature), layer(x, edges, curvature))
        copied[1, 1] = 0  # a graph without node 2
        assert torch.equal(layer(x, copied, curvature), layer(x, edges[:, :1], curvature))
    assert layer(x, copied, curvature).requires_grad


def test_edges_of_32_bits_in_a_graph_whose_pairs_need_64():
    """50,000 nodes have 2.5 billion pairs."""
    edges = torch.tensor([[49_999, 49_998, 0], [0, 49_999, 1]])
    layer, space = curved.LorentzConv(2, 2), torch.randn(50_000, 2)
    curvature = torch.tensor(-1.0)
    assert torch.equal(layer(space, edges.int(), curvature), layer(space, edges, curvature))


@pytest.mark.parametrize(
    ("edges", "facts"),
    [
        (
            torch.tensor([[0, 5], [1, 2]]),
            ("node-range", "LorentzConv", "1 edge of edge_index has", "0..4"),
        ),
        (
            torch.tensor([[0, -1], [1, 2]]),
            ("node-range", "LorentzConv", "1 edge of edge_index has", "0..4"),
        ),
        (torch.zeros(7, 2, dtype=torch.int64), ("edge-index", "(7, 2)", ".t() transposes")),
        (torch.eye(5).to_sparse(), ("edge-index", "float32 (5, 5)")),
        (torch.ones(2, 3), ("edge-index", "float32 (2, 3)", ".long() makes whole numbers")),
    ],
)
def test_wrong_edges_are_refused_in_words(edges, facts):
    with refuses(*facts):
        modules.LorentzConv(3, 2)(torch.ones(5, 3), edges, -1.0)


@pytest.mark.parametrize("edges", [None, torch.eye(5).to_sparse()])
def test_edges_that_no_hint_mends_have_none(edges):
    with refuses("edge-index", "it is") as caught:
        checked_parts.edges("graph.pt", edges, 5)
    assert ".t()" not in str(caught.value)
    assert ".long()" not in str(caught.value)


def test_edges_of_an_empty_list_are_none():
    layer = modules.LorentzConv(3, 2)
    space = torch.rand(5, 3)
    none = layer(space, torch.zeros(2, 0, dtype=torch.int64), -1.0)
    assert torch.equal(layer(space, torch.tensor([]), -1.0), none)

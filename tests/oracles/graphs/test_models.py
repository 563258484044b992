"""The graph models against PyTorch Geometric, dense matrices, and formulas by node."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from curvfed.tasks.graphs.data.client_graph import client_graph
from curvfed.tasks.graphs.graph_models import GCN, GatedGCN, LorentzGCN, SplitGCN
from curvfed.tasks.graphs.inputs import GraphInputs
from curvfed.tasks.graphs.model_spec import ModelSpec
from curvfed.tasks.graphs.sparse import Constant, normalized_adjacency

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")

NODES, FEATURES, WIDTH, CLASSES = 14, 9, 5, 3
SPEC = ModelSpec(
    "nodes", "lorentz", FEATURES, CLASSES, WIDTH, dropout=0.0, gate=True, curvature=None
)
# values of size 1, sums of at most 14 + 9 terms, twice
EXACT = {"rtol": 0.0, "atol": 200 * np.finfo(np.float64).eps}


def edges() -> Tensor:
    """A ring of ten nodes with two chords; the last four nodes are isolated."""
    pairs = [*pairwise(range(10)), (9, 0), (0, 5), (2, 7)]
    both = torch.tensor([*pairs, *((j, i) for i, j in pairs)]).t()
    return both[:, torch.argsort(both[0] * NODES + both[1])]


def features(seed: int = 0) -> Tensor:
    """Rows of different length, three of them zero, one at an isolated node."""
    rows = torch.randn(
        NODES, FEATURES, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    rows *= torch.linspace(0.1, 2.0, NODES, dtype=torch.float64).unsqueeze(1) / rows.norm(
        dim=1, keepdim=True
    )
    rows[[0, 4, 12]] = 0
    return rows


def dense_adjacency(edge_index: Tensor, num_nodes: int = NODES) -> Tensor:
    """D^-1/2 (A + I) D^-1/2 in float64, from the definition."""
    matrix = torch.eye(num_nodes, dtype=torch.float64)
    matrix[edge_index[0], edge_index[1]] = 1
    degree = matrix.sum(dim=1)
    return matrix / torch.outer(degree, degree).sqrt()


def inputs(rows: Tensor, edge_index: Tensor) -> GraphInputs:
    """Inputs in float64, the features sparse."""
    return GraphInputs(Constant.of(rows.to_sparse_csr()), edge_index)


def shaken(model: nn.Module, seed: int = 1, size: float = 0.3) -> nn.Module:
    """In float64, evaluating, every parameter moved from its start, so that none is 0."""
    generator = torch.Generator().manual_seed(seed)
    model = model.double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(
                size * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            )
    return model


def lorentz(k: float, gate: bool = True) -> LorentzGCN:
    model = shaken(replace(SPEC, gate=gate).build(seed=3))
    assert isinstance(model, LorentzGCN)
    with torch.no_grad():
        model.k.fill_(k)
    return model


class Reference:
    """FlatLand's network node by node in float64, with K the hyperboloid's squared radius."""

    def __init__(self, model: LorentzGCN) -> None:
        self.p = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
        self.K = 1 / (1 + math.exp(-float(self.p["k"]))) + 0.5

    def minkowski(self, x: np.ndarray, y: np.ndarray) -> float:
        return float(-x[0] * y[0] + x[1:] @ y[1:])

    def lift(self, space: np.ndarray) -> np.ndarray:
        return np.concatenate([[math.sqrt(self.K + space @ space)], space])

    def exp0(self, v: np.ndarray) -> np.ndarray:
        root, length = math.sqrt(self.K), float(np.linalg.norm(v))
        if length == 0:
            return np.concatenate([[root], np.zeros_like(v)])
        return np.concatenate(
            [[root * math.cosh(length / root)], root * math.sinh(length / root) * v / length]
        )

    def layer(self, name: str, points: list[np.ndarray], weights: np.ndarray) -> list[np.ndarray]:
        """Linear layer, centroid of the neighbours, gate; points in, points out."""
        p = {field: self.p.get(f"{name}.{field}") for field in ("weight", "bias", "time", "gate")}
        root = math.sqrt(self.K)
        linear = [
            self.lift(p["weight"] @ x[1:] + p["time"] * x[0] / root + p["bias"]) for x in points
        ]
        out = []
        for point, row in zip(linear, weights, strict=True):
            total = sum(weight * x for weight, x in zip(row, linear, strict=True))
            low = math.sqrt(self.K) * total / math.sqrt(-self.minkowski(total, total))
            assert abs(self.minkowski(low, low) + self.K) < 1e-9
            if p["gate"] is None:
                out.append(low)
            else:
                share = 1 / (1 + math.exp(-float(p["gate"])))
                out.append(self.lift(share * low[1:] + (1 - share) * (point[1:] - low[1:])))
        return out

    def relu(self, points: list[np.ndarray]) -> list[np.ndarray]:
        return [self.lift(np.maximum(x[1:], 0)) for x in points]

    def logits(self, rows: Tensor, adjacency: Tensor) -> np.ndarray:
        weights = adjacency.numpy()
        points = self.relu(self.layer("first", [self.exp0(row) for row in rows.numpy()], weights))
        points = self.relu(self.layer("second", points, weights))
        centres = [self.lift(centre) for centre in self.p["head.weight"]]
        # Minus the squared Lorentz distance -2K - 2<x, c>, and the bias.
        logits = [
            [2 * self.K + 2 * self.minkowski(x, centre) for centre in centres] for x in points
        ]
        return np.array(logits) + self.p["head.bias"]


@given(
    st.integers(1, 12), st.integers(1, 9), st.integers(1, 4), st.integers(0, 1000), st.booleans()
)
def test_product_with_a_constant_and_its_gradient_are_those_of_dense(
    rows, columns, width, seed, sparse
):
    generator = torch.Generator().manual_seed(seed)
    dense = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    dense[torch.rand(rows, columns, generator=generator) < 0.7] = 0
    x = torch.randn(columns, width, generator=generator, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn(rows, width, generator=generator, dtype=torch.float64)
    product = Constant.of(dense.to_sparse_csr() if sparse else dense) @ x
    (gradient,) = torch.autograd.grad(product, x, upstream)
    torch.testing.assert_close(product, dense @ x, **EXACT)
    torch.testing.assert_close(gradient, dense.t() @ upstream, **EXACT)


@given(
    st.sets(
        st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda pair: pair[0] < pair[1]),
        max_size=25,
    )
)
def test_adjacency_is_that_of_the_definition(pairs):
    both = sorted([*pairs, *((j, i) for i, j in pairs)])
    edge_index = torch.tensor(both, dtype=torch.int64).reshape(-1, 2).t()
    adjacency = normalized_adjacency(edge_index, 10)
    expected = dense_adjacency(edge_index, 10)
    dense = adjacency.matrix.to_dense()
    assert dense.dtype == torch.float32
    torch.testing.assert_close(
        dense.double(), expected, rtol=3 * torch.finfo(torch.float32).eps, atol=0.0
    )
    assert adjacency.transpose is adjacency.matrix
    assert torch.equal(dense, dense.t())


def test_gcn_is_two_gcnconvs_of_pytorch_geometric_and_a_linear_layer():
    from torch_geometric.nn import GCNConv

    model = shaken(replace(SPEC, kind="gcn").build(seed=0))
    assert isinstance(model, GCN)
    convs = [GCNConv(FEATURES, WIDTH).double(), GCNConv(WIDTH, WIDTH).double()]
    with torch.no_grad():
        for conv, linear in zip(convs, (model.first, model.second), strict=True):
            conv.lin.weight.copy_(linear.weight)
            conv.bias.copy_(linear.bias)
    hidden = features()
    for conv in convs:
        hidden = conv(hidden, edges()).relu()
    torch.testing.assert_close(
        model(inputs(features(), edges())), model.head(hidden), rtol=0.0, atol=1e-13
    )


@pytest.mark.parametrize("gate", [True, False])
@pytest.mark.parametrize("k", [-4.0, -0.7, 0.0, 1.3, 4.0])
def test_lorentz_gcn_is_the_formulas_written_out(k, gate):
    model = lorentz(k, gate)
    reference = Reference(model)
    assert model.curvature.item() == pytest.approx(-1 / reference.K, rel=1e-15)
    expected = reference.logits(features(), dense_adjacency(edges()))
    logits = model(inputs(features(), edges())).detach().numpy()
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-13 * np.abs(expected).max())


def test_lorentz_gcn_in_float32_is_near_its_float64():
    model = lorentz(0.4)
    wide = model(inputs(features(), edges()))
    graph = client_graph(
        features().float(),
        edges(),
        torch.zeros(NODES, dtype=torch.int64),
        torch.zeros(3, NODES, dtype=torch.bool),
        ("0",),
        "accuracy",
        "",
    )
    narrow = model.float()(GraphInputs.of(graph, torch.device("cpu")))
    bound = 64 * torch.finfo(torch.float32).eps * wide.abs().max().item()
    torch.testing.assert_close(narrow.double(), wide, rtol=0.0, atol=bound)


@pytest.mark.parametrize("kind", ["gcn", "gated", "lorentz", "split"])
def test_every_gradient_is_the_difference_quotient(kind):
    """Of the loss in the direction of the gradient itself, parameter by parameter."""
    model = shaken(replace(SPEC, kind=kind).build(seed=2))
    given_inputs, labels = inputs(features(), edges()), torch.arange(NODES) % CLASSES
    nn.functional.cross_entropy(model(given_inputs), labels).backward()
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        assert gradient is not None, name
        assert gradient.isfinite().all(), name
        length, values = gradient.norm(), []
        assert length > 0, name
        for sign in (1, -1):
            with torch.no_grad():
                parameter.add_(sign * 1e-6 * gradient / length)
                values.append(nn.functional.cross_entropy(model(given_inputs), labels).item())
                parameter.sub_(sign * 1e-6 * gradient / length)
        assert (values[0] - values[1]) / 2e-6 == pytest.approx(length.item(), rel=1e-4), name


def test_gated_gcn_is_its_matrices_written_out_and_without_the_gate_the_gcn():
    model = shaken(replace(SPEC, kind="gated").build(seed=4))
    assert isinstance(model, GatedGCN)
    p = {name: parameter.detach() for name, parameter in model.named_parameters()}
    adjacency, hidden = dense_adjacency(edges()), features()
    for name in ("first", "second"):
        product, share = hidden @ p[f"{name}.weight"].t(), torch.sigmoid(p[f"{name}.gate"])
        hidden = (
            share * (adjacency @ product)
            + (1 - share) * (product - adjacency @ product)
            + p[f"{name}.bias"]
        ).relu()
    expected = hidden @ p["head.weight"].t() + p["head.bias"]
    torch.testing.assert_close(
        model(inputs(features(), edges())).detach(), expected, rtol=0.0, atol=1e-13
    )
    plain, gcn = (
        replace(SPEC, kind="gated", gate=False).build(seed=4),
        replace(SPEC, kind="gcn").build(seed=4),
    )
    assert (
        plain.state_dict().keys()
        == gcn.state_dict().keys()
        == p.keys() - {"first.gate", "second.gate"}
    )
    graph = GraphInputs(Constant.of(features().float()), edges())
    assert torch.equal(plain(graph), gcn(graph))


def test_split_gcn_is_its_matrices_written_out():
    model = shaken(replace(SPEC, kind="split").build(seed=4))
    assert isinstance(model, SplitGCN)
    p = {name: parameter.detach() for name, parameter in model.named_parameters()}
    adjacency, hidden = dense_adjacency(edges()), features()
    for name in ("first", "second"):
        matrix = torch.cat([p[f"{name}.to_time"], p[f"{name}.weight"]])
        if name == "second":  # the column of the time unit
            matrix = torch.cat([p["second.time"].unsqueeze(1), matrix], dim=1)
        product, share = hidden @ matrix.t(), torch.sigmoid(p[f"{name}.gate"])
        mixed = share * (adjacency @ product) + (1 - share) * (product - adjacency @ product)
        hidden = (mixed + torch.cat([p[f"{name}.time_bias"], p[f"{name}.bias"]])).relu()
    expected = (
        hidden @ torch.cat([p["head.time"].unsqueeze(1), p["head.weight"]], dim=1).t()
        + p["head.bias"]
    )
    torch.testing.assert_close(
        model(inputs(features(), edges())).detach(), expected, rtol=0.0, atol=1e-13
    )


@pytest.mark.parametrize("kind", ["gcn", "gated", "lorentz", "split"])
@pytest.mark.parametrize(
    "rows",
    [
        torch.zeros(NODES, FEATURES),
        1e-30 * torch.ones(NODES, FEATURES),
        1e4 * torch.ones(NODES, FEATURES),
    ],
    ids=["zero", "tiny", "large"],
)
def test_logits_and_gradients_are_finite_in_float32(kind, rows):
    model = replace(SPEC, kind=kind).build(seed=0)
    graph = client_graph(
        rows,
        edges(),
        torch.zeros(NODES, dtype=torch.int64),
        torch.zeros(3, NODES, dtype=torch.bool),
        ("0",),
        "accuracy",
        "",
    )
    logits = model(GraphInputs.of(graph, torch.device("cpu")))
    assert logits.isfinite().all()
    nn.functional.cross_entropy(logits, torch.zeros(NODES, dtype=torch.int64)).backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("kind", ["gcn", "gated", "lorentz", "split"])
def test_the_start_is_seeded_and_leaves_the_generator_alone(kind):
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    first = replace(SPEC, kind=kind).build(seed=7).state_dict()
    assert torch.equal(torch.rand(3), expected)
    repeated, reseeded = (
        replace(SPEC, kind=kind).build(seed=7).state_dict(),
        replace(SPEC, kind=kind).build(seed=8).state_dict(),
    )
    assert all(torch.equal(first[name], repeated[name]) for name in first)
    assert not torch.equal(first["first.weight"], reseeded["first.weight"])


def test_time_gates_and_curvature_have_their_starts():
    start = SPEC.build(seed=0).state_dict()
    assert not start["first.time"].any()
    assert not start["second.time"].any()
    assert start["k"] == 0
    assert {start["first.gate"].item(), start["second.gate"].item()} == {3.0}


@pytest.mark.parametrize("width", [5, 64])
def test_what_is_shared_is_as_large_as_a_gcn_and_what_is_personal_a_vector_a_layer(width):
    """FlatLand, Appendix C.4: the traffic of FedAvg, and O(d) numbers more at the client."""
    spec = replace(SPEC, width=width)
    sizes = {name: values.numel() for name, values in spec.build(seed=0).state_dict().items()}
    personal = {name for name in sizes if name.endswith((".time", ".gate")) or name == "k"}
    flat = replace(spec, kind="gcn").build(seed=0).state_dict()
    shared = sum(sizes[name] for name in sizes.keys() - personal)
    assert shared == sum(values.numel() for values in flat.values())
    # A column and a gate for each of two layers, and the curvature.
    assert sum(sizes[name] for name in personal) == 2 * width + 3


def test_curvature_is_trained_only_where_asked():
    assert dict(SPEC.build(seed=0).named_parameters())["k"].requires_grad
    assert "k" not in dict(replace(SPEC, curvature=-1.0).build(seed=0).named_parameters())

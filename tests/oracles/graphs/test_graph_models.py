"""Encoders of whole graphs against definitions: graph by graph, dense, in NumPy."""

import math
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples
from torch import Tensor, nn

from curvfed.geometry import lorentz
from curvfed.strategies.methods import METHODS
from curvfed.tasks.graphs.graph_models import DEPTH, MAX_RADIUS
from curvfed.tasks.graphs.inputs import GraphInputs
from curvfed.tasks.graphs.model_spec import MODELS, ModelSpec
from curvfed.tasks.graphs.sparse import Constant

FEATURES, WIDTH, CLASSES = 4, 5, 3
SPEC = ModelSpec(
    "graphs", "lorentz", FEATURES, CLASSES, WIDTH, dropout=0.0, gate=False, curvature=None
)
KINDS = sorted(MODELS["graphs"])
SUMMING = ("gin", "gcn", "lorentz")
"""Those that sum over a graph's nodes."""
# of the largest logit: some ten layers of sums of at most 9 terms, eps each, and room for
# cancellation
NEAR = 1e-12

RADII = {
    "sigmoid": lambda k: 1 / (1 + math.exp(-k)) + 0.5,
    "exp": lambda k: math.exp(3 * math.tanh(10 * k)),
}


@dataclass(frozen=True, eq=False)
class Graph:
    """rows (n, FEATURES) float64 and the edges (i, j), i < j."""

    rows: Tensor
    edges: tuple[tuple[int, int], ...] = ()

    @property
    def adjacency(self) -> Tensor:
        """0 and 1, dense."""
        matrix = torch.zeros(len(self.rows), len(self.rows), dtype=torch.float64)
        for i, j in self.edges:
            matrix[i, j] = matrix[j, i] = 1
        return matrix

    @property
    def normalized(self) -> Tensor:
        """D^-1/2 (A + I) D^-1/2."""
        looped = self.adjacency + torch.eye(len(self.rows), dtype=torch.float64)
        return looped / torch.outer(looped.sum(1), looped.sum(1)).sqrt()


def random_rows(size: int, seed: int) -> Tensor:
    """Rows of different length; the first of four and more is 0."""
    rows = torch.randn(
        size, FEATURES, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    if size >= 4:
        rows[0] = 0
    return rows


def some_graphs() -> list[Graph]:
    """A triangle with a tail, one node, three without edges, a star, the triangle again."""
    tailed = Graph(random_rows(5, 1), ((0, 1), (0, 2), (1, 2), (2, 3), (3, 4)))
    star = Graph(random_rows(7, 4), tuple((0, leaf) for leaf in range(1, 7)))
    return [tailed, Graph(random_rows(1, 2)), Graph(random_rows(3, 3)), star, tailed]


@st.composite
def graphs(draw) -> list[Graph]:
    """One to four graphs of one to six nodes."""
    drawn = []
    for _ in range(draw(st.integers(1, 4))):
        size = draw(st.integers(1, 6))
        pairs = [(i, j) for i, j in product(range(size), repeat=2) if i < j]
        chosen = draw(st.sets(st.sampled_from(pairs))) if pairs else set()
        drawn.append(Graph(random_rows(size, draw(st.integers(0, 999))), tuple(sorted(chosen))))
    return drawn


def batch(graphs: list[Graph], dtype: torch.dtype = torch.float64) -> GraphInputs:
    """The graphs side by side."""
    edges, owner, start = [], [], 0
    for number, graph in enumerate(graphs):
        edges += [(start + i, start + j) for pair in graph.edges for i, j in (pair, pair[::-1])]
        owner += [number] * len(graph.rows)
        start += len(graph.rows)
    edge_index = torch.tensor(sorted(edges), dtype=torch.int64).reshape(-1, 2).t().contiguous()
    rows = torch.cat([graph.rows for graph in graphs]).to(dtype)
    return GraphInputs(Constant.of(rows), edge_index, torch.tensor(owner), len(graphs))


def model_of(kind: str, k: float = 0.0, seed: int = 3, **changes: object) -> nn.Module:
    """In float64, evaluating, every parameter moved from its start so that none is 0, and k set.

    Biases are positive, which leaves no layer without a unit that is on.
    """
    model = replace(SPEC, kind=kind, **changes).build(seed=seed).double().eval()
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            moved = 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(moved.abs() if name.endswith("bias") else moved)
            if name == "k":
                parameter.fill_(k)
    return model


class Flat:
    """GIN or a GCN of one graph, in NumPy."""

    def __init__(self, model: nn.Module, kind: str) -> None:
        self.p = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
        self.kind = kind

    def linear(self, name: str, x: np.ndarray) -> np.ndarray:
        return x @ self.p[f"{name}.weight"].T + self.p[f"{name}.bias"]

    def encode(self, graph: Graph) -> np.ndarray:
        """The sum over the nodes, (WIDTH,)."""
        x = self.linear("input", graph.rows.numpy())
        for number in range(DEPTH):
            name = f"layers.{number}"
            if self.kind == "gin":
                summed = (1 + self.p[f"{name}.eps"]) * x + graph.adjacency.numpy() @ x
                x = np.maximum(
                    self.linear(
                        f"{name}.second", np.maximum(self.linear(f"{name}.first", summed), 0)
                    ),
                    0,
                )
            else:
                neighbourhood = graph.normalized.numpy() @ x
                x = np.maximum(self.linear(f"{name}.linear", neighbourhood), 0)
        return x.sum(axis=0)

    def hidden(self, graph: Graph) -> np.ndarray:
        """What the last layer reads, (WIDTH,)."""
        return np.maximum(self.linear("head.hidden", self.encode(graph)), 0)

    def logits(self, hidden: np.ndarray) -> np.ndarray:
        return self.linear("head.out", hidden)


class Lorentz:
    """The Lorentz network of one graph, with points of d+1 coordinates."""

    def __init__(self, model: nn.Module, radius: float) -> None:
        self.p = {name: parameter.detach() for name, parameter in model.named_parameters()}
        self.curvature = -1 / radius

    def linear(self, name: str, points: Tensor) -> Tensor:
        """FlatLand, Eq. 4: the matrix with √|c| m for its first column, times the point, lifted."""
        column = math.sqrt(-self.curvature) * self.p[f"{name}.time"].unsqueeze(1)
        matrix = torch.cat([column, self.p[f"{name}.weight"]], dim=1)
        return lorentz.lift(points @ matrix.t() + self.p[f"{name}.bias"], self.curvature)

    def relu(self, points: Tensor) -> Tensor:
        return lorentz.lift(points[..., 1:].relu(), self.curvature)

    def points(self, graph: Graph) -> Tensor:
        """The feature rows on the hyperboloid, a longer one shortened to MAX_RADIUS."""
        lengths = graph.rows.norm(dim=1, keepdim=True)
        furthest = MAX_RADIUS / math.sqrt(-self.curvature)
        rows = torch.where(lengths > furthest, graph.rows / lengths * furthest, graph.rows)
        return lorentz.exp0(rows, self.curvature)

    def hidden(self, graph: Graph) -> np.ndarray:
        """Space coordinates of what the last layer reads, (WIDTH,)."""
        points = self.linear("input", self.points(graph))
        for number in range(DEPTH):
            name = f"layers.{number}"
            self_weight = 1 + self.p.get(f"{name}.gate", torch.zeros((), dtype=torch.float64))
            rows = []
            for node in range(len(graph.rows)):
                space = self_weight * points[node, 1:]
                for neighbour in graph.adjacency[node].nonzero().flatten().tolist():
                    space = space + points[neighbour, 1:]
                rows.append(space)
            summed = lorentz.lift(torch.stack(rows), self.curvature)
            points = self.relu(
                self.linear(f"{name}.second", self.relu(self.linear(f"{name}.first", summed)))
            )
        total = lorentz.lift(points[:, 1:].sum(dim=0), self.curvature)
        return self.relu(self.linear("head.hidden", total))[1:].numpy()

    def logits(self, hidden: np.ndarray) -> np.ndarray:
        """Space coordinates of the last layer."""
        point = lorentz.lift(torch.from_numpy(hidden), self.curvature)
        return self.linear("head.out", point)[1:].numpy()


class Convolving(Lorentz):
    """FlatLand's network of one graph."""

    def hidden(self, graph: Graph) -> np.ndarray:
        """Space coordinates of the graph's centroid, (WIDTH,)."""
        points = self.points(graph)
        for name in ("input", "layers.0", "layers.1"):
            points = self.linear(name, points)
            low = lorentz.centroid(points, graph.normalized, self.curvature)[:, 1:]
            share = torch.sigmoid(self.p.get(f"{name}.gate", torch.tensor(math.inf)))
            mixed = share * low + (1 - share) * (points[:, 1:] - low)
            points = lorentz.lift(mixed.relu(), self.curvature)
        weights = torch.ones(len(points), dtype=torch.float64)
        return lorentz.centroid(points, weights, self.curvature)[1:].numpy()

    def logits(self, hidden: np.ndarray) -> np.ndarray:
        """Minus the squared Lorentz distances to the classes' points, plus b."""
        point = lorentz.lift(torch.from_numpy(hidden), self.curvature)
        classes = lorentz.lift(self.p["head.weight"], self.curvature)
        apart = point - classes
        return (self.p["head.bias"] - lorentz.inner(apart, apart)).numpy()


def reference(model: nn.Module, kind: str, radius: float = 1.0) -> Flat | Lorentz:
    """For models of this K, or without one."""
    lorentzian = {"lorentz": Lorentz, "lorentz-gcn": Convolving}
    return lorentzian[kind](model, radius) if kind in lorentzian else Flat(model, kind)


def expected(network: Flat | Lorentz, graphs: list[Graph]) -> np.ndarray:
    return np.stack([network.logits(network.hidden(graph)) for graph in graphs])


def assert_near(values: Tensor, target: np.ndarray | Tensor, bound: float = NEAR) -> None:
    target = torch.as_tensor(target)
    torch.testing.assert_close(
        values.detach().double(), target, rtol=0.0, atol=bound * float(target.abs().max())
    )


@pytest.mark.parametrize("seed", [3, 5, 8])
@pytest.mark.parametrize("kind", ["gin", "gcn"])
def test_flat_logits_are_the_formulas_graph_by_graph(kind, seed):
    model = model_of(kind, seed=seed)
    network = Flat(model, kind)
    assert_near(
        model.encode(batch(some_graphs())),
        np.stack([network.encode(graph) for graph in some_graphs()]),
    )
    target = expected(network, some_graphs())
    assert (np.ptp(target, axis=0) > 0.001).all()
    assert_near(model(batch(some_graphs())), target)


@pytest.mark.parametrize("self_weight", [True, False])
@pytest.mark.parametrize(
    ("curvature_map", "k"),
    [("sigmoid", k) for k in (-4.0, 0.0, 1.3)] + [("exp", k) for k in (-0.2, -0.03, 0.0, 0.15)],
)
def test_lorentz_logits_are_the_geometry_graph_by_graph(curvature_map, k, self_weight):
    model = model_of("lorentz", k, curvature_map=curvature_map, self_weight=self_weight)
    radius = RADII[curvature_map](k)
    assert model.curvature.item() == pytest.approx(-1 / radius, rel=1e-14)
    target = expected(Lorentz(model, radius), some_graphs())
    assert (np.ptp(target, axis=0) > 0.001).all()
    assert_near(model(batch(some_graphs())), target)


@pytest.mark.parametrize("gate", [True, False])
@pytest.mark.parametrize(("curvature_map", "k"), [("sigmoid", 1.3), ("exp", -0.03), ("exp", 0.15)])
def test_flatlands_logits_are_the_geometry_graph_by_graph(curvature_map, k, gate):
    model = model_of("lorentz-gcn", k, curvature_map=curvature_map, gate=gate)
    target = expected(reference(model, "lorentz-gcn", RADII[curvature_map](k)), some_graphs())
    assert (np.ptp(target, axis=0) > 0.001).all()
    assert_near(model(batch(some_graphs())), target)


@pytest.mark.parametrize("kind", KINDS)
def test_float32_is_near_float64(kind):
    model = model_of(kind)
    wide = model(batch(some_graphs())).detach()
    assert_near(
        model.float()(batch(some_graphs(), torch.float32)),
        wide,
        64 * torch.finfo(torch.float32).eps,
    )


@pytest.mark.parametrize("kind", KINDS)
@examples(25)
@given(graphs())
def test_a_batch_gives_what_its_graphs_give_one_by_one(kind, graphs):
    model = model_of(kind)
    alone = torch.cat([model(batch([graph])) for graph in graphs]).detach()
    assert alone.shape == (len(graphs), CLASSES)
    assert_near(model(batch(graphs)), alone)


def crowd(leaves: int = 400, size: float = 3.0) -> list[Graph]:
    """A star of long rows, whose sums leave every reasonable radius, and a short row."""
    rows = size * torch.ones(leaves + 1, FEATURES, dtype=torch.float64)
    return [Graph(rows, tuple((0, leaf) for leaf in range(1, leaves + 1))), Graph(0.1 * rows[:1])]


@pytest.mark.parametrize("kind", KINDS)
def test_sums_far_out_are_sums_still(kind):
    model, graphs = model_of(kind), crowd(40)
    target = expected(reference(model, kind), graphs)
    logits = model(batch(graphs))
    # The condition of a centroid at radius r is cosh(2r).
    bound = 1e-10 if kind == "lorentz-gcn" else NEAR
    for values, row in zip(logits, target, strict=True):  # the second graph is near the origin
        assert_near(values, row, bound)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "size", [0.0, 1e-30, 1e-17, 1e-9, 1.0, 5.0], ids=lambda size: f"size{size:g}"
)
def test_logits_and_gradients_are_finite(kind, dtype, size):
    """At the origin, where biases of 0 leave every layer, as far out."""
    assert_finite(replace(SPEC, kind=kind).build(seed=0).to(dtype), dtype, size)


@pytest.mark.parametrize("k", [-1.0, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_they_are_finite_at_the_ends_of_the_curvature(dtype, k):
    model = replace(SPEC, curvature_map="exp").build(seed=0).to(dtype)
    with torch.no_grad():
        model.k.fill_(k)
    assert_finite(model, dtype, 1.0)


def assert_finite(model: nn.Module, dtype: torch.dtype, size: float) -> None:
    """Logits and gradients of a crowd."""
    logits = model(batch(crowd(size=size), dtype))
    assert logits.dtype == dtype
    assert bool(logits.isfinite().all())
    nn.functional.cross_entropy(logits, torch.tensor([0, 1])).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.isfinite().all()), name


@pytest.mark.parametrize("far_out", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_gradient_is_the_difference_quotient(kind, far_out):
    """Of the loss along the gradient itself, parameter by parameter, k, gates, times too."""
    model, graphs = model_of(kind), crowd(40, 1.0) if far_out else some_graphs()
    given_batch, labels = batch(graphs), torch.arange(len(graphs)) % CLASSES
    # a cross-entropy has no slope left where logits are large
    scale = model(given_batch).detach().abs().max()

    def loss() -> Tensor:
        return nn.functional.cross_entropy(model(given_batch) / scale, labels)

    loss().backward()
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        assert gradient is not None, name
        length, values = gradient.norm(), []
        assert length > 1e-6, name
        for sign in (1, -1):
            with torch.no_grad():
                parameter.add_(sign * 1e-6 * gradient / length)
                values.append(loss().item())
                parameter.sub_(sign * 1e-6 * gradient / length)
        assert (values[0] - values[1]) / 2e-6 == pytest.approx(length.item(), rel=1e-4, abs=1e-9), (
            name
        )


def test_a_network_of_a_given_curvature_learns_none():
    model = model_of("lorentz", curvature=-2.0)
    assert model.curvature == -2
    assert "k" not in dict(model.named_parameters())
    model(batch(some_graphs())).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("kind", SUMMING)
def test_dropout_only_in_training_and_before_the_logits_alone(kind):
    model, graphs = model_of(kind, dropout=0.5), some_graphs()
    plain = model_of(kind)
    network = reference(model, kind)
    assert torch.equal(model(batch(graphs)), plain(batch(graphs)))

    model.train()
    torch.manual_seed(0)
    samples = torch.stack([model(batch(graphs)).detach() for _ in range(20)]).numpy()
    torch.manual_seed(0)
    evaluated = model(batch(graphs)).detach().numpy()
    np.testing.assert_array_equal(evaluated, samples[0])
    assert (np.ptp(samples, axis=0) > 1e-3).all()
    # What a graph may give: its hidden units, each either dropped or doubled.
    for number, graph in enumerate(graphs):
        hidden = network.hidden(graph)
        allowed = np.stack(
            [network.logits(hidden * mask) for mask in product((0.0, 2.0), repeat=WIDTH)]
        )
        apart = np.abs(samples[:, number, None] - allowed).max(axis=2).min(axis=1)
        assert apart.max() <= NEAR * np.abs(allowed).max()


@pytest.mark.parametrize("kind", KINDS)
def test_the_start_is_seeded_and_leaves_the_generator_alone(kind):
    torch.manual_seed(11)
    next_draw = torch.rand(3)
    torch.manual_seed(11)
    first = replace(SPEC, kind=kind).build(seed=7).state_dict()
    assert torch.equal(torch.rand(3), next_draw)
    repeated, reseeded = (replace(SPEC, kind=kind).build(seed=seed).state_dict() for seed in (7, 8))
    assert all(torch.equal(first[name], repeated[name]) for name in first)
    weights = [name for name in first if name.endswith("weight")]
    assert not any(torch.equal(first[name], reseeded[name]) for name in weights)
    for name, parameter in first.items():
        if name in weights:
            bound = math.sqrt(6 / sum(parameter.shape))
            assert 0 < parameter.abs().max() <= bound, name
        else:
            assert not parameter.any(), name


def linear(name: str, rows: int, columns: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}


def layers(**parts: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    return {
        f"layers.{number}.{name}": shape for number in range(DEPTH) for name, shape in parts.items()
    }


def test_flatland_keeps_what_multiplies_times_the_gates_and_the_curvature():
    names = dict(replace(SPEC, kind="lorentz").build(seed=0).named_parameters())
    personal = {name for name in names if METHODS["flatland"].is_personal(name)}
    assert personal == {name for name in names if name.endswith((".time", ".gate"))} | {"k"}


@pytest.mark.parametrize("kind", KINDS)
def test_what_depends_on_features_or_classes_stays_where_they_differ(kind):
    """The server builds the model without knowing them: what it averages must not notice."""
    first, second = (
        {name: parameter.shape for name, parameter in spec.build(seed=0).named_parameters()}
        for spec in (
            replace(SPEC, kind=kind),
            replace(SPEC, kind=kind, num_features=9, num_classes=5),
        )
    )
    depends = {name for name in first if first[name] != second[name]}
    assert {name.partition(".")[0] for name in depends} == {"input", "head"}
    for method in METHODS.values():
        shared = {name for name in first if not method.is_personal(name, own_ends=True)}
        assert not shared & depends
        if not method.personal:
            assert {name for name in shared if name != "k"} == {
                name for name in first if name.startswith("layers.")
            }

"""Trained models as programs of torch alone, from raw data to classes and probabilities."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.wire.messages import Facts
from curvfed.tasks.graphs.data.graph_spec import normalize_rows
from curvfed.tasks.graphs.data.raw import ATOMS, RawGraph, RawGraphs
from curvfed.tasks.graphs.inputs import GraphInputs
from curvfed.tasks.graphs.sparse import Constant
from curvfed.tasks.images.encoder import SIZE, find_encoder, network_of
from curvfed.tasks.images.raw import RawImages
from curvfed.tasks.points import RawPoints

Answer = tuple[Tensor, Tensor]


class Program(nn.Module):
    """A trained model with the preparation of raw data.

    Parameters
    ----------
    net : Module
    config : RunConfig
        With all defaults resolved.
    data : ClientImages, ClientPoints or ClientGraph
        Data of the run's task as the model takes them, for their constants.

    Attributes
    ----------
    inputs : dict of str to dict
        The names of the inputs, each with its dimensions of any size.
    words : str
        The raw data that the inputs hold.
    """

    inputs: ClassVar[dict[str, dict[int, str]]]
    words: ClassVar[str]

    def __init__(self, net: nn.Module, config: RunConfig, data: Any) -> None:
        super().__init__()
        self.net = net

    @staticmethod
    @abstractmethod
    def sample(
        facts: Facts, config: RunConfig, count: int, generator: torch.Generator
    ) -> tuple[Tensor, ...]:
        """Random inputs with `count` images, points or nodes."""

    @staticmethod
    @abstractmethod
    def in_memory(*inputs: Tensor) -> Any:
        """The inputs as data in memory; see `curvfed.tasks.in_memory.check_data`."""


class ImageProgram(Program):
    """An image model with its normalisation."""

    mean: Tensor
    std: Tensor

    inputs: ClassVar = {"images": {0: "batch"}}
    words = "images (batch, channels, height, width) of the run's size, uint8, 0 to 255"

    def __init__(self, net: nn.Module, config: RunConfig, data: Any) -> None:
        super().__init__(net, config, data)
        for name, values in (("mean", data.mean), ("std", data.std)):
            self.register_buffer(name, 255 * torch.tensor(values)[:, None, None])

    @staticmethod
    def sample(
        facts: Facts, config: RunConfig, count: int, generator: torch.Generator
    ) -> tuple[Tensor, ...]:
        """Noise."""
        shape = map(int, facts.shape.split("x"))
        return (torch.randint(0, 256, (count, *shape), dtype=torch.uint8, generator=generator),)

    @staticmethod
    def in_memory(*inputs: Tensor) -> Any:
        """Images without classes."""
        return inputs[0], None

    def forward(self, images: Tensor) -> Answer:
        """Images (n, c, h, w), uint8, to classes (n,) and probabilities (n, C)."""
        pixels = (images.float() - self.mean) / self.std
        net: Any = self.net
        return _answer(net.head(net.body(pixels)))


class EncodedProgram(ImageProgram):
    """A frozen network, and the model of its features."""

    words = "images (batch, 3, height, width) of the size in images.size, uint8, 0 to 255"

    def __init__(self, net: nn.Module, config: RunConfig, data: Any) -> None:
        Program.__init__(self, net, config, data)
        self.encoder = network_of(find_encoder(config.images.encoder))

    @staticmethod
    def sample(
        facts: Facts, config: RunConfig, count: int, generator: torch.Generator
    ) -> tuple[Tensor, ...]:
        """Noise."""
        size = config.images.size or SIZE
        shape = (count, 3, size, size)
        return (torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator),)

    def forward(self, images: Tensor) -> Answer:
        """Images (n, 3, h, w), uint8, to classes (n,) and probabilities (n, C)."""
        features = self.encoder(images)[:, :, None, None]
        net: Any = self.net
        return _answer(net.head(net.body(features)))


class PointProgram(Program):
    """The model of points that is trained in rounds."""

    inputs: ClassVar = {"points": {0: "batch"}}
    words = "points (batch, 2) of the Poincaré disc of the run's curvature, float64"

    @staticmethod
    def sample(
        facts: Facts, config: RunConfig, count: int, generator: torch.Generator
    ) -> tuple[Tensor, ...]:
        """Uniform in a square within the disc."""
        unit = 1.4 * torch.rand(count, 2, dtype=torch.float64, generator=generator) - 0.7
        return (unit / (-config.points.curvature) ** 0.5,)

    @staticmethod
    def in_memory(*inputs: Tensor) -> Any:
        """Points without classes."""
        return inputs[0], None

    def forward(self, points: Tensor) -> Answer:
        """Points (n, 2) of the disc, float64, to classes (n,) and probabilities (n, C)."""
        return _answer(self.net(points))


class NodeProgram(Program):
    """A model of the nodes of a graph, with the preparation of features and edges."""

    inputs: ClassVar = {"x": {0: "nodes"}, "edge_index": {1: "edges"}}
    words = (
        "x (nodes, features), float32, as in the data; edge_index (2, edges), int64, in one or both"
        " directions"
    )

    def __init__(self, net: nn.Module, config: RunConfig, data: Any) -> None:
        super().__init__(net, config, data)
        self.normalize = config.normalize

    @staticmethod
    def sample(
        facts: Facts, config: RunConfig, count: int, generator: torch.Generator
    ) -> tuple[Tensor, ...]:
        """Edges in any order, some of them twice, and some from a node to itself."""
        features = torch.rand(count, facts.num_features, generator=generator)
        return features, torch.randint(0, count, (2, 2 * count), generator=generator)

    @staticmethod
    def in_memory(*inputs: Tensor) -> Any:
        """A graph without classes."""
        return {"x": inputs[0], "edge_index": inputs[1]}

    def forward(self, x: Tensor, edge_index: Tensor) -> Answer:
        """Features (N, F), float32, and edges (2, E), int64, in any order and in one or both
        directions, to classes (N,) and probabilities (N, C)."""
        return _answer(self.net(self._inputs(x, edge_index)))

    def _inputs(self, x: Tensor, edge_index: Tensor, **options: Any) -> "ProgramInputs":
        features = normalize_rows(x, self.normalize)
        edges = _clean_edges(edge_index, x.shape[0])
        return ProgramInputs(Constant(features, features.t()), edges, **options)


class GraphProgram(NodeProgram):
    """A model of whole graphs, with the preparation of features and edges."""

    inputs: ClassVar = NodeProgram.inputs | {"batch": {0: "nodes"}}
    words = (
        "x (nodes, features), float32, the columns of the model: attributes, scaled if the run"
        " scaled them, then the one-hot codes of labels or degrees (for the atoms of OGB: of their"
        f" {len(ATOMS)} numbers, with {', '.join(map(str, ATOMS))} values, side by side);"
        " edge_index (2, edges), int64, in one or both directions; batch (nodes,), int64, the"
        " number of each node's graph, ascending from 0"
    )

    @staticmethod
    def sample(
        facts: Facts, config: RunConfig, count: int, generator: torch.Generator
    ) -> tuple[Tensor, ...]:
        """Two graphs joined into one."""
        graphs = [NodeProgram.sample(facts, config, count, generator) for _ in range(2)]
        edges = torch.cat([graphs[0][1], graphs[1][1] + count], dim=1)
        owner = torch.arange(2).repeat_interleave(count)
        return torch.cat([graphs[0][0], graphs[1][0]]), edges, owner

    @staticmethod
    def in_memory(*inputs: Tensor) -> Any:
        """The graphs, without classes."""
        features, edges, owner = inputs
        graphs = []
        for number in range(int(owner[-1]) + 1):
            of_graph = edges[:, owner[edges[0]] == number] - int((owner < number).sum())
            graphs.append({"x": features[owner == number], "edge_index": of_graph})
        return graphs

    def forward(  # type: ignore[override]
        self, x: Tensor, edge_index: Tensor, batch: Tensor
    ) -> Answer:
        """The same as in `NodeProgram`, for several graphs joined into one: `batch` (N,), int64, is
        the number of each node's graph, ascending from 0. To classes (G,) and probabilities (G,
        C)."""
        num_graphs = cast(int, batch[-1].item()) + 1
        torch._check(num_graphs >= 1)
        return _answer(
            self.net(self._inputs(x, edge_index, graph_of_node=batch, num_graphs=num_graphs))
        )


@dataclass(frozen=True, eq=False)
class EdgeMatrix:
    """A sparse matrix by its entries, because `torch.export` knows no sparse tensors.

    Only within an export `curvfed.tasks.graphs.sparse.multiply` takes it.

    Attributes
    ----------
    rows, columns : Tensor, (E,), int64
    values : Tensor, (E,)
    num_rows : int
    """

    rows: Tensor
    columns: Tensor
    values: Tensor
    num_rows: int

    def __matmul__(self, x: Tensor) -> Tensor:
        """Product (N, M) @ (M, d) -> (N, d)."""
        terms = self.values[:, None] * x[self.columns]
        return x.new_zeros(self.num_rows, x.shape[1]).index_add(0, self.rows, terms)

    def row_sums(self) -> Tensor:
        """The sums of the rows, (N, 1)."""
        zeros = self.values.new_zeros(self.num_rows, 1)
        return zeros.index_add(0, self.rows, self.values[:, None])


class EdgeConstant(Constant):
    """A constant matrix by its entries."""

    @cached_property
    def row_sums(self) -> Tensor:
        """The sums of the rows, (N, 1)."""
        matrix: Any = self.matrix
        return matrix.row_sums()


class ProgramInputs(GraphInputs):
    """The inputs of a graph model as `torch.export` can trace them: without sparse tensors."""

    @cached_property
    def adjacency(self) -> Constant:
        """(N, N), symmetrically normalised, with self-loops."""
        loops = torch.arange(self.num_nodes, device=self.edge_index.device)
        rows, columns = torch.cat([self.edge_index, loops.expand(2, -1)], dim=1)
        weights = self.dense.new_ones(self.edge_index.shape[1] + self.num_nodes)
        scale = self.dense.new_zeros(self.num_nodes).index_add(0, rows, weights).rsqrt()
        return _constant(rows, columns, scale[rows] * scale[columns], self.num_nodes)

    @cached_property
    def sums(self) -> Constant:
        """(N, N), 0 and 1."""
        rows, columns = self.edge_index
        weights = self.dense.new_ones(self.edge_index.shape[1])
        return _constant(rows, columns, weights, self.num_nodes)

    @cached_property
    def members(self) -> Constant:
        """(G, N), 0 and 1."""
        nodes = torch.arange(self.num_nodes, device=self.edge_index.device)
        weights = self.dense.new_ones(self.num_nodes)
        return _constant(cast(Tensor, self.graph_of_node), nodes, weights, self.num_graphs)


PROGRAMS: dict[type, type[Program]] = {
    RawGraph: NodeProgram,
    RawGraphs: GraphProgram,
    RawImages: ImageProgram,
    RawPoints: PointProgram,
}
"""The program of each task, by the class of its data in memory."""


def program_class(kind: type, config: RunConfig) -> type[Program]:
    """The program of a run on data of this class."""
    if kind is RawImages and config.images.encoder:
        return EncodedProgram
    return PROGRAMS[kind]


def _answer(logits: Tensor) -> Answer:
    return logits.argmax(dim=1), logits.double().softmax(dim=1).float()


def _clean_edges(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Each edge once in both directions, without self-loops, sorted lexicographically."""
    source, target = edge_index.unbind(0)
    keys = torch.cat([source * num_nodes + target, target * num_nodes + source]).sort().values
    is_new = keys.diff(prepend=keys.new_full((1,), -1)) > 0
    rows = keys // num_nodes
    columns = keys % num_nodes
    chosen = is_new & (rows != columns)
    return torch.stack([rows[chosen], columns[chosen]])


def _constant(rows: Tensor, columns: Tensor, values: Tensor, num_rows: int) -> EdgeConstant:
    """A matrix by its entries; a program needs no transpose."""
    matrix: Any = EdgeMatrix(rows, columns, values, num_rows)
    return EdgeConstant(matrix, matrix)

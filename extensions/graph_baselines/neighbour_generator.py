"""FedSage+ (Zhang et al., 2021): missing neighbours of nodes, that is their number, their features
and the graph with them; and the joint training of their generator and a classifier."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import DTypeLike
from torch import Tensor, nn

from curvfed.geometry.arrays import Array
from curvfed.tasks.draws import Dropout, normal_like, permutation, seeded
from curvfed.tasks.graphs.inputs import GraphInputs
from curvfed.tasks.graphs.model_spec import dropout, start_all, store_by_input
from curvfed.tasks.graphs.sparse import Constant
from curvfed.tasks.task import Batch


@dataclass(frozen=True)
class GeneratorSpec:
    """The settings of a generator.

    Attributes
    ----------
    num_features, width : int
        `width` is that of representations and of the hidden layer.
    neighbours : int
        P, the maximum number of generated neighbours per node.
    dropout : float
    """

    num_features: int
    width: int
    neighbours: int
    dropout: float


class FeatureGenerator(nn.Sequential):
    """fGen: from a node's representation and noise to the features of P neighbours.

    It maps representations with noise, (n, width), to (n, P, F), by one hidden layer of the
    representations' width, and a tanh at the end. The authors' code has two hidden layers, of 256
    and 2048 units; the second would increase messages to some 60 MB for the words of Cora.
    """

    def __init__(self, spec: GeneratorSpec) -> None:
        hidden = nn.Linear(spec.width, spec.width)
        out = nn.Linear(spec.width, spec.neighbours * spec.num_features)
        start_all(hidden, out)
        rows = nn.Unflatten(1, (spec.neighbours, spec.num_features))
        layers = {
            "relu": nn.ReLU(),
            "dropout": Dropout(spec.dropout),
            "out": out,
            "tanh": nn.Tanh(),
            "rows": rows,
        }
        super().__init__(OrderedDict(hidden=hidden, **layers))


class NeighbourGenerator(nn.Module):
    """NeighGen: an encoder; dGen, which predicts the number of missing neighbours of a node; and
    fGen, which predicts their features.

    The encoder is a two-layer GCN, as is the classifier; in the paper both are GraphSAGE.
    """

    def __init__(self, spec: GeneratorSpec) -> None:
        super().__init__()
        self.dropout = spec.dropout
        self.first = nn.Linear(spec.num_features, spec.width)
        self.second = nn.Linear(spec.width, spec.width)
        self.count = nn.Linear(spec.width, 1)
        start_all(self.first, self.second, self.count)
        store_by_input(self.first.weight)
        self.features = FeatureGenerator(spec)

    def encode(self, inputs: GraphInputs) -> Tensor:
        """The nodes' representations z, (N, width)."""
        hidden = F.relu(
            inputs.adjacency @ (inputs.features @ self.first.weight.t()) + self.first.bias
        )
        hidden = dropout(hidden, self.dropout, self.training)
        return F.relu(inputs.adjacency @ (hidden @ self.second.weight.t()) + self.second.bias)

    def counts(self, representations: Tensor) -> Tensor:
        """dGen, a linear regression: real numbers of missing neighbours, (N, width) -> (N,).

        The authors' code cuts them off at 0, where the gradient vanishes; `mended` adds no
        neighbour for a negative number.
        """
        return self.count(representations).squeeze(1)


class Varying(Constant):
    """A matrix with a gradient, in place of a constant matrix."""

    def __matmul__(self, x: Tensor) -> Tensor:
        """Product (N, M) @ (M, d) -> (N, d)."""
        return self.matrix @ x


@dataclass(frozen=True, eq=False)
class Impaired:
    """A graph without some of its nodes, and these hidden nodes.

    Attributes
    ----------
    inputs : GraphInputs
        The n visible nodes, renumbered in their order.
    position : Tensor, (N,), int64
        A node's number among the visible nodes; meaningless for hidden nodes.
    missing : Tensor, (n,), int64
        The number of hidden neighbours of each node.
    hidden : Tensor, (h, F)
        Features of the hidden nodes.
    linked : Tensor, (n, h), bool
        Whether a visible node and a hidden node are neighbours.
    """

    inputs: GraphInputs
    position: Tensor
    missing: Tensor
    hidden: Tensor
    linked: Tensor


def impaired(inputs: GraphInputs, hidden: Tensor) -> Impaired:
    """The graph without the nodes `hidden`, (h,) int64, ascending numbers."""
    features = inputs.dense
    stays = torch.ones(inputs.num_nodes, dtype=torch.bool, device=features.device)
    stays[hidden] = False
    position = torch.where(stays, stays.cumsum(0) - 1, (~stays).cumsum(0) - 1)
    row, column = inputs.edge_index
    inner = stays[row] & stays[column]
    across = stays[row] & ~stays[column]
    linked = torch.zeros(int(stays.sum()), len(hidden), dtype=torch.bool, device=features.device)
    linked[position[row[across]], position[column[across]]] = True
    visible = GraphInputs(Constant.of(features[stays]), position[inputs.edge_index[:, inner]])
    return Impaired(visible, position, linked.sum(dim=1), features[hidden], linked)


def feature_loss(
    generated: Tensor, missing: Tensor, candidates: Tensor, linked: Tensor | None = None
) -> Tensor:
    """Σ_v Σ_{p < n_v} min_u ‖x̃_vp − x_u‖²: squared distances of generated neighbours to their
    nearest candidates.

    The paper's L^f without its factor 1/n, with the true n_v, known for hidden neighbours.

    Parameters
    ----------
    generated : Tensor, (n, P, F)
        x̃.
    missing : Tensor, (n,)
        The numbers n_v of neighbours; at most P of them count.
    candidates : Tensor, (m, F)
        x.
    linked : Tensor, (n, m), bool, optional
        The candidates for each node's neighbours; by default all.

    Returns
    -------
    Tensor, ()
        0 without candidates.
    """
    counted = torch.arange(generated.shape[1], device=generated.device) < missing[:, None]
    if linked is not None:
        counted &= linked.any(dim=1, keepdim=True)
    chosen = generated[counted]
    if not len(candidates):
        return chosen.sum() * 0
    with torch.no_grad():
        distances = torch.cdist(chosen, candidates)
        if linked is not None:
            distances.masked_fill_(~linked[counted.nonzero()[:, 0]], torch.inf)
        nearest = distances.argmin(dim=1)
    return (chosen - candidates[nearest]).square().sum()


def mended(inputs: GraphInputs, counts: Tensor, generated: Tensor) -> GraphInputs:
    """The graph with the generated neighbours as new nodes after its own nodes, each with one edge.

    Parameters
    ----------
    inputs : GraphInputs
    counts : Tensor, (N,)
        The number of new neighbours of each node, to be rounded; at most P.
    generated : Tensor, (N, P, F)
        The features of P neighbours of each node; the first `counts` are used, with their gradient.

    Returns
    -------
    GraphInputs
    """
    numbers = torch.arange(generated.shape[1], device=generated.device)
    is_used = numbers < counts.detach().round()[:, None]
    owners = is_used.nonzero()[:, 0]
    total = inputs.num_nodes + len(owners)
    fresh = torch.arange(inputs.num_nodes, total, device=owners.device)
    edges = torch.cat(
        [inputs.edge_index, torch.stack([owners, fresh]), torch.stack([fresh, owners])], dim=1
    )
    order = torch.argsort(edges[0] * total + edges[1])
    features = torch.cat([inputs.dense, generated[is_used]])
    return GraphInputs(Varying(features, features.t()), edges[:, order])


REPRESENTATIONS = "representations"
MISSING = "missing"
"""The arrays of a package besides the parameters of fGen: inputs of fGen, and the number of missing
neighbours of each."""


def blank_package(spec: GeneratorSpec, sample: int, dtype: DTypeLike) -> dict[str, Array]:
    """A package of zeros: fGen and `sample` of its inputs, in the shapes that a client sends."""
    with seeded(0):
        generator = FeatureGenerator(spec)
    package: dict[str, Array] = {
        name: np.zeros(tuple(parameter.shape), dtype)
        for name, parameter in generator.named_parameters()
    }
    package[REPRESENTATIONS] = np.zeros((sample, spec.width), dtype)
    package[MISSING] = np.zeros(sample, dtype)
    return package


def generator_part(package: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays of a package that are parameters of fGen."""
    return {
        name: array for name, array in package.items() if name not in (REPRESENTATIONS, MISSING)
    }


class JointModel(nn.Module):
    """A generator and a classifier, trained together on an impaired graph."""

    def __init__(
        self, generator: NeighbourGenerator, classifier: nn.Module, impaired: Impaired
    ) -> None:
        super().__init__()
        self.generator = generator
        self.classifier = classifier
        self.impaired = impaired

    def loss(self, batch: Batch) -> Tensor:
        """L^d + L^f + L^c; the batch has rows and labels of the complete graph."""
        impaired = self.impaired
        representations = self.generator.encode(impaired.inputs)
        counts = self.generator.counts(representations)
        generated = self.generator.features(representations + normal_like(representations))
        count_loss = F.smooth_l1_loss(counts, impaired.missing.to(counts.dtype))
        distances = feature_loss(generated, impaired.missing, impaired.hidden, impaired.linked)
        logits = self.classifier(mended(impaired.inputs, counts, generated))
        class_loss = F.cross_entropy(logits[impaired.position[batch.rows]], batch.labels)
        return count_loss + distances / len(counts) + class_loss


class MendedModel(nn.Module):
    """A network that adds generated neighbours to each graph, and classifies the graph's own
    nodes."""

    def __init__(self, model: nn.Module, mend: Callable[[GraphInputs], GraphInputs]) -> None:
        super().__init__()
        self.model = model
        self._mend = mend

    def forward(self, inputs: GraphInputs) -> Tensor:
        """Logits (N, C) of the graph's own nodes."""
        return self.model(self._mend(inputs))[: inputs.num_nodes]


def mend(generator: NeighbourGenerator, inputs: GraphInputs, seed: int) -> GraphInputs:
    """The graph with neighbours generated in evaluation mode from seeded noise, without
    gradients."""
    generator.eval()
    draws = torch.Generator().manual_seed(seed)
    # Scoring in inference mode may be the first call, and training uses the result.
    with torch.inference_mode(False), torch.no_grad():
        representations = generator.encode(inputs)
        noise = torch.randn(representations.shape, generator=draws, dtype=representations.dtype)
        generated = generator.features(representations + noise.to(representations.device))
        return mended(inputs, generator.counts(representations), generated)


def hide_nodes(
    inputs: GraphInputs, trained_on: Tensor | None, share: float, seed: Sequence[int]
) -> Tensor:
    """Numbers of the nodes to hide, ascending: a random share of all nodes, without training
    nodes."""
    free = torch.ones(inputs.num_nodes, dtype=torch.bool)
    if trained_on is not None:
        free[trained_on.cpu()] = False
    numbers = free.nonzero()[:, 0].numpy()
    count = min(len(numbers), round(share * inputs.num_nodes))
    shuffled = np.random.default_rng(list(seed)).permutation(numbers)
    hidden = np.sort(shuffled[:count])
    return torch.from_numpy(hidden).to(inputs.dense.device)


@torch.no_grad()
def sample_lacking(
    generator: NeighbourGenerator, impaired: Impaired, limit: int
) -> tuple[Tensor, Tensor]:
    """Representations (n, width) and numbers of hidden neighbours (n,) of at most `limit` nodes
    with hidden neighbours."""
    generator.eval()
    representations = generator.encode(impaired.inputs)
    lacking = impaired.missing.nonzero().squeeze(1)
    chosen = lacking[permutation(len(lacking), lacking.device)][:limit]
    return representations[chosen], impaired.missing[chosen]


def feature_gradients(
    generator: FeatureGenerator, representations: Tensor, missing: Tensor, candidates: Tensor
) -> dict[str, Tensor]:
    """Gradients, by parameter name, of the distances between generated neighbours and their nearest
    candidates."""
    parameters = dict(generator.named_parameters())
    loss = feature_loss(
        generator(representations + normal_like(representations)), missing, candidates
    )
    gradients = torch.autograd.grad(loss, list(parameters.values()))
    return dict(zip(parameters, gradients, strict=True))

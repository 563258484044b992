"""Missing neighbours of nodes: how many, of what features, and the graph with them (FedSage+, Zhang
et al., 2021)."""

from collections import OrderedDict
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.tasks.graphs.dropout import dropout
from curvfed.tasks.graphs.inputs import GraphInputs
from curvfed.tasks.graphs.model_spec import start_all, store_by_input
from curvfed.tasks.graphs.sparse import Constant


@dataclass(frozen=True)
class GeneratorSpec:
    """The settings of a generator.

    Attributes
    ----------
    num_features, width : int
        `width` of representations and of the hidden layer.
    neighbours : int
        P, the most neighbours that a node is given.
    dropout : float
    """

    num_features: int
    width: int
    neighbours: int
    dropout: float


class FeatureGenerator(nn.Sequential):
    """fGen: from a node's representation and noise to the features of P neighbours.

    Maps representations with noise added, (n, width), to (n, P, F). One hidden layer of the
    representations' width, and a tanh at the end; the authors' code has two, of 256 and 2048 units,
    of which the second alone would make messages some 60 MB large for the words of Cora.
    """

    def __init__(self, spec: GeneratorSpec) -> None:
        hidden = nn.Linear(spec.width, spec.width)
        out = nn.Linear(spec.width, spec.neighbours * spec.num_features)
        start_all(hidden, out)
        rows = nn.Unflatten(1, (spec.neighbours, spec.num_features))
        layers = {
            "relu": nn.ReLU(),
            "dropout": nn.Dropout(spec.dropout),
            "out": out,
            "tanh": nn.Tanh(),
            "rows": rows,
        }
        super().__init__(OrderedDict(hidden=hidden, **layers))


class NeighbourGenerator(nn.Module):
    """NeighGen: an encoder, dGen, which predicts how many neighbours a node lacks, and fGen, which
    predicts their features.

    The encoder is a two-layer GCN, as is the network whose graph it completes; in the paper both
    are GraphSAGE.
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
        """dGen, a linear regression: numbers of missing neighbours, (N, width) -> (N,), neither
        whole nor at least 0.

        The authors' code cuts them off at 0, where the gradient vanishes; `mended` takes a negative
        number as none.
        """
        found: Tensor = self.count(representations).squeeze(1)
        return found


class Varying(Constant):
    """A matrix with a gradient of its own, in place of a constant one."""

    def __matmul__(self, x: Tensor) -> Tensor:
        """Product (N, M) @ (M, d) -> (N, d)."""
        return self.matrix @ x


@dataclass(frozen=True, eq=False)
class Impaired:
    """A graph without some of its nodes, and the nodes that were hidden.

    Attributes
    ----------
    inputs : GraphInputs
        The n nodes that remain, renumbered in their order.
    position : Tensor, (N,), int64
        A node's number among those that remain; meaningless for hidden nodes.
    missing : Tensor, (n,), int64
        How many hidden neighbours a node has.
    hidden : Tensor, (h, F)
        Features of the hidden nodes.
    linked : Tensor, (n, h), bool
        Which remaining node is a neighbour of which hidden one.
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
    left = GraphInputs(Constant.of(features[stays]), position[inputs.edge_index[:, inner]])
    return Impaired(left, position, linked.sum(dim=1), features[hidden], linked)


def feature_loss(
    generated: Tensor, missing: Tensor, candidates: Tensor, linked: Tensor | None = None
) -> Tensor:
    """Σ_v Σ_{p < n_v} min_u ‖x̃_vp − x_u‖²: squared distances of generated neighbours to the
    nearest of the candidates.

    The paper's L^f without its factor 1/n, with the true n_v, which is known where neighbours were
    hidden.

    Parameters
    ----------
    generated : Tensor, (n, P, F)
        x̃.
    missing : Tensor, (n,)
        The numbers n_v of neighbours; at most P of them count.
    candidates : Tensor, (m, F)
        x.
    linked : Tensor, (n, m), bool, optional
        Which candidates a node's neighbours are compared with; by default all.

    Returns
    -------
    Tensor, ()
        0 where there is nothing to compare.
    """
    wanted = torch.arange(generated.shape[1], device=generated.device) < missing[:, None]
    if linked is not None:
        wanted &= linked.any(dim=1, keepdim=True)
    chosen = generated[wanted]
    if not len(candidates):
        return chosen.sum() * 0
    with torch.no_grad():
        distances = torch.cdist(chosen, candidates)
        if linked is not None:
            distances.masked_fill_(~linked[wanted.nonzero()[:, 0]], torch.inf)
        nearest = distances.argmin(dim=1)
    return (chosen - candidates[nearest]).square().sum()


def mended(inputs: GraphInputs, counts: Tensor, generated: Tensor) -> GraphInputs:
    """The graph with the generated neighbours as new nodes, after its own, each with one edge.

    Parameters
    ----------
    inputs : GraphInputs
    counts : Tensor, (N,)
        The number of neighbours that a node is given, which is rounded; at most P.
    generated : Tensor, (N, P, F)
        The features of P neighbours of each node, of which the first `counts` are used. They keep
        their gradient.

    Returns
    -------
    GraphInputs
    """
    given = (
        torch.arange(generated.shape[1], device=generated.device) < counts.detach().round()[:, None]
    )
    owners = given.nonzero()[:, 0]
    total = inputs.num_nodes + len(owners)
    fresh = torch.arange(inputs.num_nodes, total, device=owners.device)
    edges = torch.cat(
        [inputs.edge_index, torch.stack([owners, fresh]), torch.stack([fresh, owners])], dim=1
    )
    order = torch.argsort(edges[0] * total + edges[1])
    features = torch.cat([inputs.dense, generated[given]])
    return GraphInputs(Varying(features, features.t()), edges[:, order])

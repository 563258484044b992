"""FED-PUB's parts for any flat network (Baek et al., ICML 2023): the functional embedding, a vector
that describes its function, and personal masks on its weights."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.tasks.graphs.inputs import GraphInputs
from curvfed.tasks.graphs.sparse import Constant


class MaskedLinear(nn.Module):
    """A linear map x -> x (W ∘ μ)ᵀ + b with a mask μ of W's shape (Baek et al., ICML 2023).

    Training uses and trains all of μ. In evaluation entries below the threshold count as 0, as in
    the authors' code; the paper does not specify this. The parameters are `weight` (W), `bias` and
    `mask` (μ); the names of the first two are those without a mask. The attribute `weight` is W ∘
    μ, so that code that multiplies by `layer.weight` works unchanged.

    Parameters
    ----------
    linear : Linear
        The map to mask; its parameters are shared. The mask starts at 1.
    threshold : float
        In [0, 1].
    """

    def __init__(self, linear: nn.Linear, threshold: float) -> None:
        super().__init__()
        self.threshold = threshold
        # `register_parameter` refuses the name of a property, and W keeps its name without a mask.
        self._parameters["weight"] = cast(nn.Parameter, linear.weight)
        self.bias = linear.bias
        self.mask = nn.Parameter(torch.ones_like(linear.weight))

    @property
    def weight(self) -> Tensor:
        """The masked weight W ∘ μ, (out, in)."""
        weight = cast(nn.Parameter, self._parameters["weight"])
        if self.training:
            return weight * self.mask
        return weight * self.mask.where(self.mask.abs() >= self.threshold, 0)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        return F.linear(x, self.weight, self.bias)


def add_masks(model: nn.Module, threshold: float) -> nn.Module:
    """Put a mask of ones on each linear map of a network, in place; its output is unchanged."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, MaskedLinear(child, threshold))
    return model


EMBEDDING = "embedding"
"""Name of the parameter with a model's functional embedding. It is never trained, and sent with the
other parameters."""

NUM_BLOCKS = 5
BLOCK_SIZE = 100
EDGE_PROBABILITY = 0.1
"""The random graph, as in the authors' code: the blocks, their nodes, and the probability of an
edge within a block."""


def add_embedding(model: nn.Module, width: int) -> nn.Module:
    """Add the parameter of the functional embedding, 0 until `embed`, to a network of this
    width."""
    model.register_parameter(EMBEDDING, nn.Parameter(torch.zeros(width), requires_grad=False))
    return model


@dataclass(frozen=True)
class FedPubParts:
    """Adds the masks and the embedding to a network.

    Attributes
    ----------
    threshold : float
        In evaluation mask entries below it count as 0.
    """

    threshold: float

    def __call__(self, model: nn.Module, width: int) -> None:
        """Add them in place to a network of this width."""
        add_embedding(add_masks(model, self.threshold), width)


@torch.no_grad()
def embed(model: nn.Module, num_features: int, seed: int, is_set: bool) -> None:
    """Compute the network's embedding: the mean of its encoding of the random graph, dropout off.

    The network keeps its personal masks, as in the authors' code; the paper does not specify this.
    Without the masks the embeddings are nearly equal: models averaged one step ago hardly differ
    otherwise.

    Parameters
    ----------
    model : Module
        Flat: with `encode`, which omits the last ReLU, as the authors' code does.
    num_features, seed, is_set
        As in `random_graph`.
    """
    model.eval()
    embedding = model.get_parameter(EMBEDDING)
    encode = cast(Callable[[GraphInputs], Tensor], model.encode)
    graph = random_graph(num_features, seed, is_set, str(embedding.device))
    embedding.copy_(encode(graph).double().mean(dim=0))


@lru_cache(maxsize=4)
def random_graph(num_features: int, seed: int, is_set: bool, device: str = "cpu") -> GraphInputs:
    """The random graph for the comparison of networks, equal on all machines for equal arguments.

    A stochastic block model with standard normal features. Clients with different feature spaces
    get different features on the same edges.

    Parameters
    ----------
    num_features : int
    seed : int
    is_set : bool
        Whether each block is a graph, for networks that classify graphs.
    device : str
    """
    rng = np.random.default_rng([seed, 0xFEDB])
    place = torch.device(device)
    upper = np.triu(rng.random((NUM_BLOCKS, BLOCK_SIZE, BLOCK_SIZE)) < EDGE_PROBABILITY, k=1)
    block, source, target = (upper | upper.transpose(0, 2, 1)).nonzero()
    edges = torch.from_numpy(np.stack([source, target]) + block * BLOCK_SIZE)
    features = torch.from_numpy(
        rng.standard_normal((NUM_BLOCKS * BLOCK_SIZE, num_features), dtype=np.float32)
    )
    owner = torch.arange(NUM_BLOCKS, device=place).repeat_interleave(BLOCK_SIZE) if is_set else None
    return GraphInputs(
        Constant.of(features).to(place), edges.to(place), owner, NUM_BLOCKS if is_set else 1
    )

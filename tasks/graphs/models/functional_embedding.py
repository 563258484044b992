"""The functional embedding of a network: a vector that describes what it computes (FED-PUB, Baek et
al., ICML 2023)."""

from collections.abc import Callable
from functools import lru_cache
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from curvfed.tasks.graphs.inputs import GraphInputs
from curvfed.tasks.graphs.sparse import Constant

EMBEDDING = "embedding"
"""Name of the parameter that holds a model's functional embedding. It is never trained, and sent
with the others."""

NUM_BLOCKS = 5
BLOCK_SIZE = 100
EDGE_PROBABILITY = 0.1
"""The random graph, as in the authors' code: the blocks, their nodes, and the probability of an
edge within a block."""


def add_embedding(model: nn.Module, width: int) -> nn.Module:
    """Add the parameter of the functional embedding to a network of that width; it is 0 until
    `embed` computes it."""
    model.register_parameter(EMBEDDING, nn.Parameter(torch.zeros(width), requires_grad=False))
    return model


@torch.no_grad()
def embed(model: nn.Module, num_features: int, seed: int, whole: bool) -> None:
    """Compute the network's embedding: the mean of its encoding of the random graph, dropout off.

    The network is used with its personal masks, as in the authors' code; the paper leaves that
    open. Without the masks the embeddings would be nearly equal: models that were averaged a step
    ago hardly differ in anything else.

    Parameters
    ----------
    model : Module
        Flat: with `encode`, which omits the last ReLU, as the authors' code does.
    num_features, seed, whole
        As in `random_graph`.
    """
    model.eval()
    embedding = model.get_parameter(EMBEDDING)
    encode = cast(Callable[[GraphInputs], Tensor], model.encode)
    embedding.copy_(
        encode(random_graph(num_features, seed, whole, str(embedding.device))).double().mean(dim=0)
    )


@lru_cache(maxsize=4)
def random_graph(num_features: int, seed: int, whole: bool, device: str = "cpu") -> GraphInputs:
    """The random graph on which networks are compared, equal on every machine for equal arguments.

    A stochastic block model with standard normal features. Clients with other feature spaces get
    other features on the same edges.

    Parameters
    ----------
    num_features : int
    seed : int
    whole : bool
        Whether each block is a graph, for networks that classify whole graphs.
    device : str
    """
    rng = np.random.default_rng([seed, 0xFEDB])
    place = torch.device(device)
    upper = np.triu(rng.random((NUM_BLOCKS, BLOCK_SIZE, BLOCK_SIZE)) < EDGE_PROBABILITY, k=1)
    block, one, other = (upper | upper.transpose(0, 2, 1)).nonzero()
    edges = torch.from_numpy(np.stack([one, other]) + block * BLOCK_SIZE)
    features = torch.from_numpy(
        rng.standard_normal((NUM_BLOCKS * BLOCK_SIZE, num_features), dtype=np.float32)
    )
    owner = torch.arange(NUM_BLOCKS, device=place).repeat_interleave(BLOCK_SIZE) if whole else None
    return GraphInputs(
        Constant.of(features).to(place), edges.to(place), owner, NUM_BLOCKS if whole else 1
    )

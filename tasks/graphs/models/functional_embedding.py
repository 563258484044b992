"""What a network computes, in a few numbers: its functional embedding (FED-PUB, Baek et al., ICML 2023)."""

from collections.abc import Callable
from functools import lru_cache
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from curvfed.tasks.graphs.inputs import GraphInputs
from curvfed.tasks.graphs.sparse import Constant

EMBEDDING = "embedding"
"""Name of the parameter that holds a model's functional embedding. Nothing trains it; it travels with the others."""

NUM_BLOCKS, BLOCK_SIZE, EDGE_PROBABILITY = 5, 100, 0.1
"""The random graph, as in the authors' code: so many blocks of so many nodes, edges within blocks alone."""


def add_embedding(model: nn.Module, width: int) -> nn.Module:
    """Give a network of that width a place for its functional embedding, 0 until `embed` fills it."""
    model.register_parameter(EMBEDDING, nn.Parameter(torch.zeros(width), requires_grad=False))
    return model


@torch.no_grad()
def embed(model: nn.Module, num_features: int, seed: int, whole: bool) -> None:
    """Put into the network's embedding what it makes of the random graph: the mean of what it encodes, dropout off.

    The network is taken as it is, with its personal masks, as in the authors' code; the paper leaves that open. Without the
    masks the embeddings would tell nothing: models that were averaged a step ago differ in little else.

    Parameters
    ----------
    model : Module
        Flat: with `encode`, which leaves the last ReLU out, as the code does.
    num_features, seed, whole
        As in `random_graph`.
    """
    model.eval()
    embedding = model.get_parameter(EMBEDDING)
    encode = cast(Callable[[GraphInputs], Tensor], model.encode)
    embedding.copy_(encode(random_graph(num_features, seed, whole, str(embedding.device))).double().mean(dim=0))


@lru_cache(maxsize=4)
def random_graph(num_features: int, seed: int, whole: bool, device: str = "cpu") -> GraphInputs:
    """The random graph that networks are compared on, equal on every machine for equal arguments.

    A stochastic block model with standard normal features. Clients of other feature spaces get other features on the same
    edges: each network is asked in its own.

    Parameters
    ----------
    num_features : int
    seed : int
    whole : bool
        Whether its blocks count as graphs of their own, for networks that classify whole graphs.
    device : str
    """
    rng, place = np.random.default_rng([seed, 0xFEDB]), torch.device(device)
    upper = np.triu(rng.random((NUM_BLOCKS, BLOCK_SIZE, BLOCK_SIZE)) < EDGE_PROBABILITY, k=1)
    block, one, other = (upper | upper.transpose(0, 2, 1)).nonzero()
    edges = torch.from_numpy(np.stack([one, other]) + block * BLOCK_SIZE)
    features = torch.from_numpy(rng.standard_normal((NUM_BLOCKS * BLOCK_SIZE, num_features), dtype=np.float32))
    owner = torch.arange(NUM_BLOCKS, device=place).repeat_interleave(BLOCK_SIZE) if whole else None
    return GraphInputs(Constant.of(features).to(place), edges.to(place), owner, NUM_BLOCKS if whole else 1)

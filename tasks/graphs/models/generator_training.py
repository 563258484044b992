"""Joint training of a neighbour generator and a classifier, and mended graphs (FedSage+, Zhang et
al., 2021)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import DTypeLike, NDArray
from torch import Tensor, nn

from curvfed.tasks.graphs.inputs import GraphInputs
from curvfed.tasks.graphs.models.neighbour_generator import (
    FeatureGenerator,
    GeneratorSpec,
    Impaired,
    NeighbourGenerator,
    feature_loss,
    mended,
)
from curvfed.tasks.task import Batch

REPRESENTATIONS = "representations"
MISSING = "missing"
"""The arrays of a package besides the parameters of fGen: inputs of fGen, and the number of missing
neighbours of each."""


def blank_package(spec: GeneratorSpec, sample: int, dtype: DTypeLike) -> dict[str, NDArray[Any]]:
    """A package of zeros: fGen and `sample` of its inputs, in the shapes that a client sends."""
    package: dict[str, NDArray[Any]] = {
        name: np.zeros(tuple(parameter.shape), dtype)
        for name, parameter in FeatureGenerator(spec).named_parameters()
    }
    package[REPRESENTATIONS] = np.zeros((sample, spec.width), dtype)
    package[MISSING] = np.zeros(sample, dtype)
    return package


def generator_part(package: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
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
        generated = self.generator.features(representations + torch.randn_like(representations))
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
        logits: Tensor = self.model(self._mend(inputs))[: inputs.num_nodes]
        return logits


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
    hidden = np.sort(np.random.default_rng(list(seed)).permutation(numbers)[:count])
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
    chosen = lacking[torch.randperm(len(lacking), device=lacking.device)][:limit]
    return representations[chosen], impaired.missing[chosen]


def feature_gradients(
    generator: FeatureGenerator, representations: Tensor, missing: Tensor, candidates: Tensor
) -> dict[str, Tensor]:
    """Gradients, by parameter name, of the distances between generated neighbours and their nearest
    candidates."""
    parameters = dict(generator.named_parameters())
    loss = feature_loss(
        generator(representations + torch.randn_like(representations)), missing, candidates
    )
    return dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True))

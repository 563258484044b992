"""Training of a neighbour generator together with a classifier, and graphs mended by it (FedSage+,
Zhang et al., 2021)."""

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
"""Arrays of a package beside the parameters of fGen: inputs of fGen, and the number of missing
neighbours of each."""


def blank_package(spec: GeneratorSpec, sample: int, dtype: DTypeLike) -> dict[str, NDArray[Any]]:
    """Zeros in place of what a client shows the others: its fGen, and that many of its inputs."""
    found = {
        name: np.zeros(tuple(p.shape), dtype)
        for name, p in FeatureGenerator(spec).named_parameters()
    }
    return found | {
        REPRESENTATIONS: np.zeros((sample, spec.width), dtype),
        MISSING: np.zeros(sample, dtype),
    }


def generator_part(package: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays of a package that are parameters of fGen."""
    return {
        name: array for name, array in package.items() if name not in (REPRESENTATIONS, MISSING)
    }


class JointModel(nn.Module):
    """A generator and a classifier that are trained together on an impaired graph."""

    def __init__(
        self, generator: NeighbourGenerator, classifier: nn.Module, impaired: Impaired
    ) -> None:
        super().__init__()
        self.generator = generator
        self.classifier = classifier
        self.impaired = impaired

    def loss(self, batch: Batch) -> Tensor:
        """L^d + L^f + L^c; the batch has rows and labels of the whole graph."""
        impaired = self.impaired
        representations = self.generator.encode(impaired.inputs)
        counts = self.generator.counts(representations)
        generated = self.generator.features(representations + torch.randn_like(representations))
        count_loss = F.smooth_l1_loss(counts, impaired.missing.to(counts.dtype))
        distances = feature_loss(
            generated, impaired.missing, impaired.hidden, impaired.linked
        ) / len(counts)
        logits = self.classifier(mended(impaired.inputs, counts, generated))
        return (
            count_loss
            + distances
            + F.cross_entropy(logits[impaired.position[batch.rows]], batch.labels)
        )


class MendedModel(nn.Module):
    """A network that sees every graph with its generated neighbours, and classifies the graph's own
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
    """The graph with the neighbours that a generator in evaluation mode makes from seeded noise,
    without gradients."""
    generator.eval()
    draws = torch.Generator().manual_seed(seed)
    # The first call may come from scoring in inference mode, and the result is used in training.
    with torch.inference_mode(False), torch.no_grad():
        representations = generator.encode(inputs)
        noise = torch.randn(representations.shape, generator=draws, dtype=representations.dtype)
        generated = generator.features(representations + noise.to(representations.device))
        return mended(inputs, generator.counts(representations), generated)


def hide_nodes(
    inputs: GraphInputs, trained_on: Tensor | None, share: float, seed: Sequence[int]
) -> Tensor:
    """Numbers of the nodes to hide, ascending: a random share of all nodes, none of which is
    trained on."""
    free = torch.ones(inputs.num_nodes, dtype=torch.bool)
    if trained_on is not None:
        free[trained_on.cpu()] = False
    numbers = free.nonzero()[:, 0].numpy()
    count = min(len(numbers), round(share * inputs.num_nodes))
    hidden = np.sort(np.random.default_rng(list(seed)).permutation(numbers)[:count])
    return torch.from_numpy(hidden).to(inputs.dense.device)


@torch.no_grad()
def sample_lacking(
    generator: NeighbourGenerator, impaired: Impaired, most: int
) -> tuple[Tensor, Tensor]:
    """Representations (n, width) and numbers of hidden neighbours (n,) of at most so many nodes
    that lack some."""
    generator.eval()
    representations = generator.encode(impaired.inputs)
    lacking = impaired.missing.nonzero().squeeze(1)
    chosen = lacking[torch.randperm(len(lacking), device=lacking.device)][:most]
    return representations[chosen], impaired.missing[chosen]


def feature_gradients(
    generator: FeatureGenerator, representations: Tensor, missing: Tensor, candidates: Tensor
) -> dict[str, Tensor]:
    """Gradients, by parameter name, of the distances of generated neighbours to the nearest
    candidates."""
    parameters = dict(generator.named_parameters())
    loss = feature_loss(
        generator(representations + torch.randn_like(representations)), missing, candidates
    )
    return dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True))

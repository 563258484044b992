"""FedSage+'s local work (Zhang et al., NeurIPS 2021): a generator of missing neighbours, and FedAvg on the mended graph."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from curvfed.client_app.learners.scaffold import Correction
from curvfed.strategies.base.learner import Arrays, Learner, Local, copy_in, host, part
from curvfed.strategies.base.training import Trained, make_optimizer, train
from curvfed.strategies.fedsage import GRADIENT, MISSING, PACKAGE, REPRESENTATIONS, package
from curvfed.strategies.wire.arrays import MessageError, check_arrays
from curvfed.tasks.graphs.inputs import GraphInputs
from curvfed.tasks.graphs.neighbours import (
    GeneratorSpec,
    NeighbourGenerator,
    feature_loss,
    impaired,
    mended,
)
from curvfed.tasks.task import Batch

KEPT = "generator/"
"""What the names of the generator's parameters begin with."""

HIDING, MENDING = 0xFED5, 0xFED6
"""Streams of a client's draws that are the same in every round: which nodes it hides, and the noise of its mended graph."""


class FedSage(Learner):
    """θ is trained as in FedAvg on the client's mended graph; in the first rounds its generator is trained before.

    The client hides `fedsage.hidden` of its nodes, none that it trains on, and trains NeighGen on what is left for
    `fedsage.epochs` passes of L^d + L^f + L^c: the smooth L1 distance of dGen's counts to those of hidden neighbours, the
    squared distance of fGen's features to the nearest hidden neighbour, and the cross-entropy of a classifier on the
    impaired graph, mended. To fGen's gradient α times that of the other clients is added, which compare its features with
    all their nodes (`curvfed.strategies.fedsage`): the paper's cross-subgraph feature reconstruction.

    The paper trains generators and classifiers one after the other, and starts the shared classifier anew. Here a round of
    the first kind is one of the second too, so that θ is averaged in all; L^c trains a copy of θ as received besides.
    Sums of L^f go over the number n_v of hidden neighbours; the authors' code goes over dGen's numbers, and holds features
    that are not wanted to 0. A client that never trained its generator mends nothing.

    Parameters
    ----------
    local : Local
    """

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        keys, batch = local.config.fedsage, next(iter(local.task.batches(local.model)))
        self._inputs: GraphInputs = batch.inputs
        self._features = self._inputs.dense
        self._template = package({name: host(local.tensors[name]) for name in local.shared}, keys)
        spec = GeneratorSpec(self._features.shape[1], keys.width, keys.neighbours, local.config.dropout)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(local.config.seed)
            generator = NeighbourGenerator(spec)
        self._generator = generator.to(self._features.device, self._features.dtype)
        self._rounds = torch.zeros((), dtype=torch.int64)
        self._impaired = impaired(self._inputs, self._hidden(batch))
        self._fgen = dict(self._generator.features.named_parameters())
        self._gradient: dict[str, Tensor] | None = None
        self._packages: dict[str, Arrays] = {}
        self._told: dict[str, NDArray[Any]] = {}
        self._mended: GraphInputs | None = None

    def _hidden(self, batch: Batch) -> Tensor:
        rng = np.random.default_rng([self.local.config.seed, self.local.partition, HIDING])
        trained_on = host(batch.rows) if batch.rows is not None else np.zeros(0, np.int64)
        free = np.setdiff1d(np.arange(self._inputs.num_nodes), trained_on)
        count = min(len(free), round(self.local.config.fedsage.hidden * self._inputs.num_nodes))
        return torch.from_numpy(np.sort(rng.permutation(free)[:count])).to(self._features.device)

    def kept(self) -> dict[str, Tensor]:
        """The generator, and in how many rounds it was trained."""
        found = {f"{KEPT}{name}": parameter for name, parameter in self._generator.named_parameters()}
        return found | {f"{KEPT}rounds": self._rounds}

    def receive(self, arrays: Arrays) -> None:
        """θ; while generators are trained the gradient on the own fGen and the others' packages."""
        shared = {name: host(self.local.tensors[name]) for name in self.local.shared}
        expected, numbers = dict(shared), sorted({name.split("/")[1] for name in arrays if name.startswith(PACKAGE)})
        generates = any(name.startswith(GRADIENT) for name in arrays)
        if generates:
            expected |= {f"{GRADIENT}{name}": self._template[name] for name in self._fgen}
            for number in numbers:
                if not number.isdecimal() or int(number) == self.local.partition:
                    raise MessageError(
                        f"there is a package of {number!r}; allowed are those of other clients, by number"
                    )
                expected |= {f"{PACKAGE}{number}/{name}": array for name, array in self._template.items()}
        check_arrays(arrays, expected)
        copy_in({name: arrays[name] for name in shared}, self.local.tensors)
        self._gradient = self._tensors(part(arrays, GRADIENT)) if generates else None
        self._packages = {number: part(arrays, f"{PACKAGE}{number}/") for number in numbers}
        self._told, self._mended = {}, None

    def _tensors(self, arrays: Arrays) -> dict[str, Tensor]:
        return {name: torch.tensor(array).to(self._features.device) for name, array in arrays.items()}

    def train(self) -> Trained:
        """The generator, in the rounds that train it, then θ; loss and steps are those of θ."""
        if self._gradient is not None:
            self._train_generator(self._gradient)
            self._told = self._package() | self._answers()
            self._mended = None
        return super().train()

    def _train_generator(self, gradient: dict[str, Tensor]) -> None:
        local, config = self.local, self.local.config
        joint = _Joint(self._generator, copy.deepcopy(local.model))
        trained = {name: parameter for name, parameter in joint.named_parameters() if parameter.requires_grad}
        optimizer = make_optimizer(trained, config)
        optimizer.learning_rate = local.optimizer.learning_rate
        # The gradient is of a sum over as many nodes as a package has room for; it stands for all with hidden neighbours.
        lacking = int((self._impaired.missing > 0).sum())
        scale = config.fedsage.cross * max(lacking / config.fedsage.sample, 1) / self._impaired.inputs.num_nodes
        pull = Correction(self._fgen, {name: scale * array for name, array in gradient.items()})
        # The gradient was taken at one place and is good for one step: in all of them it would lead far beyond the least.
        for epochs, pulls in ((1, [pull]), (config.fedsage.epochs - 1, [])):
            if epochs:
                train(joint, local.task, optimizer, epochs, pulls, config.clip_norm, self._generator_loss)
        self._rounds += 1

    def _generator_loss(self, joint: nn.Module, batch: Batch) -> Tensor:
        """L^d + L^f + L^c on the impaired graph."""
        assert isinstance(joint, _Joint)
        lacking = self._impaired
        representations = joint.generator.encode(lacking.inputs)
        counts = joint.generator.counts(representations)
        generated = joint.generator.features(representations + torch.randn_like(representations))
        of_counts = F.smooth_l1_loss(counts, lacking.missing.to(counts.dtype))
        of_features = feature_loss(generated, lacking.missing, lacking.hidden, lacking.linked) / len(counts)
        logits = joint.classifier(mended(lacking.inputs, counts, generated))
        return of_counts + of_features + F.cross_entropy(logits[lacking.position[batch.rows]], batch.labels)

    @torch.no_grad()
    def _package(self) -> dict[str, NDArray[Any]]:
        """fGen, and what it is asked with for nodes with hidden neighbours: as many as there is room for, by chance."""
        self._generator.eval()
        representations = self._generator.encode(self._impaired.inputs)
        found = {name: np.array(array) for name, array in self._template.items()}
        found |= {name: np.array(host(parameter)) for name, parameter in self._fgen.items()}
        lacking = self._impaired.missing.nonzero().squeeze(1)
        chosen = lacking[torch.randperm(len(lacking), device=lacking.device)][: len(found[MISSING])]
        found[REPRESENTATIONS][: len(chosen)] = host(representations[chosen])
        found[MISSING][: len(chosen)] = host(self._impaired.missing[chosen])
        return {f"{PACKAGE}{name}": array for name, array in found.items()}

    def _answers(self) -> dict[str, NDArray[Any]]:
        """Gradients of the distance between what the others' fGens make and this client's own nodes."""
        found: dict[str, NDArray[Any]] = {}
        probe = copy.deepcopy(self._generator.features).eval()
        parameters = dict(probe.named_parameters())
        for number, content in self._packages.items():
            copy_in({name: content[name] for name in parameters}, parameters)
            told = self._tensors({name: content[name] for name in (REPRESENTATIONS, MISSING)})
            noisy = told[REPRESENTATIONS] + torch.randn_like(told[REPRESENTATIONS])
            loss = feature_loss(probe(noisy), told[MISSING], self._features)
            gradients = torch.autograd.grad(loss, list(parameters.values()))
            found |= {f"{GRADIENT}{number}/{name}": host(one) for name, one in zip(parameters, gradients, strict=True)}
        return found

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Cross-entropy on the mended graph, where the client's own nodes come first."""
        return F.cross_entropy(batch.of(model(self._mend(batch.inputs))), batch.labels)

    def _mend(self, inputs: GraphInputs) -> GraphInputs:
        if self._rounds == 0:
            return inputs
        if inputs is not self._inputs:
            return self._made(inputs)
        if self._mended is None:
            self._mended = self._made(inputs)
        return self._mended

    def _made(self, inputs: GraphInputs) -> GraphInputs:
        self._generator.eval()
        draws = torch.Generator().manual_seed(self._mending_seed)
        with torch.inference_mode(False), torch.no_grad():  # scoring may be the first to ask, training goes on with it
            representations = self._generator.encode(inputs)
            noise = torch.randn(representations.shape, generator=draws, dtype=representations.dtype)
            generated = self._generator.features(representations + noise.to(representations.device))
            return mended(inputs, self._generator.counts(representations), generated)

    @property
    def _mending_seed(self) -> int:
        entropy = [self.local.config.seed, self.local.partition, MENDING]
        return int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0]) >> 1

    def share(self) -> dict[str, NDArray[Any]]:
        """θ; while generators are trained a package, and the gradient on every package that came."""
        if self._gradient is None:
            return super().share()
        blank = {f"{PACKAGE}{name}": array for name, array in self._template.items()}
        for number in self._packages:
            blank |= {f"{GRADIENT}{number}/{name}": self._template[name] for name in self._fgen}
        return super().share() | blank | self._told

    @property
    def scored(self) -> nn.Module:
        """θ on the mended graph."""
        return _OnMended(self.local.model, self._mend)


class _Joint(nn.Module):
    """What is trained together."""

    def __init__(self, generator: NeighbourGenerator, classifier: nn.Module) -> None:
        super().__init__()
        self.generator, self.classifier = generator, classifier


class _OnMended(nn.Module):
    """A network that is asked of a graph, and sees it mended."""

    def __init__(self, model: nn.Module, mend: Callable[[GraphInputs], GraphInputs]) -> None:
        super().__init__()
        self.model, self._mend = model, mend

    def forward(self, inputs: GraphInputs) -> Tensor:
        """Logits (N, C) of the graph's own nodes."""
        logits: Tensor = self.model(self._mend(inputs))[: inputs.num_nodes]
        return logits


LEARNER = FedSage

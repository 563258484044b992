"""FedSage+ (Zhang et al., NeurIPS 2021): generators of missing neighbours, which clients learn from each other."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from curvfed.strategies.base.aggregation import Aggregation, Average, Replies
from curvfed.strategies.base.average import Arrays, Update, check_names
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.learner import Learner, Local, load_arrays, select_prefix, to_numpy
from curvfed.strategies.base.method import Method
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.training import Correction, Trained, make_optimizer, train
from curvfed.strategies.wire.arrays import MessageError, check_arrays
from curvfed.tasks.graphs.inputs import GraphInputs
from curvfed.tasks.graphs.models.neighbour_generator import (
    FeatureGenerator,
    GeneratorSpec,
    NeighbourGenerator,
    feature_loss,
    impaired,
    mended,
)
from curvfed.tasks.task import Batch


class Keys(Table):
    """Keys of FedSage+."""

    generator_rounds: int = Field(
        default=5,
        ge=0,
        le=1_000_000,
        description="rounds, the first, in which every client trains its generator of missing neighbours before the "
        "classifier; the last round of a run is never one. 0 is fedavg",
    )
    epochs: int = Field(
        default=10, ge=1, le=10_000, description="passes that train the generator in each of these rounds"
    )
    hidden: Rate = Field(
        default=0.1,
        gt=0,
        lt=1,
        description="share of its nodes that a client hides to train the generator, none that it trains on; the authors "
        "hide half of the nodes that they validate on, a tenth of all",
    )
    neighbours: int = Field(default=5, ge=1, le=100, description="most neighbours that a node is given")
    cross: Rate = Field(
        default=1.0,
        ge=0,
        description="alpha, weight of the other clients' mean feature loss beside the own one; at 0 they do not matter",
    )
    width: int = Field(
        default=64,
        ge=1,
        le=100_000,
        description="width of the generator's layers; a message holds about width * neighbours numbers for every feature "
        "and client. The authors use 128 to 2048",
    )
    sample: int = Field(
        default=64, ge=1, le=100_000, description="nodes whose representations a client shows the others in a round"
    )


PACKAGE, GRADIENT = "package/", "gradient/"
"""What the names begin with of what a client tells others, and of what others answer. On the way down a package's name
goes on with its client's number, on the way up a gradient's."""

REPRESENTATIONS, MISSING = "representations", "missing"
"""In a package, beside fGen's parameters: what fGen is asked with, and how many neighbours each has."""


def package(arrays: Arrays, keys: Keys) -> Arrays:
    """A package without content: names, shapes and dtypes, for nodes of as many features as the shared model takes."""
    weight = arrays["first.weight"]
    spec = GeneratorSpec(weight.shape[1], keys.width, keys.neighbours, 0.0)
    found = {
        name: np.zeros(tuple(tensor.shape), weight.dtype) for name, tensor in FeatureGenerator(spec).named_parameters()
    }
    return found | {
        REPRESENTATIONS: np.zeros((keys.sample, keys.width), weight.dtype),
        MISSING: np.zeros(keys.sample, weight.dtype),
    }


class FedSageServer(Average):
    """FedAvg of the classifier; in the first rounds clients also learn what other clients' nodes are like.

    In a round of these a client is sent the package of every other one, its fGen and some inputs of it, and the gradient of
    the others' losses on its own fGen, the mean of those who answered. It replies with a new package and its gradients for
    the packages that it was sent. So a gradient is a round old when it is used:
    it was taken at the fGen that the client ended the round before the last with. In the paper clients ask each other
    in every step, and add the gradients up; their mean does not grow with the number of clients.

    Clients without examples are in nobody's sums, and have no package. After the last of these rounds the server forgets
    packages and gradients.

    Parameters
    ----------
    arrays : dict of str to array
        The shared parameters that all start from.
    template : dict of str to array
        As `package` makes it.
    rounds : int
        How many rounds train the generators.
    """

    def __init__(self, arrays: Arrays, template: Arrays, rounds: int) -> None:
        super().__init__(arrays)
        self._template, self._left = template, rounds
        self._still = {name: array for name, array in template.items() if name not in (REPRESENTATIONS, MISSING)}
        self._packages: dict[int, Arrays] = {}
        self._gradients: dict[int, Arrays] = {}

    def sent_to(self, partition: int) -> Arrays:
        """The average; while generators are trained "gradient/name", at first 0, and "package/partition/name" too."""
        if not self._left:
            return self._arrays
        gradient = self._gradients.get(partition, self._still)
        return self._arrays | _named(GRADIENT, gradient) | self._packages_for(partition)

    def _packages_for(self, partition: int) -> Arrays:
        found: Arrays = {}
        for other, content in self._packages.items():
            if other != partition:
                found |= _named(f"{PACKAGE}{other}/", content)
        return found

    def expected_reply(self, partition: int) -> Arrays:
        """The classifier; while generators are trained "package/name", and "gradient/partition/name" of every package."""
        if not self._left:
            return self._arrays
        found = self._arrays | _named(PACKAGE, self._template)
        for other in self._packages.keys() - {partition}:
            found |= _named(f"{GRADIENT}{other}/", self._still)
        return found

    def global_model(self) -> Arrays:
        """The average alone."""
        return self._arrays

    def aggregate(self, replies: Replies) -> None:
        """Average the classifier; sort packages and gradients."""
        for partition, update in replies.items():
            check_names(update.arrays, self.expected_reply(partition))
        models = {
            p: replace(one, arrays={name: one.arrays[name] for name in self._arrays}) for p, one in replies.items()
        }
        super().aggregate(models)
        if self._left:
            learnt = {partition: update for partition, update in replies.items() if update.examples}
            self._gradients = {other: self._mean(other, learnt) for other in sorted(self._packages)}
            for partition, update in learnt.items():
                self._packages[partition] = {name: update.arrays[PACKAGE + name] for name in self._template}
            self._packages = dict(sorted(self._packages.items()))
            self._left -= 1
        if not self._left:
            self._packages, self._gradients = {}, {}

    def _mean(self, partition: int, replies: dict[int, Update]) -> Arrays:
        """Of what others answered to this client's package; 0 where nobody did."""
        answers = [update.arrays for other, update in replies.items() if other != partition]
        found: Arrays = {}
        for name, still in self._still.items():
            total = np.zeros(still.shape)
            for arrays in answers:
                total += arrays[f"{GRADIENT}{partition}/{name}"]
            found[name] = (total / max(len(answers), 1)).astype(still.dtype)
        return found

    def state(self) -> Arrays:
        """The average, the rounds left, and "package/partition/name" and "gradient/partition/name"."""
        found = self._arrays | {"rounds-left": np.array(self._left)}
        for prefix, known in ((PACKAGE, self._packages), (GRADIENT, self._gradients)):
            for partition, content in known.items():
                found |= _named(f"{prefix}{partition}/", content)
        return found

    def load(self, state: Arrays) -> None:
        """Go on from a stored average, packages and gradients."""
        self._left = int(state["rounds-left"])
        self._packages, self._gradients = {}, {}
        for key, array in state.items():
            kind, _, rest = key.partition("/")
            if kind in ("package", "gradient"):
                partition, _, name = rest.partition("/")
                known = self._packages if kind == "package" else self._gradients
                known.setdefault(int(partition), {})[name] = array
        self._arrays = {name: state[name] for name in self._arrays}


def _named(prefix: str, arrays: Arrays) -> Arrays:
    return {prefix + name: array for name, array in arrays.items()}


KEPT = "generator/"
"""What the names of the generator's parameters begin with."""

HIDING, MENDING = 0xFED5, 0xFED6
"""Streams of a client's draws that are the same in every round: which nodes it hides, and the noise of its mended graph."""


class FedSageClient(Learner):
    """θ is trained as in FedAvg on the client's mended graph; in the first rounds its generator is trained before.

    The client hides `fedsage.hidden` of its nodes, none that it trains on, and trains NeighGen on what is left for
    `fedsage.epochs` passes of L^d + L^f + L^c: the smooth L1 distance of dGen's counts to those of hidden neighbours, the
    squared distance of fGen's features to the nearest hidden neighbour, and the cross-entropy of a classifier on the
    impaired graph, mended. To fGen's gradient α times that of the other clients is added, which compare its features with
    all their nodes (`curvfed.strategies.methods.fedsage`): the paper's cross-subgraph feature reconstruction.

    The paper trains generators and classifiers one after the other, and starts the shared classifier anew. Here a round of
    the first kind is one of the second too, so that θ is averaged in all; L^c trains a copy of θ as received besides.
    Sums of L^f go over the number n_v of hidden neighbours; the authors' code goes over dGen's numbers, and holds features
    that are not wanted to 0. A client that never trained its generator mends nothing.

    Parameters
    ----------
    local : Local
    """

    keys: Keys

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        keys, batch = self.keys, next(iter(local.task.batches(local.model)))
        self._inputs: GraphInputs = batch.inputs
        self._features = self._inputs.dense
        self._template = package({name: to_numpy(local.tensors[name]) for name in local.shared}, keys)
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
        trained_on = to_numpy(batch.rows) if batch.rows is not None else np.zeros(0, np.int64)
        free = np.setdiff1d(np.arange(self._inputs.num_nodes), trained_on)
        count = min(len(free), round(self.keys.hidden * self._inputs.num_nodes))
        return torch.from_numpy(np.sort(rng.permutation(free)[:count])).to(self._features.device)

    def local_state(self) -> dict[str, Tensor]:
        """The generator, and in how many rounds it was trained."""
        found = {f"{KEPT}{name}": parameter for name, parameter in self._generator.named_parameters()}
        return found | {f"{KEPT}rounds": self._rounds}

    def receive(self, arrays: Arrays) -> None:
        """θ; while generators are trained the gradient on the own fGen and the others' packages."""
        shared = {name: to_numpy(self.local.tensors[name]) for name in self.local.shared}
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
        load_arrays({name: arrays[name] for name in shared}, self.local.tensors)
        self._gradient = self._tensors(select_prefix(arrays, GRADIENT)) if generates else None
        self._packages = {number: select_prefix(arrays, f"{PACKAGE}{number}/") for number in numbers}
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
        scale = self.keys.cross * max(lacking / self.keys.sample, 1) / self._impaired.inputs.num_nodes
        pull = Correction(self._fgen, {name: scale * array for name, array in gradient.items()})
        # The gradient was taken at one place and is good for one step: in all of them it would lead far beyond the least.
        for epochs, pulls in ((1, [pull]), (self.keys.epochs - 1, [])):
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
        found |= {name: np.array(to_numpy(parameter)) for name, parameter in self._fgen.items()}
        lacking = self._impaired.missing.nonzero().squeeze(1)
        chosen = lacking[torch.randperm(len(lacking), device=lacking.device)][: len(found[MISSING])]
        found[REPRESENTATIONS][: len(chosen)] = to_numpy(representations[chosen])
        found[MISSING][: len(chosen)] = to_numpy(self._impaired.missing[chosen])
        return {f"{PACKAGE}{name}": array for name, array in found.items()}

    def _answers(self) -> dict[str, NDArray[Any]]:
        """Gradients of the distance between what the others' fGens make and this client's own nodes."""
        found: dict[str, NDArray[Any]] = {}
        probe = copy.deepcopy(self._generator.features).eval()
        parameters = dict(probe.named_parameters())
        for number, content in self._packages.items():
            load_arrays({name: content[name] for name in parameters}, parameters)
            told = self._tensors({name: content[name] for name in (REPRESENTATIONS, MISSING)})
            noisy = told[REPRESENTATIONS] + torch.randn_like(told[REPRESENTATIONS])
            loss = feature_loss(probe(noisy), told[MISSING], self._features)
            gradients = torch.autograd.grad(loss, list(parameters.values()))
            found |= {
                f"{GRADIENT}{number}/{name}": to_numpy(one) for name, one in zip(parameters, gradients, strict=True)
            }
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


def generator_rounds(keys: Keys, num_rounds: int) -> int:
    """First rounds that train the generator; the last one never does, for nobody would use it."""
    return min(keys.generator_rounds, max(num_rounds - 1, 0))


def server(arrays: Arrays, keys: Keys, run: RunKeys, clients: int) -> Aggregation:
    """The server's half of a run."""
    return FedSageServer(arrays, package(arrays, keys), generator_rounds(keys, run.num_rounds))


METHODS = {
    "fedsage+": Method(
        "fedavg on graphs mended with generated neighbours, which clients learn from each other (Zhang et al., 2021)",
        space="flat",
        tells_statistics=True,
        aggregation="fedsage",
        tasks=("nodes",),
        keys={"fedsage": Keys},
        server=server,
        rounds_set=generator_rounds,
        client=FedSageClient,
    ),
}

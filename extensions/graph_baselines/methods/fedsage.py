"""FedSage+ (Zhang et al., NeurIPS 2021): clients train generators of missing neighbours with each
other's help."""

import copy
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from curvfed.extensions.graph_baselines import neighbour_generator as generators
from curvfed.extensions.graph_baselines.neighbour_generator import (
    MISSING,
    REPRESENTATIONS,
    GeneratorSpec,
    NeighbourGenerator,
    generator_part,
    impaired,
)
from curvfed.strategies.base.aggregation import Average, Replies, check_names
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.learner import Learner, Local, fresh_optimizer
from curvfed.strategies.base.method import Method
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.statistics import (
    Arrays,
    Statistics,
    add_prefix,
    join_groups,
    select_prefix,
    split_groups,
)
from curvfed.strategies.base.tensors import load_arrays
from curvfed.strategies.base.training import Correction, Trained, train
from curvfed.strategies.wire.checks import MessageError, check_arrays
from curvfed.tasks.draws import seeded
from curvfed.tasks.graphs.inputs import GraphInputs
from curvfed.tasks.task import Batch


class Keys(Table):
    """Keys of FedSage+."""

    retired = (("neighbours", 5),)

    generator_rounds: int = Field(default=5, ge=0, le=1_000_000)
    """number of first rounds in which every client trains its generator of missing neighbours
    before the classifier; never the last round of a run. 0: as fedavg"""
    epochs: int = Field(default=10, ge=1, le=10_000)
    """passes per round that train the generator"""
    hidden: Rate = Field(default=0.1, gt=0, lt=1)
    """share of its nodes that a client hides to train the generator, none of them training nodes;
    the authors hide half of the validation nodes, a tenth of all"""
    cross: Rate = Field(default=1.0, ge=0)
    """alpha, weight of the other clients' mean feature loss, added to the client's own; 0: ignore
    the other clients"""
    width: int = Field(default=64, ge=1, le=100_000)
    """width of the generator's layers; a message holds about 5 * width numbers for every
    feature and client. The authors use 128 to 2048"""
    sample: int = Field(default=64, ge=1, le=100_000)
    """number of node representations that a client shares per round"""

    def conflicts(self, config: RunKeys) -> Iterator[tuple[str, str]]:
        """Its learner looks at the whole graph."""
        if config.batch_size:
            yield "batch-size method", "batch-size = auto or 0, for it uses whole graphs"

    def rounds_set(self, num_rounds: int) -> int:
        """Number of first rounds that train the generator; never the last round, after which no
        client would use it."""
        return min(self.generator_rounds, max(num_rounds - 1, 0))


NEIGHBOURS = 5
"""Maximum number of generated neighbours per node, as in the authors' code."""

PACKAGE = "package/"
GRADIENT = "gradient/"
"""Prefixes of a client's message to all others, and of their answers. Another client's number may
follow."""


def package(arrays: Arrays, keys: Keys) -> Arrays:
    """A package of zeros with the right names, shapes and dtypes; the shared model gives the number
    of features."""
    weight = arrays["first.weight"]
    spec = GeneratorSpec(weight.shape[1], keys.width, NEIGHBOURS, 0.0)
    return generators.blank_package(spec, keys.sample, weight.dtype)


class FedSageServer(Average):
    """FedAvg of the classifier; in the first rounds the server also forwards packages and gradients
    between clients.

    In such a round a client receives the packages of all other clients, and the mean gradient of
    the other clients' losses for its own fGen, which is one round old. It replies with a new
    package and its gradients for the others' packages. In the paper clients ask each other in every
    step and add the gradients; the mean does not grow with their number. Clients without examples
    enter no mean and send no package.
    """

    keys: Keys

    def begin(self, arrays: Arrays) -> None:
        """Start without packages."""
        super().begin(arrays)
        self._template = package(arrays, self.keys)
        self._left = self.keys.rounds_set(self.config.num_rounds)
        self._no_gradient = generator_part(self._template)
        self._packages: dict[int, Arrays] = {}
        self._gradients: dict[int, Arrays] = {}

    def sent_to(self, partition: int) -> Arrays:
        """The average; while generators are trained also "gradient/name", at first 0, and
        "package/partition/name"."""
        if not self._left:
            return self._arrays
        gradient = self._gradients.get(partition, self._no_gradient)
        packages = {
            sender: content for sender, content in self._packages.items() if sender != partition
        }
        return self._arrays | add_prefix(GRADIENT, gradient) | join_groups(PACKAGE, packages)

    def expected_reply(self, partition: int) -> Arrays:
        """The classifier; while generators are trained also "package/name", and
        "gradient/partition/name" per package."""
        if not self._left:
            return self._arrays
        gradients = dict.fromkeys(self._packages.keys() - {partition}, self._no_gradient)
        return self._arrays | add_prefix(PACKAGE, self._template) | join_groups(GRADIENT, gradients)

    def aggregate(self, replies: Replies) -> None:
        """Average the classifier; store packages and mean gradients."""
        for partition, update in replies.items():
            check_names(update.arrays, self.expected_reply(partition))
        classifiers: dict[int, Statistics] = {}
        for partition, update in replies.items():
            arrays = {name: update.arrays[name] for name in self._arrays}
            classifiers[partition] = replace(update, arrays=arrays)
        super().aggregate(classifiers)
        if self._left:
            trained = {partition: update for partition, update in replies.items() if update.weight}
            self._gradients = {
                client: self._mean_gradient(client, trained) for client in self._packages
            }
            self._packages |= {
                p: select_prefix(update.arrays, PACKAGE) for p, update in trained.items()
            }
            self._left -= 1
        if not self._left:
            self._packages = {}
            self._gradients = {}

    def _mean_gradient(self, partition: int, replies: dict[int, Statistics]) -> Arrays:
        """Mean of the others' answers to this client's package; 0 without answers."""
        prefix = f"{GRADIENT}{partition}/"
        answers = [
            select_prefix(update.arrays, prefix)
            for sender, update in replies.items()
            if sender != partition
        ]
        mean: Arrays = {}
        for name, zero in self._no_gradient.items():
            total = sum((answer[name] for answer in answers), np.zeros(zero.shape))
            mean[name] = (total / max(len(answers), 1)).astype(zero.dtype)
        return mean

    def state(self) -> Arrays:
        """The average, the rounds left, and "package/partition/name" and
        "gradient/partition/name".
        """
        messages = join_groups(PACKAGE, self._packages) | join_groups(GRADIENT, self._gradients)
        return self._arrays | {"rounds-left": np.array(self._left)} | messages

    def load(self, state: Arrays) -> None:
        """Continue from a stored state."""
        self._left = int(state["rounds-left"])
        self._packages = split_groups(state, PACKAGE)
        self._gradients = split_groups(state, GRADIENT)
        self._arrays = {name: state[name] for name in self._arrays}


KEPT = "generator/"
"""Prefix of the names of the generator's parameters in the local state."""

HIDING = 0xFED5
MENDING = 0xFED6
"""Seeds of a client's draws that are the same in every round: its hidden nodes, and the noise of
its mended graph."""


class FedSageClient(Learner):
    """θ is trained as in FedAvg on the client's mended graph; in the first rounds the client first
    trains its generator.

    The client hides some nodes that it does not train on, and trains NeighGen on the remaining
    graph by L^d + L^f + L^c: the smooth L1 distance of dGen's counts to the numbers of hidden
    neighbours, the squared distance of fGen's features to the nearest hidden neighbour, and the
    cross-entropy of a classifier on the mended graph. α times the other clients' gradient is added
    to that of fGen: the paper's cross-subgraph feature reconstruction. The paper trains first the
    generators and then a new shared classifier. Here a round that trains generators also trains the
    classifier, so that θ is averaged in every round; L^c trains a copy of the received θ. Sums of
    L^f go over the number of hidden neighbours; the authors' code uses dGen's counts, and compares
    superfluous features with 0.
    """

    keys: Keys
    reports_statistics = True

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        keys = self.keys
        seed = local.config.seed
        batch = next(iter(local.task.batches(local.model)))
        self._inputs: GraphInputs = batch.inputs
        self._features = self._inputs.dense
        self._template = package(super().share(), keys)
        spec = GeneratorSpec(self._features.shape[1], keys.width, NEIGHBOURS, local.config.dropout)
        with seeded(seed):
            generator = NeighbourGenerator(spec)
        self._generator = generator.to(self._features.device, self._features.dtype)
        self._rounds = torch.zeros((), dtype=torch.int64)
        hidden = generators.hide_nodes(
            self._inputs, batch.rows, keys.hidden, [seed, local.partition, HIDING]
        )
        self._impaired = impaired(self._inputs, hidden)
        self._fgen = dict(self._generator.features.named_parameters())
        mending = np.random.SeedSequence([seed, local.partition, MENDING])
        self._mending_seed = int(mending.generate_state(1, np.uint64)[0]) >> 1
        self._gradient: dict[str, Tensor] | None = None
        self._packages: dict[str, Arrays] = {}
        self._answer: Arrays = {}
        self._mended: GraphInputs | None = None

    def local_state(self) -> dict[str, Tensor]:
        """The generator, and the number of rounds that trained it."""
        state = dict(self._generator.named_parameters()) | {"rounds": self._rounds}
        return add_prefix(KEPT, state)

    def receive(self, arrays: Arrays) -> None:
        """θ; while generators are trained also the gradient for the client's fGen and the others'
        packages."""
        shared = super().share()
        no_gradient = generator_part(self._template)
        numbers = sorted({name.split("/")[1] for name in arrays if name.startswith(PACKAGE)})
        expected = dict(shared)
        answer = {}
        trains_generator = any(name.startswith(GRADIENT) for name in arrays)
        if trains_generator:
            expected |= add_prefix(GRADIENT, no_gradient)
            answer = add_prefix(PACKAGE, self._template)
            for number in numbers:
                if not number.isdecimal() or int(number) == self.local.partition:
                    raise MessageError(
                        f"package of {number!r}; allowed are those of other clients, by number",
                        key="package",
                    )
                expected |= add_prefix(f"{PACKAGE}{number}/", self._template)
                answer |= add_prefix(f"{GRADIENT}{number}/", no_gradient)
        check_arrays(arrays, expected)
        load_arrays({name: arrays[name] for name in shared}, self.local.tensors)
        self._gradient = (
            self._tensors(select_prefix(arrays, GRADIENT)) if trains_generator else None
        )
        self._packages = {
            number: select_prefix(arrays, f"{PACKAGE}{number}/") for number in numbers
        }
        self._answer = answer
        self._mended = None

    def _tensors(self, arrays: Arrays) -> dict[str, Tensor]:
        return {
            name: torch.tensor(array).to(self._features.device) for name, array in arrays.items()
        }

    def train(self) -> Trained:
        """Train the generator, in its rounds, and then θ; loss and number of steps are those
        of θ.
        """
        if self._gradient is not None:
            self._train_generator(self._gradient)
            self._answer = self._package() | self._answers()
            self._mended = None
        return super().train()

    def _train_generator(self, gradient: dict[str, Tensor]) -> None:
        local = self.local
        config = self.local.config
        joint = generators.JointModel(self._generator, copy.deepcopy(local.model), self._impaired)
        optimizer = fresh_optimizer(joint, config)
        optimizer.learning_rate = local.optimizer.learning_rate
        # The gradient is that of a sum over at most `sample` nodes, and is scaled to all nodes with
        # hidden neighbours.
        lacking = int((self._impaired.missing > 0).sum())
        scale = (
            self.keys.cross * max(lacking / self.keys.sample, 1) / self._impaired.inputs.num_nodes
        )
        scaled = {name: scale * array for name, array in gradient.items()}
        term = Correction(self._fgen, scaled)
        # The gradient is valid where it was computed, so it is used in the first step only.
        for epochs, terms in ((1, [term]), (self.keys.epochs - 1, [])):
            if epochs:
                train(
                    joint,
                    local.task,
                    optimizer,
                    epochs,
                    terms=terms,
                    clip_norm=config.clip_norm,
                    loss=lambda _, batch: joint.loss(batch),
                )
        self._rounds += 1

    def _package(self) -> Arrays:
        """fGen, and its inputs for nodes with hidden neighbours: at most `sample` of them, drawn at
        random."""
        representations, missing = generators.sample_lacking(
            self._generator, self._impaired, self.keys.sample
        )
        content = {name: np.array(array) for name, array in self._template.items()}
        content |= {
            name: np.array(parameter.numpy(force=True)) for name, parameter in self._fgen.items()
        }
        content[REPRESENTATIONS][: len(missing)] = representations.numpy(force=True)
        content[MISSING][: len(missing)] = missing.numpy(force=True)
        return add_prefix(PACKAGE, content)

    def _answers(self) -> Arrays:
        """Gradients of the distances between the features that the others' fGens generate and this
        client's nodes."""
        answers: Arrays = {}
        fgen = copy.deepcopy(self._generator.features).eval()
        for number, content in self._packages.items():
            load_arrays(generator_part(content), dict(fgen.named_parameters()))
            inputs = self._tensors({name: content[name] for name in (REPRESENTATIONS, MISSING)})
            gradients = generators.feature_gradients(
                fgen, inputs[REPRESENTATIONS], inputs[MISSING], self._features
            )
            answers |= {
                f"{GRADIENT}{number}/{name}": gradient.numpy(force=True)
                for name, gradient in gradients.items()
            }
        return answers

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Cross-entropy on the mended graph, in which the client's own nodes come first."""
        logits = model(self._mend(batch.inputs))
        return F.cross_entropy(batch.select(logits), batch.labels)

    def _mend(self, inputs: GraphInputs) -> GraphInputs:
        """The mended graph; that of the client's own graph is computed once."""
        if self._rounds == 0:
            return inputs
        if inputs is not self._inputs:
            return generators.mend(self._generator, inputs, self._mending_seed)
        if self._mended is None:
            self._mended = generators.mend(self._generator, inputs, self._mending_seed)
        return self._mended

    def share(self) -> Arrays:
        """θ; while generators are trained also a package, and the gradients for the packages
        received."""
        return super().share() | self._answer

    @property
    def scored(self) -> nn.Module:
        """θ on the mended graph."""
        return generators.MendedModel(self.local.model, self._mend)


METHODS = {
    "fedsage+": Method(
        "fedavg on graphs with generated missing neighbours, learned across clients (Zhang et al.,"
        " 2021)",
        space="flat",
        tasks=("nodes",),
        keys={"fedsage": Keys},
        server=FedSageServer,
        client=FedSageClient,
    ),
}

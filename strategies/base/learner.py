"""The client half of a method: the contract of a learner. The base class trains as FedAvg does."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from torch import Tensor, nn

from curvfed.strategies.base.keys import Table
from curvfed.strategies.base.noise import Noise
from curvfed.strategies.base.optimizer import NamedOptimizer
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.statistics import HEAD, Arrays, Leaving
from curvfed.strategies.base.tensors import load_arrays
from curvfed.strategies.base.training import (
    GradientTerm,
    Proximal,
    Steps,
    Trained,
    make_optimizer,
    train,
    training_only,
)
from curvfed.strategies.wire.checks import check_arrays
from curvfed.tasks.task import Batch, IndependentExamples, Task


@dataclass(frozen=True, eq=False)
class Local:
    """Everything that a learner works with; set up once for a run.

    Attributes
    ----------
    config : RunKeys
        The keys of every run, with their defaults resolved.
    keys : Table
        The method's own keys.
    model : Module
    task : Task
    tensors : mapping of str to Tensor
        The model's parameters and running statistics, by name.
    shared : tuple of str
        Names of the tensors that the client shares.
    trained : mapping of str to Parameter
        The parameters that local training changes.
    optimizer : NamedOptimizer
        The optimiser of `trained`. The configuration says whether its moments are kept between
        rounds.
    partition : int
        The client's number.
    partitions : tuple of int
        The numbers of all clients, ascending; empty unless the learner has `lists_clients`.
    noise : Noise
        Source of the noise that hides values before they are sent; unseeded on a real node.
    data : ClientGraph, ClientImages or ClientPoints
        The client's data.
    private : Steps or None
        The steps of a run with a guard that hides training examples by them.
    leaving : Leaving
        The classes with figures that leave the client.

    Examples
    --------
    >>> from curvfed.strategies.base.optimizer import SGD
    >>> model = nn.Linear(2, 1)
    >>> tensors = dict(model.named_parameters())
    >>> keys, task = RunKeys(local_epochs=1), None  # the data of a client
    >>> optimizer = SGD(tensors, 0.1, 0.9, 0.0)
    >>> shared = ("weight",)
    >>> local = Local(keys, Table(), model, task, tensors, shared, tensors, optimizer)
    >>> Learner(local).share().keys(), local.shared_and_trained
    (dict_keys(['weight']), ['weight'])
    """

    config: RunKeys
    keys: Table
    model: nn.Module
    task: Task
    tensors: Mapping[str, Tensor]
    shared: tuple[str, ...]
    trained: Mapping[str, nn.Parameter]
    optimizer: NamedOptimizer
    partition: int = 0
    partitions: tuple[int, ...] = ()
    noise: Noise = field(default_factory=Noise)
    data: Any = None
    private: Steps | None = None
    leaving: Leaving = field(default_factory=Leaving)

    @property
    def shared_and_trained(self) -> list[str]:
        """Names of the parameters that are both shared and trained, in the model's order."""
        return [name for name in self.shared if name in self.trained]


@dataclass(frozen=True, eq=False)
class Tuned:
    """A personal model, made by fine-tuning.

    Attributes
    ----------
    model : Module
    loss : float or None
        The loss of the last pass; None if the model is not trained by steps.
    """

    model: nn.Module
    loss: float | None = None


class Learner:
    """FedAvg's local work (McMahan et al., 2017, Algorithm 1): epochs on the local loss from the
    parameters received.

    Parameters
    ----------
    local : Local
        With the model at its seeded start.

    Attributes
    ----------
    keys : Table
        The method's own keys; a subclass declares their type.
    round : int
        The current round, from 1; 0 before the first one.
    max_examples : float
        The client's largest weight in secure sums, by the other members' numbers of examples.
    own_model : bool
        Whether it keeps a personal model, or a part of one, and scores it instead of the shared
        model.
    sums_by_name : bool
        Whether its arrays have rows for single classes or entities; under secure sums those that
        few clients have stay at the client, by `Local.leaving`.
    lists_clients : bool
        Whether clients and aggregation get the numbers of all clients.
    reports_statistics : bool
        Whether it sends figures about the data; real nodes then need `share-statistics`.
    hides_records : bool
        Whether it uses the training examples in the steps of `run_epochs` alone, on a loss that
        is a mean over examples; then private steps protect the values that it shares. Each class
        says it itself: a subclass does not inherit it.
    epoch_factor : int
        Maximum number of epochs in a round, as a multiple of `local-epochs`; the server drops
        replies with more steps.
    closed_form : bool
        Whether its `fine_tune` can solve the classifier in closed form.

    Examples
    --------
    >>> class TwoPasses(Learner):
    ...     epoch_factor = 2
    ...     def train(self):
    ...         passes = 2 if self.round == 1 else 1
    ...         return run_epochs(self, self.local.config.local_epochs * passes)
    >>> TwoPasses.__mro__[1].__name__
    'Learner'
    """

    keys: Table
    round = 0
    max_examples = math.inf
    own_model = False
    sums_by_name = False
    lists_clients = False
    reports_statistics = False
    hides_records = True
    epoch_factor = 1
    closed_form = False

    def __init_subclass__(cls) -> None:
        # A subclass may use the examples in other ways.
        cls.hides_records = vars(cls).get("hides_records", False)

    def __init__(self, local: Local) -> None:
        self.local = local
        self.keys = local.keys

    def local_state(self) -> dict[str, Tensor]:
        """Tensors, by name, that the client keeps between rounds in addition to the model's
        personal parameters.

        They must be the tensors in use, changed in place and never replaced. Their values at
        construction are the values that a new client starts with.
        """
        return {}

    def receive(self, arrays: Arrays) -> None:
        """Load the arrays that the server sent for this round; the model is then ready to be scored
        before training.

        Raises
        ------
        MessageError
            If the arrays are not the expected ones.
        """
        check_arrays(arrays, Learner.share(self))  # a method may share more
        load_arrays(arrays, self.local.tensors)

    def train(self) -> Trained:
        """The round's local training; called only for a client with examples.

        Raises
        ------
        TrainingError
            If it diverges.
        """
        return run_epochs(self, self.local.config.local_epochs)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The loss of a batch, which a step decreases."""
        return self.local.task.loss(model, batch)

    def gradient_terms(self) -> list[GradientTerm]:
        """Terms that are added to the gradients of each step: by default the proximal terms of
        the keys of the run and of the method (`Table.proximal_terms`)."""
        local = self.local
        # In the first step the parameters are still those received, and the term and its gradient
        # are 0.
        if local.config.local_epochs * local.task.num_steps * self.epoch_factor <= 1:
            return []
        parameters = [local.trained[name] for name in local.shared_and_trained]
        of_run = local.config.proximal_terms()
        of_method = self.keys.proximal_terms()
        coefficients = [*of_run.values(), *of_method.values()]
        return [Proximal(parameters, coefficient) for coefficient in coefficients if coefficient]

    def fine_tune(self) -> Tuned:
        """Make a personal model from the parameters received; called only for a client with
        examples.

        Raises
        ------
        TrainingError
            If it diverges.
        """
        local = self.local
        config = self.local.config
        parameters = dict(local.model.named_parameters())
        chosen = {
            "trained": list(local.trained),
            "all": list(parameters),
            "head": [name for name in parameters if name.startswith(HEAD)],
        }[config.fine_tune]
        with training_only(parameters, chosen):
            optimizer = make_optimizer({name: parameters[name] for name in chosen}, config)
            optimizer.learning_rate = config.fine_tuning_rate
            loss = train(
                local.model,
                local.task,
                optimizer,
                config.fine_tune_epochs,
                clip_norm=config.clip_norm,
            )
        return Tuned(local.model, loss)

    def share(self) -> Arrays:
        """The arrays of the client's reply: by default the shared parameters, and nothing else."""
        return {name: self.local.tensors[name].numpy(force=True) for name in self.local.shared}

    @property
    def scored(self) -> nn.Module:
        """The model that the client's scores are computed with."""
        return self.local.model


def run_epochs(learner: Learner, epochs: int) -> Trained:
    """Passes over a client's examples by steps on the learner's `loss` and `gradient_terms`."""
    local = learner.local
    steps = epochs * local.task.num_steps
    settings: dict[str, Any] = {
        "terms": learner.gradient_terms(),
        "clip_norm": local.config.clip_norm,
        "loss": learner.loss,
    }
    if local.private is not None:
        # The client refuses a run with private steps if its examples are not independent.
        examples = cast(IndependentExamples, local.task)
        local.private.train(local.model, examples, local.optimizer, steps, **settings)
        return Trained(math.nan, steps)
    loss = train(local.model, local.task, local.optimizer, epochs, **settings)
    return Trained(loss, steps)


def fresh_optimizer(model: nn.Module, config: RunKeys) -> NamedOptimizer:
    """A new optimiser of the run's kind for all parameters of a model that require a gradient.

    Examples
    --------
    >>> model = nn.Linear(2, 1)
    >>> _ = model.bias.requires_grad_(False)
    >>> sorted(fresh_optimizer(model, RunKeys(optimizer="sgd", learning_rate=0.1)).state())
    ['momentum/weight']
    """
    trained = {
        name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad
    }
    return make_optimizer(trained, config)

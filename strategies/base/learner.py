"""The contract of a learner, and FedAvg's way, of which the others override a part."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from curvfed.strategies.base.average import Arrays
from curvfed.strategies.base.keys import Table
from curvfed.strategies.base.method import HEAD
from curvfed.strategies.base.noise import Noise
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.training import (
    GradientTerm,
    Optimizer,
    Proximal,
    Sparsity,
    Trained,
    make_optimizer,
    train,
    training_only,
)
from curvfed.strategies.wire.arrays import check_arrays
from curvfed.tasks.task import Batch, Task


@dataclass(frozen=True, eq=False)
class Local:
    """What a learner works with, set up once for a run.

    Attributes
    ----------
    config : RunKeys
        The keys of every run, settled.
    keys : Table
        The method's own.
    proximal, sparsity : float
        Coefficients of the proximal term on the shared parameters, and of the L1 norm of personal masks; 0 for none.
    model : Module
    task : Task
    tensors : mapping of str to Tensor
        All that the model computes with, by name: parameters, and running statistics.
    shared : tuple of str
        Names of what the client shares.
    trained : mapping of str to Parameter
        What local training changes.
    optimizer : Optimizer
        Of these. Its moments are fresh in every round, or live on, as the configuration says.
    partition : int
        The client's own number.
    partitions : tuple of int
        The numbers of all clients, ascending, where the method's row has them told; else none.
    noise : Noise
        For what is hidden before it leaves; by default, and on a real node, nobody knows it.
    """

    config: RunKeys
    keys: Table
    proximal: float
    sparsity: float
    model: nn.Module
    task: Task
    tensors: Mapping[str, Tensor]
    shared: tuple[str, ...]
    trained: Mapping[str, nn.Parameter]
    optimizer: Optimizer
    partition: int = 0
    partitions: tuple[int, ...] = ()
    noise: Noise = field(default_factory=Noise)


class Learner:
    """FedAvg's local work (McMahan et al., 2017, Algorithm 1): epochs on the local loss from the parameters received.

    Parameters
    ----------
    local : Local
        With the model at its seeded start.

    Attributes
    ----------
    keys : Table
        The method's own; a subclass says of what type they are.
    round : int
        The round that it trains in, 1, 2, …; 0 before.
    """

    keys: Table
    round = 0

    def __init__(self, local: Local) -> None:
        self.local, self.keys = local, local.keys

    def local_state(self) -> dict[str, Tensor]:
        """What lives on at the client between rounds beside the model's own personal parameters, by name.

        The tensors in use, to be changed in place, never replaced. Their values when the learner is made are their start.
        """
        return {}

    def receive(self, arrays: Arrays) -> None:
        """Take in what the server sent for this round; the model then is as it is to be scored before training.

        Raises
        ------
        MessageError
            If it is not what this learner awaits.
        """
        check_arrays(arrays, self.share())
        load_arrays(arrays, self.local.tensors)

    def train(self) -> Trained:
        """The round's local training, of a client with examples.

        Raises
        ------
        TrainingError
            If it diverges.
        """
        return self.run_epochs(self.local.config.local_epochs)

    def run_epochs(self, epochs: int) -> Trained:
        """Epochs of steps on `loss` and `pulls`."""
        local = self.local
        loss = train(
            local.model, local.task, local.optimizer, epochs, self.gradient_terms(), local.config.clip_norm, self.loss
        )
        return Trained(loss, epochs * local.task.num_steps)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """What a step on a batch lowers."""
        return self.local.task.loss(model, batch)

    def gradient_terms(self) -> list[GradientTerm]:
        """What is added to the gradients of a step: the terms that the method's row and its keys ask for."""
        local = self.local
        found: list[GradientTerm] = []
        if local.sparsity:
            masks = [parameter for name, parameter in local.trained.items() if name.endswith(".mask")]
            found.append(Sparsity(masks, local.sparsity))
        # At the first step the parameters are where they were received, and the term and its gradient are 0.
        if local.proximal and local.config.local_epochs * local.task.num_steps > 1:
            found.append(Proximal([local.trained[name] for name in self.shared_and_trained], local.proximal))
        return found

    @property
    def shared_and_trained(self) -> list[str]:
        """Names of the parameters that are both, in the model's order."""
        return [name for name in self.local.shared if name in self.local.trained]

    def fine_tune(self) -> float | None:
        """From the parameters received to a personal model, `tuned`, of a client with examples.

        Returns
        -------
        float or None
            The loss of the last pass, where it is trained by steps.

        Raises
        ------
        TrainingError
            If it diverges.
        """
        local, config = self.local, self.local.config
        parameters = dict(local.model.named_parameters())
        chosen = {
            "trained": list(local.trained),
            "all": list(parameters),
            "head": [name for name in parameters if name.startswith(HEAD)],
        }[config.fine_tune]
        with training_only(parameters, chosen):
            optimizer = make_optimizer({name: parameters[name] for name in chosen}, config)
            return train(local.model, local.task, optimizer, config.fine_tune_epochs, clip_norm=config.clip_norm)

    @property
    def tuned(self) -> nn.Module:
        """The model that `fine_tune` leaves; without it the shared one, as received."""
        return self.local.model

    def share(self) -> dict[str, NDArray[Any]]:
        """What the client answers with: the shared parameters, and nothing else."""
        return {name: to_numpy(self.local.tensors[name]) for name in self.local.shared}

    @property
    def scored(self) -> nn.Module:
        """The model that the client's scores are of."""
        return self.local.model

    @staticmethod
    def restored(model: nn.Module, kept: Arrays) -> nn.Module:
        """That model from one with the shared parameters and what was kept; for predictions after the run.

        Raises
        ------
        KeyError
            If something was not kept.
        """
        return model


def fresh_optimizer(model: nn.Module, config: RunKeys) -> Optimizer:
    """An optimiser of all of a model's parameters that are trained, as the run's."""
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    return make_optimizer(trained, config)


@torch.no_grad()
def load_arrays(arrays: Mapping[str, NDArray[Any]], tensors: Mapping[str, Tensor]) -> None:
    """Copy arrays into the tensors of the same names."""
    for name, array in arrays.items():
        tensor = tensors[name].detach()
        if tensor.device.type == "cpu":
            np.copyto(tensor.numpy(), array)
        else:
            tensor.copy_(torch.tensor(array))


def to_numpy(tensor: Tensor) -> NDArray[Any]:
    """A tensor as an array, without a copy where it is on the CPU."""
    array: NDArray[Any] = tensor.detach().cpu().numpy()
    return array


def select_prefix(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def clones(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Each tensor as it is now."""
    return [tensor.detach().clone() for tensor in tensors]

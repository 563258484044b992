"""What a local loop asks of a task, whatever its data are."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor, nn


class Batch(NamedTuple):
    """The examples of one step.

    Attributes
    ----------
    inputs : object
        What the model is called with.
    labels : Tensor, (n,), int64
        Of the examples.
    rows : Tensor, (n,), int64, or None
        Which rows of the model's output are theirs; None for all, in order.
    """

    inputs: Any
    labels: Tensor
    rows: Tensor | None = None

    def of(self, output: Tensor) -> Tensor:
        """The examples' rows of an output, or of features, of the model."""
        return output if self.rows is None else output[self.rows]


class Task(ABC):
    """One client's data on its device.

    Attributes
    ----------
    metric : str
        "accuracy" or "roc_auc".
    num_examples : int
        Examples to train on: the client's weight in an average.
    train_labels : Tensor, (num_examples,), int64
        Their labels, in the federation's numbering.
    """

    metric: str
    num_examples: int
    train_labels: Tensor

    @property
    @abstractmethod
    def num_steps(self) -> int:
        """Steps of one pass."""

    @abstractmethod
    def batches(self, model: nn.Module) -> Iterator[Batch]:
        """One pass over the training examples, each once, in the batches of its steps.

        Which examples make a step is drawn from the generator that dropout draws from.
        """

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The mean local loss over a batch, of shape ()."""

    def losses(self, model: nn.Module) -> Iterator[Tensor]:
        """One pass: the loss of each step, to be stepped on in turn."""
        for batch in self.batches(model):
            yield self.loss(model, batch)

    @abstractmethod
    def scores(self, model: nn.Module) -> dict[str, float]:
        """Score the validation and the test examples, dropout off.

        Returns
        -------
        dict
            "val" and "test", by the data set's own metric, and where that is not accuracy "accuracy", of the test
            examples. What is not defined is left out.
        """

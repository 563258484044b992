"""What a local loop asks of a task, whatever its data are."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

from torch import Tensor, nn


class Task(ABC):
    """One client's data on its device.

    Attributes
    ----------
    metric : str
        "accuracy" or "roc_auc".
    num_examples : int
        Examples to train on: the client's weight in an average.
    """

    metric: str
    num_examples: int

    @property
    @abstractmethod
    def num_steps(self) -> int:
        """Steps of one pass."""

    @abstractmethod
    def losses(self, model: nn.Module) -> Iterator[Tensor]:
        """One pass over the training examples: the mean loss of each step, to be stepped on in turn.

        Which examples make a step is drawn from the generator that dropout draws from.
        """

    @abstractmethod
    def scores(self, model: nn.Module) -> dict[str, float]:
        """Score the validation and the test examples, dropout off.

        Returns
        -------
        dict
            "val" and "test", by the data set's own metric, and where that is not accuracy "accuracy", of the test
            examples. What is not defined is left out.
        """

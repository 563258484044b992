"""What the server makes of the clients' shared parameters: the contract, and the average."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from curvfed.strategies.base.average import Arrays, Update, split_average

__all__ = ["Aggregation", "Average", "Replies", "Update", "reweighted"]

Replies = Mapping[int, Update]
"""Partition -> update, in ascending order of the partitions."""


def reweighted(replies: Replies, weights: str) -> Replies:
    """The replies as an aggregation is to weigh them, which goes by numbers of examples.

    Parameters
    ----------
    replies : mapping of int to Update
    weights : str
        "examples": as they are; "uniform": as if every client with examples had one.
    """
    if weights == "examples":
        return replies
    return {partition: replace(update, examples=min(update.examples, 1)) for partition, update in replies.items()}


class Aggregation(ABC):
    """The server's side of a method: the parameters that every client starts a round from.

    Attributes
    ----------
    is_global : bool
        Whether what it sends holds one model for all.
    """

    is_global = False

    def set_clients(self, partitions: Sequence[int]) -> None:
        """Be told who all clients are, ascending, before anything else; where the method's row has them told, else none."""
        return

    @abstractmethod
    def sent_to(self, partition: int) -> Arrays:
        """The shared parameters that this client starts from. The same object for clients that start from the same."""

    def expected_reply(self, partition: int) -> Arrays:
        """Names, shapes and dtypes of the arrays that this client's reply must have; those that it was sent."""
        return self.sent_to(partition)

    def global_model(self) -> Arrays:
        """The shared parameters of the one model for all; where there is none, those of some client."""
        return self.sent_to(0)

    @abstractmethod
    def aggregate(self, replies: Replies) -> None:
        """Take in the good replies of a round.

        Raises
        ------
        AggregationError
            If a reply has other parameters than the shared ones.
        """

    @abstractmethod
    def state(self) -> Arrays:
        """All that the next round depends on, as named arrays; what checkpoints and `model.safetensors` hold."""

    @abstractmethod
    def load(self, state: Arrays) -> None:
        """Inverse of `state`."""

    def figures(self) -> dict[str, float]:
        """What the summary should tell of it, by name."""
        return {}

    def round_figures(self) -> dict[str, Any]:
        """Cells for the row of the round that was aggregated last in `rounds.csv`, by column.

        A column that the table does not have is added to it: its name has letters, digits and . _ -. Those in which the run
        writes its own figures, such as `loss`, stay as they are.
        """
        return {}

    def weights(self) -> dict[int, float]:
        """What every client of that round weighed, where it is not its share of the examples; by partition."""
        return {}


class Average(Aggregation):
    """One model for all: the average weighted by numbers of examples (`curvfed.strategies.base.average`)."""

    is_global = True

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays

    def sent_to(self, partition: int) -> Arrays:
        """The average, for everybody."""
        return self._arrays

    def aggregate(self, replies: Replies) -> None:
        """Average what came."""
        self._arrays = split_average(self._arrays, list(replies.values()))

    def state(self) -> Arrays:
        """The average alone."""
        return dict(self._arrays)

    def load(self, state: Arrays) -> None:
        """Go on from a stored average."""
        self._arrays = dict(state)

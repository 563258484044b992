"""Callbacks: the actions of a run around its rounds. Each is a class of this folder, or of another
package under an entry point of the group `curvfed.callbacks`.

All of them have one interface, whether the server sees single contributions or only their sum.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from curvfed.server_app.answer import Answer
    from curvfed.server_app.run import Run
    from curvfed.strategies.base.aggregation import Replies


@dataclass(frozen=True)
class Round:
    """A completed round.

    Attributes
    ----------
    number : int
        From 1; 0 for a run without rounds.
    clients : sequence of int
        Partitions that were asked to train.
    answer : Answer or None
        Their contributions and scores; None for a run without rounds.
    row : mapping of str to object
        Its row in `rounds.csv`.
    """

    number: int
    clients: Sequence[int]
    answer: "Answer | None"
    row: Mapping[str, Any]


class Callback:
    """Does nothing; a callback overrides the steps that it takes part in.

    Parameters
    ----------
    run : Run
        The run: configuration, clients, model, state, run directory.

    Examples
    --------
    >>> class Halve(Callback):
    ...     def after_round(self, completed):
    ...         if completed.number == 5:
    ...             self.run.stop_after(6)
    >>> Halve.figures is Callback.figures
    True
    """

    def __init__(self, run: "Run") -> None:
        self.run = run

    def begin(self) -> None:
        """Called once the run directory may be written, before the first round: for phases that
        come once."""

    def before_round(self, number: int) -> None:
        """Called before the clients of a round are asked."""

    def contributions(self, number: int, replies: "Replies") -> "Replies":
        """The contributions of a round that the aggregation combines; by default all. Those that a
        callback leaves out or changes are so for the next one."""
        return replies

    def figures(self, number: int, answer: "Answer") -> Mapping[str, Any]:
        """Figures for the row of a round in `rounds.csv`, after the aggregation; columns that are
        filled already are not overwritten."""
        return {}

    def after_round(self, completed: Round) -> None:
        """Called when the row of a round is written; also once for a run without rounds. Changes of
        the model are made here: the checkpoint that follows has them."""

    def stored(self, completed: Round) -> None:
        """Called when the checkpoint of a round is stored: for progress. Changes of the run's state
        that are made here are lost if it is resumed."""

    def end(self) -> None:
        """Called after the last round, when the model is stored."""


STEPS = ("begin", "before_round", "contributions", "figures", "after_round", "stored", "end")
"""The steps of a run that callbacks take part in."""


def by_step(callbacks: Iterable[Callback]) -> dict[str, list[Callback]]:
    """The callbacks that take part in each step, in their order."""
    callbacks = list(callbacks)
    taking_part = {}
    for step in STEPS:
        unused = getattr(Callback, step)
        taking_part[step] = [item for item in callbacks if getattr(type(item), step) is not unused]
    return taking_part

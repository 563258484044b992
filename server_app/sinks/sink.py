"""What a sink is: a place where the figures of a run go besides its directory."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from curvfed.strategies.base.dotted import Scalar


class Sink(ABC):
    """One place. Whatever it raises ends the sink, not the run."""

    @abstractmethod
    def start(self, config: Mapping[str, Scalar]) -> None:
        """Take up the run: a new one, or one that is resumed, whose rounds so far all follow once more."""

    @abstractmethod
    def round(self, number: int, figures: Mapping[str, float]) -> None:
        """The figures of a round by `phase/column`; what they say is final."""

    @abstractmethod
    def end(self, rounds: int, figures: Mapping[str, float], texts: Mapping[str, str]) -> None:
        """What the summary says after so many rounds, by dotted name; nothing follows. A text is `status`."""

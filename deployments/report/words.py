"""What readers are told for keys, values and figures."""

from collections.abc import Mapping, Sequence
from typing import Any

from curvfed.deployments.report.quantities import quantity
from curvfed.deployments.report.selection import Place
from curvfed.deployments.sweep.plan import SUPERNODES
from curvfed.strategies.base.dotted import dotted

Line = tuple[Place, str]
"""Which runs, and which of their figures where the panel has several."""

KEY_WORDS = {
    "method": "method", "dataset": "data set", SUPERNODES: "clients", "alpha": "α", "local-epochs": "local epochs",
    "learning-rate": "learning rate", "embedding-dim": "dimension", "fraction-train": "share of clients a round",
    "hyperfed.margin": "margin", "hyperfed.slope": "slope", "hull.epsilon": "ε",
}  # fmt: skip
"""What readers call a key; the others are called by their name, without its table."""


class Names:
    """What readers are told: the names of a table or a figure, else words that hold for all."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = {str(key): str(value) for key, value in dotted(names).items()}

    def key(self, key: str) -> str:
        """A key of the run config."""
        return self._names.get(key, KEY_WORDS.get(key, key.rpartition(".")[2].replace("-", " ")))

    def value(self, value: Any) -> str:
        """A value alone."""
        text = f"{value:g}" if isinstance(value, float) else str(value)
        text = text.lower() if isinstance(value, bool) else text
        return self._names.get(text, text)

    def values(self, place: Place) -> str:
        """The values of a place, for an axis."""
        return ", ".join(self.value(value) for _, value in place)

    def told(self, key: str, value: Any) -> str:
        """A value and, where it is a number, of what: names speak for themselves."""
        words = self.value(value)
        if isinstance(value, str) or words in self._names.values():
            return words
        return f"{words} clients" if key == SUPERNODES else f"{self.key(key)} = {words}"

    def place(self, place: Place) -> str:
        """Values and of what they are; one whose name is empty is left out."""
        return ", ".join(words for key, value in place if (words := self.told(key, value)))

    def figure(self, column: str) -> str:
        """A figure in words."""
        return self._names.get(column, quantity(column).words)

    def axis(self, columns: Sequence[str]) -> str:
        """What all of these figures are, with the unit: the words that their names share."""
        kinds = [quantity(column) for column in columns]
        split = [kind.words.replace(",", "").split() for kind in kinds]
        shared = " ".join(word for word in split[0] if all(word in one for one in split))
        words = self.figure(columns[0]) if len(columns) == 1 else shared
        units = {kind.unit for kind in kinds}
        unit = units.pop() if len(units) == 1 else ""
        return f"{words} ({unit})".strip() if unit else words or ", ".join(map(self.figure, columns))

    def line(self, line: Line) -> str:
        """For a legend."""
        place, column = line
        return ", ".join(([self.place(place)] if place else []) + ([self.figure(column)] if column else []))

"""What readers are told for keys, values and figures."""

from collections.abc import Mapping, Sequence
from typing import Any

from curvfed.deployments.report.quantities import quantity
from curvfed.deployments.report.render import key_words
from curvfed.deployments.report.selection import Place
from curvfed.deployments.sweep.plan import SUPERNODES
from curvfed.strategies.base.dotted import dotted

Line = tuple[Place, str]
"""Which runs, and which of their figures where the panel has several."""


class Names:
    """What readers are told for keys, values and figures: the spec's `names`, else what tables say too."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._names = {str(key): str(value) for key, value in dotted(spec.get("names", {})).items()}

    def key(self, key: str) -> str:
        """A key of the run config."""
        return self._names.get(key, key_words(key))

    def keys(self, keys: Sequence[str]) -> str:
        """What an axis has."""
        return ", ".join(map(self.key, keys))

    def value(self, value: Any) -> str:
        """A value alone."""
        text = f"{value:g}" if isinstance(value, float) else str(value)
        text = text.lower() if isinstance(value, bool) else text
        return self._names.get(text, text)

    def place(self, place: Place) -> str:
        """Values and, where they are numbers, of what: names speak for themselves, and an empty one is left out."""
        return ", ".join(words for key, value in place if (words := self._told(key, value)))

    def figure(self, column: str) -> str:
        """A figure in words."""
        return self._names.get(column, quantity(column).words)

    def axis(self, columns: Sequence[str]) -> str:
        """What all of these figures are, with the unit: the words that their names share."""
        first, *others = (quantity(column) for column in columns)
        if not others:
            words = self.figure(columns[0])
        else:
            shared = [set(_letters(other.words)) for other in others]
            words = " ".join(word for word in _letters(first.words) if all(word in one for one in shared))
        units = {first.unit, *(other.unit for other in others)}
        unit = units.pop() if len(units) == 1 else ""
        return f"{words} ({unit})".strip() if unit else words or ", ".join(map(self.figure, columns))

    def line(self, line: Line) -> str:
        """For a legend."""
        place, column = line
        return ", ".join(([self.place(place)] if place else []) + ([self.figure(column)] if column else []))

    def _told(self, key: str, value: Any) -> str:
        words = self.value(value)
        if isinstance(value, str) or words in self._names.values():
            return words
        return f"{words} clients" if key == SUPERNODES else f"{self.key(key)} = {words}"


def _letters(words: str) -> list[str]:
    return words.replace(",", "").split()

"""What a page of many runs is about: the planned runs, the tables and figures that a sweep file
asks for, and the words in which they show keys, values and figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from curvfed.strategies.base.figures import find
from curvfed.strategies.base.keys import Scalar, dotted
from curvfed.strategies.config.run_config import defaults

SUPERNODES = "num-supernodes"
"""The number of clients, which is no key of the run config."""

Place = tuple[tuple[str, Any], ...]
"""Keys and values that tell where a run stands in a table or a figure: its row, its panel, its
line."""

FIGURE = "figure"
"""The key of a place whose value is a figure: a column of `results.sqlite`."""

KEY_WORDS = {
    "method": "method",
    "dataset": "data set",
    SUPERNODES: "clients",
    "alpha": "α",
    "local-epochs": "local epochs",
    "learning-rate": "learning rate",
    "embedding-dim": "dimension",
    "fraction-train": "share of clients a round",
    "hyperfed.margin": "margin",
    "hyperfed.slope": "slope",
    "hull.epsilon": "ε",
}
"""Words for keys of the run config; any other key is shown by its name without its table."""


@dataclass(frozen=True)
class Planned:
    """One run of a sweep.

    Attributes
    ----------
    settings : mapping
        The keys that the sweep file gives, and `num-supernodes`.
    name : str
        The name of the run directory: method, data set and a hash of the whole configuration.
        Equal configurations are one run, whichever sweeps they stand in.
    refused : str
        Why the configuration cannot run; empty if it can.
    paths : mapping
        The settings that are relative paths, made absolute, since a run may be made in another
        folder.
    """

    settings: Mapping[str, Scalar]
    name: str
    refused: str = ""
    paths: Mapping[str, Scalar] = field(default_factory=dict)

    def value(self, key: str) -> Scalar:
        """The value of a key, which may be its default."""
        return self.settings[key] if key in self.settings else defaults().get(key, "")


@dataclass(frozen=True)
class Plan:
    """A sweep at one scale.

    Attributes
    ----------
    path : Path
        The sweep file, for error texts and for the names of the files that are written.
    scale : str
        Empty if the sweep has no scales.
    title, source, about : str
    runs : tuple of Planned
        Each run once.
    tables, figures : tuple of mapping
        As in the file.
    """

    path: Path
    scale: str
    title: str
    source: str
    about: str
    runs: tuple[Planned, ...]
    tables: tuple[Mapping[str, Any], ...] = ()
    figures: tuple[Mapping[str, Any], ...] = ()


class Names:
    """The words for keys, values and figures: those that a table or a figure sets by `names`, else
    the common ones."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = {str(key): str(value) for key, value in dotted(names).items()}

    def key(self, key: str) -> str:
        """Name a key of the run config."""
        return self._names.get(key, KEY_WORDS.get(key, key.rpartition(".")[2].replace("-", " ")))

    def keys(self, keys: Sequence[str]) -> str:
        """Name the keys of an axis."""
        return ", ".join(map(self.key, keys))

    def value(self, value: Any) -> str:
        """Name a value alone."""
        text = f"{value:g}" if isinstance(value, float) else str(value)
        text = text.lower() if isinstance(value, bool) else text
        return self._names.get(text, text)

    def values(self, place: Place) -> str:
        """Name the values of a place, for a tick."""
        return ", ".join(self.value(value) for _, value in place)

    def setting(self, key: str, value: Any) -> str:
        """Name a value, and a number by its key too: "fedavg", "α = 0.5", "10 clients"."""
        words = self.value(value)
        if key == FIGURE:
            return self.figure(value)
        if isinstance(value, str) or words in self._names.values():
            return words
        return f"{words} clients" if key == SUPERNODES else f"{self.key(key)} = {words}"

    def place(self, place: Place) -> str:
        """Name all settings of a place, without those whose name is empty."""
        return ", ".join(words for key, value in place if (words := self.setting(key, value)))

    def figure(self, column: str) -> str:
        """Name a figure."""
        return self._names.get(column, find(column).words)

    def axis(self, columns: Sequence[str]) -> str:
        """Name an axis of these figures by the words that their names share, with the unit that
        they share."""
        kinds = [find(column) for column in columns]
        split = [kind.words.replace(",", "").split() for kind in kinds]
        shared = " ".join(word for word in split[0] if all(word in words for words in split))
        words = self.figure(columns[0]) if len(columns) == 1 else shared
        units = {kind.unit for kind in kinds}
        unit = units.pop() if len(units) == 1 else ""
        return (
            f"{words} ({unit})".strip() if unit else words or ", ".join(map(self.figure, columns))
        )

"""What a sweep file of a paper asks for in a table or a figure: the parts of a spec that choose
runs and tell them apart, and the words for keys, values and figures."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from curvfed.extensions.sweeps.commands.pages.selection import FIGURE, Run
from curvfed.extensions.sweeps.commands.pages.study import (
    SUPERNODES,
    Place,
    key_words,
    value_words,
)
from curvfed.strategies.base.figures import find
from curvfed.strategies.base.keys import dotted
from curvfed.strategies.config.run_config import defaults

KEYS = {*defaults(), SUPERNODES}
"""Keys of a run."""


class NothingToDraw(Exception):
    """No completed run has the data of a figure."""


class Names:
    """The words for keys, values and figures: those that a table or a figure sets by `names`, else
    the common ones."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = {str(key): str(value) for key, value in dotted(names).items()}

    def key(self, key: str) -> str:
        """Name a key of the run config."""
        return self._names.get(key, key_words(key))

    def keys(self, keys: Sequence[str]) -> str:
        """Name the keys of an axis."""
        return ", ".join(map(self.key, keys))

    def value(self, value: Any) -> str:
        """Name a value alone."""
        text = value_words(value)
        return self._names.get(text, text)

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
        split_words = [kind.words.replace(",", "").split() for kind in kinds]
        shared = [word for word in split_words[0] if all(word in words for words in split_words)]
        words = self.figure(columns[0]) if len(columns) == 1 else " ".join(shared)
        units = {kind.unit for kind in kinds}
        unit = units.pop() if len(units) == 1 else ""
        if unit:
            return f"{words} ({unit})".strip()
        return words or ", ".join(map(self.figure, columns))


@dataclass(frozen=True)
class Spec:
    """What a sweep file asks for in a table or a figure.

    Attributes
    ----------
    parts : mapping
        By name, such as `where` or `panels`.
    source : str
        For error texts.
    """

    parts: Mapping[str, Any]
    source: str

    def get(self, part: str, default: Any) -> Any:
        """A part, or its default."""
        return self.parts.get(part, default)

    def error(self, text: str) -> ValueError:
        """An error that names the source."""
        return ValueError(f"{self.source}: {text}")

    def check_parts(self, allowed: set[str]) -> None:
        """Refuse parts that nothing reads.

        Raises
        ------
        ValueError
        """
        if unknown := sorted(set(self.parts) - allowed):
            raise self.error(f"{unknown[0]!r} is not known; allowed are {sorted(allowed)}")

    @cached_property
    def names(self) -> Names:
        """The words for keys, values and figures."""
        return Names(self.get("names", {}))

    def keys(self, part: str, default: Sequence[str] = (), others: Sequence[str] = ()) -> list[str]:
        """A part that names one key of the run config or a list of keys, without `others`, which
        tell something else apart.

        Raises
        ------
        ValueError
            For an unknown key.
        """
        names = list(map(str, as_list(self.get(part, list(default)))))
        self._check_keys(names)
        return [key for key in names if key not in others]

    def _check_keys(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in KEYS:
                raise self.error(f"{name!r} is not a key of the run config")

    def columns(self, part: str) -> list[tuple[str, ...]]:
        """The figures that a part names: those of a panel for each, or for each inner list.

        Raises
        ------
        ValueError
            If there are none.
        """
        panels = [tuple(map(str, as_list(names))) for names in as_list(self.get(part, []))]
        if not panels or not all(panels):
            raise self.error(f"a figure of kind {self.parts['kind']} needs {part}")
        return panels

    def matching(self, runs: Sequence[Run]) -> list[Run]:
        """The runs that have the values of `where`, a table of keys with a value or a list of
        values.

        Raises
        ------
        ValueError
            If `where` names an unknown key, or no run is left.
        """
        where = dotted(self.get("where", {}))
        self._check_keys(where)
        matches = [
            run
            for run in runs
            if all(run.value(key) in as_list(value) for key, value in where.items())
        ]
        if not matches:
            raise self.error(f"no run of the sweep has {where}")
        return matches

    def grouped(self, runs: Iterable[Run], keys: Sequence[str]) -> dict[Place, list[Run]]:
        """Group runs by the values of these keys, in the order of the sweep.

        Raises
        ------
        ValueError
            If the runs of a group differ in more than their seed, so that their mean would mix
            different settings.
        """
        groups: dict[Place, list[Run]] = {}
        for run in runs:
            groups.setdefault(run.place(keys), []).append(run)
        for group in groups.values():
            for key in sorted({key for run in group for key in run.planned.settings} - {"seed"}):
                values = sorted({str(run.value(key)) for run in group})
                if len(values) > 1:
                    raise self.error(f"runs of one place differ in {key} ({', '.join(values)})")
        return groups


def as_list(value: Any) -> list[Any]:
    """A part of a spec that is one value or a list of them."""
    return value if isinstance(value, list) else [value]


def split(frame: pd.DataFrame, keys: Sequence[str]) -> Iterator[tuple[Place, pd.DataFrame]]:
    """Split a frame into the parts with equal values of these keys, in the order in which they
    appear."""
    if not keys:
        yield (), frame
        return
    for values, part in frame.groupby(list(keys), sort=False):
        yield tuple(zip(keys, values, strict=True)), part

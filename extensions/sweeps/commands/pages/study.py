"""The subject of a page of many runs: the planned runs, and words for their keys and values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from curvfed.strategies.base.keys import Scalar, kebab
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.shared_tables import SHARED
from curvfed.strategies.config.run_config import defaults
from curvfed.strategies.methods import table_of
from curvfed.tasks.amounts import amount
from curvfed.tasks.kinds import KINDS

SUPERNODES = "num-supernodes"
"""The number of clients, which is no key of the run config."""

Place = tuple[tuple[str, Any], ...]
"""Keys and values that tell a configuration from the others."""

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


@cache
def data_keys() -> tuple[str, ...]:
    """Keys that set the data and the number of clients: configurations that differ in one are not
    ranked against each other."""
    of_tasks = {table: table_of(table) for kind in KINDS.values() for table in kind.tables}
    keys = [SUPERNODES, *map(kebab, RunKeys.of_data)]
    for table, fields in (SHARED | of_tasks).items():
        keys += [f"{table}.{kebab(field)}" for field in fields.of_data]
    return tuple(keys)


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
    data_digest : str
        Of the content of the user's own files; empty without any.
    unread : frozenset of str
        The keys that the run does not read.
    """

    settings: Mapping[str, Scalar]
    name: str
    refused: str = ""
    paths: Mapping[str, Scalar] = field(default_factory=dict)
    data_digest: str = ""
    unread: frozenset[str] = frozenset()

    def value(self, key: str) -> Scalar:
        """The value of a key, which may be its default; empty if the run does not read it."""
        if key in self.unread:
            return ""
        if key in self.settings:
            return self.settings[key]
        return defaults().get(key, "")


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
    """

    path: Path
    scale: str
    title: str
    source: str
    about: str
    runs: tuple[Planned, ...]


def key_words(key: str) -> str:
    """Name a key of the run config."""
    return KEY_WORDS.get(key, key.rpartition(".")[2].replace("-", " "))


def value_words(value: Any) -> str:
    """Name a value alone."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text.lower() if isinstance(value, bool) else text


def setting_words(key: str, value: Any) -> str:
    """Name a value, and a number by its key too: "fedavg", "α = 0.5", "10 clients"."""
    words = value_words(value)
    if isinstance(value, str):
        return words
    if key == SUPERNODES:
        return amount(words, "client")
    return f"{key_words(key)} = {words}"


def place_words(place: Place) -> str:
    """Name the settings of a configuration, without empty ones."""
    return ", ".join(words for setting in place if (words := setting_words(*setting)))

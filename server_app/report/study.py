"""What a page of many runs is about: the runs that are planned, and the tables and figures that a
sweep file asks for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from curvfed.strategies.base.dotted import Scalar
from curvfed.strategies.config.all_keys import defaults

SUPERNODES = "num-supernodes"
"""The number of clients, which is no key of the run config."""


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

"""Sinks: places besides the run directory that receive the figures of a run.

They are classes of the group `curvfed.sinks`, by name. An extension adds what feeds them, a
subclass of `Sinks`, to the group `curvfed.sink-feeds`.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.strategies.base.keys import Scalar
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.errors import ConfigError
from curvfed.tasks import plugins

FEEDS = "sink-feeds"
"""The group of entry points, without `curvfed.`."""


class Sink:
    """A sink of a run. An exception ends the sink, not the run.

    Parameters
    ----------
    directory : RunDirectory
    """

    package: ClassVar[str] = ""
    """The package that it needs, which an extra of curvfed of the same name installs."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory

    @classmethod
    def check(cls, config: RunConfig) -> None:
        """Raise any error, before a new run, if the sink will not open, such as for a server that
        does not answer; nothing is sent or made."""

    def start(self, config: Mapping[str, Scalar]) -> None:
        """Begin a run; a resumed run then sends all its rounds so far again."""

    def round(self, number: int, figures: Mapping[str, float]) -> None:
        """Receive the final figures of a round by `phase/column`."""

    def end(self, rounds: int, figures: Mapping[str, float], texts: Mapping[str, str]) -> None:
        """Receive the summary after this number of rounds, by dotted names; the last call."""


class Sinks:
    """The sinks of a run; this class has none.

    Parameters
    ----------
    directory : RunDirectory

    Attributes
    ----------
    names : tuple of str
        The configured sinks.
    """

    names: tuple[str, ...] = ()

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory

    @classmethod
    def check_installed(cls, sinks: str) -> None:
        """Look for the sinks of a configuration, and their packages, without importing these.

        Raises
        ------
        ConfigError
            If there is no such sink, or its package is missing.
        """
        if sinks:
            raise ConfigError(
                f'sinks = "{sinks}": allowed here is ""{plugins.absent_hint(FEEDS)}',
                key="no-such-sink",
            )

    @classmethod
    def check(cls, config: RunConfig) -> None:
        """As `check_installed`, and for a new run ask for the servers; nothing is sent or made.

        Raises
        ------
        ConfigError
            Also if a server does not answer, or the account lacks access.
        """
        cls.check_installed(config.sinks)

    def start(self) -> None:
        """Open the sinks, and send the rounds in the run directory, which a resumed run does not
        repeat.

        Raises
        ------
        ConfigError
            If a sink does not open in a new run.
        """

    def add(self, row: Mapping[str, Any]) -> None:
        """Keep a row of `rounds.csv` until `flush` sends it."""

    def flush(self) -> None:
        """Send the rows so far; the run's checkpoint includes them, so none is sent twice."""

    def end(self, summary: Mapping[str, Any]) -> None:
        """Send the summary and close."""


def sinks_class() -> type[Sinks]:
    """The class of a run's sinks: the one that an extension adds, or `Sinks`."""
    for name in plugins.additions(FEEDS):
        added: type[Sinks] = plugins.addition(FEEDS, name)
        return added
    return Sinks

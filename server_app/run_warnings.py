"""The interface of warnings about a run's figures. The log has each sentence once, summary.json and
the report have all. Extensions and other packages add classes by the group `curvfed.warnings`."""

from typing import ClassVar

from curvfed.server_app.directory.checkpoint import State
from curvfed.server_app.federation import Federation
from curvfed.strategies.config.run_config import RunConfig

WARNINGS = "warnings"
"""The group of the classes that warn, each a `RunWarnings`."""


class RunWarnings:
    """Sentences by key that say why the figures of a run may mislead; here none.

    Parameters
    ----------
    config : RunConfig
    federation : Federation
    """

    logged_at_once: ClassVar[frozenset[str]] = frozenset()
    """Keys of warnings with events that are logged one by one, when they happen."""

    def __init__(self, config: RunConfig, federation: Federation) -> None:
        """Find the warnings of the configuration and of the clients' data."""

    def so_far(self, state: State) -> dict[str, str]:
        """The warnings of the run so far."""
        return {}

    def at_the_end(self, state: State) -> dict[str, str]:
        """The warnings of a run that ends."""
        return {}

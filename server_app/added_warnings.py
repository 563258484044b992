"""The warnings of all classes that extensions and other packages add."""

from curvfed.server_app.directory.checkpoint import State
from curvfed.server_app.federation import Federation
from curvfed.server_app.run_warnings import WARNINGS, RunWarnings
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.run_log import log
from curvfed.tasks import plugins


class AddedWarnings:
    """The sentences of all added classes. A class that fails is logged and left out from then on: a
    run is worth more than its warnings.

    Parameters
    ----------
    config : RunConfig
    federation : Federation
    """

    def __init__(self, config: RunConfig, federation: Federation) -> None:
        self._sources: dict[str, RunWarnings] = {}
        for name, kind in plugins.usable(WARNINGS, type):
            try:
                source = kind(config, federation)
            except Exception as error:
                _log(name, error)
                continue
            if isinstance(source, RunWarnings):
                self._sources[name] = source
            else:
                place = f"{RunWarnings.__module__}.{RunWarnings.__name__}"
                _log(name, TypeError(f"it is {kind!r}; allowed is a subclass of {place}"))

    @property
    def logged_at_once(self) -> frozenset[str]:
        """Keys of warnings with events that are logged one by one, when they happen."""
        return frozenset().union(*(source.logged_at_once for source in self._sources.values()))

    def texts(self, state: State, is_complete: bool) -> dict[str, str]:
        """The sentences so far by key, with those of a run that ends if it is complete; a key that
        two classes have begins with the name of the later class."""
        texts: dict[str, str] = {}
        for name, source in list(self._sources.items()):
            try:
                own = source.so_far(state)
                if is_complete:
                    own = own | source.at_the_end(state)
                own = {str(key): str(text) for key, text in own.items()}
            except Exception as error:
                _log(name, error)
                del self._sources[name]
                continue
            for key, text in own.items():
                texts[f"{name}-{key}" if key in texts else key] = text
        return texts


def _log(name: str, error: Exception) -> None:
    log.warning("curvfed.%s: %s is left out: %s: %s", WARNINGS, name, type(error).__name__, error)

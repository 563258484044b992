"""Makes both halves of a configured one-shot method."""

from typing import Any

from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.method import Method
from curvfed.strategies.base.one_shot import OneShotClient, OneShotServer, Setting, Site
from curvfed.strategies.config.run_config import RunConfig
from curvfed.tasks import plugins


def client_class(method: Method) -> type[OneShotClient]:
    """The class of a method's client half."""
    half: type[OneShotClient] = _subclass(method.client, OneShotClient)
    return half


def server_class(method: Method) -> type[OneShotServer]:
    """The class of a method's server half."""
    half: type[OneShotServer] = _subclass(method.server, OneShotServer)
    return half


def client_half(config: RunConfig, class_names: tuple[str, ...], site: Site) -> OneShotClient:
    """The client's half; `config` has its defaults resolved."""
    return client_class(config.row)(_setting(config, class_names), site)


def server_half(config: RunConfig, class_names: tuple[str, ...]) -> OneShotServer:
    """The server's half; `config` has its defaults resolved."""
    return server_class(config.row)(_setting(config, class_names))


def _setting(config: RunConfig, class_names: tuple[str, ...]) -> Setting:
    return Setting(config.keys_of(config.row), config, config.points, class_names)


def _subclass(place: Any, kind: type) -> Any:
    half = plugins.imported(place) if isinstance(place, str) else place
    if not (isinstance(half, type) and issubclass(half, kind)):
        raise ConfigError(
            f"{place!r} is {half!r}; allowed is a subclass of {kind.__module__}.{kind.__name__}",
            key="not-a-half",
        )
    return half

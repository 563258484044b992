"""Makes both halves of a configured one-shot method."""

from typing import Any

from curvfed.strategies.base.method import half_class
from curvfed.strategies.base.one_shot import OneShotClient, OneShotServer, Setting, Site
from curvfed.strategies.config.run_config import RunConfig


def client_half(config: RunConfig, class_names: tuple[str, ...], site: Site) -> OneShotClient:
    """The client's half; `config` has its defaults resolved."""
    return client_class(config)(_setting(config, class_names), site)


def server_half(config: RunConfig, class_names: tuple[str, ...]) -> OneShotServer:
    """The server's half; `config` has its defaults resolved."""
    return server_class(config)(_setting(config, class_names))


def client_class(config: RunConfig) -> Any:
    """The subclass of `OneShotClient`."""
    row: Any = config.row
    place = config.guard.half("client") or row.client or ""
    return half_class(place, "client", OneShotClient, "not-a-half")


def server_class(config: RunConfig) -> Any:
    """The subclass of `OneShotServer`."""
    row: Any = config.row
    place = config.guard.half("server") or row.server or ""
    return half_class(place, "server", OneShotServer, "not-a-half")


def _setting(config: RunConfig, class_names: tuple[str, ...]) -> Setting:
    keys = config.keys_of(config.row)
    return Setting(keys, config, config.points, config.guard, class_names)

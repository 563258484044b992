"""Makes both halves of a configured one-shot method."""

from typing import Any

from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.one_shot import OneShotClient, OneShotServer, Setting, Site
from curvfed.strategies.config.run_config import RunConfig
from curvfed.tasks import plugins


def client_half(config: RunConfig, class_names: tuple[str, ...], site: Site) -> OneShotClient:
    """The client's half; `config` has its defaults resolved."""
    half: OneShotClient = half_class(config.row.client, OneShotClient)(
        _setting(config, class_names), site
    )
    return half


def server_half(config: RunConfig, class_names: tuple[str, ...]) -> OneShotServer:
    """The server's half; `config` has its defaults resolved."""
    half: OneShotServer = half_class(config.row.server, OneShotServer)(
        _setting(config, class_names)
    )
    return half


def half_class(place: Any, kind: type) -> Any:
    """The subclass of `kind` that a row names, as "package.module:Class"."""
    half = plugins.imported(place) if isinstance(place, str) else place
    if not (isinstance(half, type) and issubclass(half, kind)):
        raise ConfigError(
            f"{place!r} is {half!r}; allowed is a subclass of {kind.__module__}.{kind.__name__}",
            key="not-a-half",
        )
    return half


def _setting(config: RunConfig, class_names: tuple[str, ...]) -> Setting:
    return Setting(config.keys_of(config.row), config, config.points, class_names)

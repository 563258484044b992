"""Makes both halves of a configured one-shot method."""

from typing import Any, Literal

from curvfed.strategies.base.method import half_class
from curvfed.strategies.base.one_shot import OneShotClient, OneShotServer, Setting, Site
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.messages import MESSAGE_TYPES, SUM


def client_half(config: RunConfig, class_names: tuple[str, ...], site: Site) -> OneShotClient:
    """The client's half; `config` has its defaults resolved."""
    return client_class(config)(_setting(config, class_names), site)


def server_half(config: RunConfig, class_names: tuple[str, ...]) -> OneShotServer:
    """The server's half; `config` has its defaults resolved."""
    return server_class(config)(_setting(config, class_names))


def phase_of(config: RunConfig) -> str:
    """The phase of the method's sum.

    Raises
    ------
    ConfigError
        If it has the name of another phase.
    """
    row: Any = config.row
    if row.phase in MESSAGE_TYPES and row.phase != SUM:
        raise ConfigError(
            f'method = "{config.method}": its phase "{row.phase}" has the name of another one;'
            f" allowed are names other than {', '.join(MESSAGE_TYPES)}",
            key="phase-name",
        )
    return str(row.phase)


def client_class(config: RunConfig) -> Any:
    """The subclass of `OneShotClient`."""
    return _half(config, "client", OneShotClient)


def server_class(config: RunConfig) -> Any:
    """The subclass of `OneShotServer`."""
    return _half(config, "server", OneShotServer)


def _half(config: RunConfig, side: Literal["client", "server"], base: type) -> Any:
    place = config.guard.half(side) or getattr(config.row, side) or ""
    return half_class(place, side, base, "not-a-half")


def _setting(config: RunConfig, class_names: tuple[str, ...]) -> Setting:
    keys = config.keys_of(config.row)
    return Setting(keys, config, config.points, config.guard, class_names)

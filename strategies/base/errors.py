"""The error that refuses a run."""

from curvfed.tasks.errors import SafeError


class ConfigError(SafeError, ValueError):
    """A configuration that cannot run; the text names the key, its value and the allowed values."""

    area = "config"

    settings: tuple[str, ...] = ()
    """The run-config keys that are at fault."""

"""The error that refuses a run."""


class ConfigError(ValueError):
    """A configuration that cannot run; the text names the key, its value and the allowed values."""

"""What a run is refused for."""


class ConfigError(ValueError):
    """A configuration that cannot run; names key, value and what is allowed."""

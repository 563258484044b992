"""Which runs can be differentially private; others are refused with the reason."""

from curvfed.strategies.config.run_config import RunConfig


def privacy_conflict(config: RunConfig) -> tuple[str, str]:
    """The keys that do not fit together with `dp.unit`, separated by spaces, and what is allowed;
    ("", "") if all do."""
    privacy = config.dp
    if privacy.unit == "none":
        return ("dp.epsilon dp.unit", "dp.unit = record or client") if privacy.epsilon else ("", "")
    if privacy.epsilon is None:
        return "dp.epsilon dp.unit", "a number for dp.epsilon"
    return "dp.unit", "none so far"

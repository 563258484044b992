"""The errors that refuse a run, a secure sum, and the hulls in a sum."""

from collections.abc import Mapping

from curvfed.tasks.errors import SafeError


class ConfigError(SafeError, ValueError):
    """A configuration that cannot run; the text names the key, its value and the allowed values."""

    area = "config"

    settings: tuple[str, ...] = ()
    """The run-config keys that are at fault."""


class HullError(SafeError, ValueError):
    """Hulls cannot be encoded, or a sum cannot be decoded.

    The text travels to the server: it states the fault and the allowed values, never a bin, a slot
    or a position.
    """

    area = "hull"


def undecodable(why: str) -> HullError:
    """The error of a sum that is not the sum of encoded hulls."""
    return HullError(
        f"the sum of the hulls cannot be decoded: {why}; a client's vector or a mask is missing or"
        " damaged",
        key="undecodable",
    )


class SecureSumError(SafeError, ValueError):
    """A secure sum refuses a message or a step.

    The text travels to the server: it names partitions, sizes and steps, never a key, a share, a
    mask or a value.
    """

    area = "secure-sum"


class PeerError(SecureSumError):
    """The messages of some members do not verify.

    Parameters
    ----------
    reasons : mapping of int to str
        By partition.
    """

    def __init__(self, reasons: Mapping[int, str]) -> None:
        super().__init__(
            "; ".join(f"partition {partition}: {reason}" for partition, reason in reasons.items()),
            key="peers",
        )
        self.partitions = sorted(reasons)

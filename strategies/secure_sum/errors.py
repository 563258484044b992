"""The error that a secure sum raises."""

from collections.abc import Mapping

from curvfed.tasks.errors import SafeError


class SecureSumError(SafeError, ValueError):
    """A secure sum refuses a message or a step.

    The text travels to the server: it names partitions, sizes and steps, never a key, a share, a
    mask or a value.
    """

    area = "secure-sum"


class PeerError(SecureSumError):
    """The messages of some members do not verify. The others can go on without these members.

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

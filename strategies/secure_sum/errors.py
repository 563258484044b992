"""The error that a secure sum raises."""

from curvfed.tasks.errors import SafeError


class SecureSumError(SafeError, ValueError):
    """A secure sum refuses a message or a step.

    The text travels to the server: it names partitions, sizes and steps, never a key, a share, a mask or a value.
    """

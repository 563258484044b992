"""The error that a secure sum raises."""


class SecureSumError(ValueError):
    """A message or step that a secure sum refuses.

    The text travels to the server: it names partitions, sizes and steps, never a key, a share, a mask or a value.
    """

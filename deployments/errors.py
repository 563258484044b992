"""The error of a command that cannot do its work on this machine or now."""

from typing import ClassVar

from curvfed.tasks.errors import KeyedError


class MachineError(KeyedError, RuntimeError):
    """A machine, its network or a program on it does not meet the command's needs; the text names
    the value, the place, and the allowed values or the remedy.

    Attributes
    ----------
    status : int
        The exit status of the command.
    """

    area = "machine"
    status: ClassVar[int] = 1

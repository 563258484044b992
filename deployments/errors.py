"""The error of a command that cannot do its work on this machine or now."""

from typing import ClassVar

from curvfed.tasks.errors import KeyedError


class MachineError(KeyedError, RuntimeError):
    """A machine, its network or a program on it is not as the command needs it; the text names the
    value, the place, and what is allowed or to be done.

    Attributes
    ----------
    status : int
        The exit status of the command.
    """

    area = "machine"
    status: ClassVar[int] = 1

"""Errors that end a command with one line and an exit status."""

import contextlib
from collections.abc import Iterator


class Failure(Exception):
    """The error of a command; its cause has the text.

    Parameters
    ----------
    status : int
        The exit status of the command.
    """

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@contextlib.contextmanager
def failing(status: int, *errors: type[Exception]) -> Iterator[None]:
    """Within the block an error of these classes ends the command with this exit status.

    Raises
    ------
    Failure
    """
    try:
        yield
    except errors as error:
        raise Failure(status) from error

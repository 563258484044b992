"""The error that data raise."""

import contextlib
from collections.abc import Iterator


class DataError(ValueError):
    """Data that are absent, unreadable or unfit for a run.

    The text travels to the server: it names files, shapes and what is allowed, never a value of the data. Of a node with
    data of its own no name of a file or a column travels.

    Parameters
    ----------
    text : str
    names : str
        What in the text names files below the data's path, or columns.
    """

    def __init__(self, text: str, *names: str) -> None:
        super().__init__(text)
        self.names = names


@contextlib.contextmanager
def naming(name: str) -> Iterator[None]:
    """Errors raised within hold a name of files or columns."""
    try:
        yield
    except DataError as error:
        error.names += (name,)
        raise

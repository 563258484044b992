"""The error for unfit data, what all errors are whose texts may be sent, and the hint at a similar
name."""

import contextlib
import difflib
from collections.abc import Iterable, Iterator
from pathlib import Path

MAX_TEXT = 200
"""Most characters of the name of a class or of another text about the data."""


class SafeError(Exception):
    """An error whose text is safe to send. Of any other error the server is told the class
    alone.
    """

    names: tuple[str, ...] = ()
    """Parts of the text that a real node leaves out of what it sends."""


class DataError(SafeError, ValueError):
    """Data that are absent, unreadable or unfit for a run.

    The text names files, shapes and what is allowed, never a value of the data. A node with data
    of its own removes the names of files and columns before it sends the text.

    Parameters
    ----------
    text : str
    names : str
        The parts of the text that name columns, or files below the data's path.
    """

    def __init__(self, text: str, *names: str) -> None:
        super().__init__(text)
        self.names = names


def unreadable(path: Path, error: Exception, expected: str) -> DataError:
    """The error for a file that a library cannot read, by the library's own error."""
    if isinstance(error, BlockingIOError):
        reason = (
            "another program has it open for writing, such as a notebook: close it there, or copy"
            " the file"
        )
    elif isinstance(error, PermissionError):
        reason = "this user may not read it"
    elif path.is_file() and not path.stat().st_size:
        reason = "it is empty, 0 bytes"
    else:
        reason = f"it is damaged, or no {expected}"
    return DataError(
        f"{path} cannot be read ({type(error).__name__}): {reason} ({error})", str(error)
    )


@contextlib.contextmanager
def naming(name: str) -> Iterator[None]:
    """Mark `name` in the errors raised within as a name of files or columns."""
    try:
        yield
    except DataError as error:
        error.names += (name,)
        raise


def did_you_mean(name: str, known: Iterable[str], lists: str) -> str:
    """The end of a sentence about an unknown name: the known one that is meant, if one is alike;
    the five that are spelled most like it; and what `lists` all."""
    spelled = {one.lower(): one for one in known}
    near = [
        spelled[one] for one in difflib.get_close_matches(name.lower(), spelled, n=5, cutoff=0.0)
    ]
    meant = difflib.get_close_matches(name.lower(), spelled, n=1)
    question = f'; did you mean "{spelled[meant[0]]}"?' if meant else "."
    return f"{question} The nearest are {', '.join(near)}; {lists} lists all"

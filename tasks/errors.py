"""The base of all errors, errors with texts safe to send, and the error for unfit data."""

import contextlib
import csv
import difflib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar

MAX_TEXT = 200
"""Maximum number of characters of a class name or another text about the data."""


class KeyedError(Exception):
    """An error with a short stable key beside its text.

    Programs compare the key; the text may be reworded at any time. The key begins with the area of
    the class and ends with the kind of error, as in "config.too-few-clients".

    Parameters
    ----------
    text : str
    key : str
        The kind of error: lower-case words with hyphens.

    Attributes
    ----------
    key : str
        Area and kind; the area alone where no kind is given.

    Examples
    --------
    >>> DataError("cells.csv has no column label", key="no-label-column").key
    'data.no-label-column'
    """

    area: ClassVar[str] = "error"

    def __init__(self, text: str, *, key: str = "") -> None:
        super().__init__(text)
        self.key = f"{self.area}.{key}" if key else self.area

    @property
    def kind(self) -> str:
        """The key without the area, for an error of another class that repeats this one."""
        return self.key.partition(".")[2]


class SafeError(KeyedError):
    """An error whose text is safe to send. The server learns only the class of any other error."""

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
    key : str
        The kind of error.
    """

    area = "data"

    def __init__(self, text: str, *names: str, key: str = "") -> None:
        super().__init__(text, key=key)
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
    elif isinstance(error, csv.Error):
        reason = "a quote is not closed, or a letter follows the closing one"
    else:
        reason = f"it is damaged, or not a valid {expected}"
    return DataError(
        f"{path} cannot be read ({type(error).__name__}): {reason} ({error})",
        str(error),
        key="unreadable",
    )


@contextlib.contextmanager
def naming(name: str) -> Iterator[None]:
    """Mark `name` in the errors raised within as a name of files or columns."""
    try:
        yield
    except DataError as error:
        error.names += (name,)
        raise


def did_you_mean(name: str, names: Iterable[str], lists: str) -> str:
    """The end of a sentence about an unknown name: a similar name, if there is one; the five names
    with the most similar spelling; and what `lists` all."""
    spelled = {candidate.lower(): candidate for candidate in names}
    nearest = difflib.get_close_matches(name.lower(), spelled, n=5, cutoff=0.0)
    listed = ", ".join(spelled[candidate] for candidate in nearest)
    similar = difflib.get_close_matches(name.lower(), spelled, n=1)
    question = f'; did you mean "{spelled[similar[0]]}"?' if similar else "."
    return f"{question} The nearest are {listed}; {lists} lists all"

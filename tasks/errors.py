"""The base of all errors, errors with texts safe to send, and the error for unfit data."""

import contextlib
import csv
import difflib
import gzip
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar

MAX_TEXT = 200
"""Maximum number of characters of a class name or another text about the data."""

SIMILAR = 0.6
"""Smallest similarity by difflib of a misspelt name and the right one."""

MOST_SIMILAR = 20
"""Maximum number of similar names that are compared letter by letter."""

WORD_BREAK = re.compile(r"[-_./ ]")

MOST_LISTED = 5
"""Largest number of known names that an error lists."""

LETTERS_PER_ERROR = 4
"""Letters of a name per wrong letter that a misspelling may have; two wrong letters are always
allowed."""


class KeyedError(Exception):
    """An error with a text and a short stable key.

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
    """An error with a text that is safe to send. The server learns only the class of any other
    error."""

    names: tuple[str, ...] = ()
    """Parts of the text that a real node removes before it sends the text."""


class DataError(SafeError, ValueError):
    """Data that are absent, unreadable or unfit for a run.

    The text names files, shapes and requirements. A node with data of its own removes the names of
    files and columns, and the values of its data, before it sends the text.

    Parameters
    ----------
    text : str
    names : str
        The parts of the text that name columns, values, or files below the data's path.
    key : str
        The kind of error.
    """

    area = "data"

    def __init__(self, text: str, *names: str, key: str = "") -> None:
        super().__init__(text, key=key)
        self.names = names


class ModelError(SafeError, ValueError):
    """A network that the data of a run cannot have; the text names the key, its value and the
    allowed values."""

    area = "config"


class EncoderError(DataError):
    """A frozen network that is absent, damaged or unfit for the images; the text begins with the
    key `images.encoder` and its value."""


def unreadable(path: Path, error: Exception, expected: str, line: int = 0) -> DataError:
    """The error for a file that a library cannot read, by the library's own error; of a table, in
    the row that begins in this line."""
    if isinstance(error, BlockingIOError):
        reason = (
            "another program has it open for writing, such as a notebook: close it there, or copy"
            " the file"
        )
    elif isinstance(error, PermissionError):
        reason = "this user may not read it"
    elif path.is_file() and not path.stat().st_size:
        reason = "it is empty, 0 bytes"
    elif path.suffix.lower() == ".gz" and isinstance(error, EOFError):
        reason = "it is truncated, as by an interrupted download: download or copy it again"
    elif isinstance(error, gzip.BadGzipFile) and str(error).startswith("Not a gzipped file"):
        reason = "its name ends in .gz, and it is not compressed: remove .gz from its name"
    elif isinstance(error, csv.Error):
        place = f"in the row that begins in line {line}, " if line else ""
        reason = f"{place}a quote is not closed, or a letter follows the closing one"
    elif isinstance(error, UnicodeDecodeError):
        reason = (
            "its text is in another encoding than UTF-8, such as cp1252 of Windows: save it as"
            " UTF-8"
        )
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


def near_names(name: str, names: Iterable[str]) -> list[str]:
    """The names that `name` may be a misspelling of, the most similar first.

    Such a name differs in few letters, or one of the two begins with the other, or is a word of it.
    """
    written = name.lower()
    spelled = {candidate.lower(): candidate for candidate in names}
    similar = difflib.get_close_matches(written, spelled, n=MOST_SIMILAR, cutoff=SIMILAR)
    near = [candidate for candidate in similar if _is_near(written, candidate)]
    near = near or [word for word in WORD_BREAK.split(written) if word in spelled]
    return [spelled[candidate] for candidate in near]


def _is_near(written: str, candidate: str) -> bool:
    matcher = difflib.SequenceMatcher(None, written, candidate, autojunk=False)
    errors = sum(
        max(end - start, other_end - other_start)
        for kind, start, end, other_start, other_end in matcher.get_opcodes()
        if kind != "equal"
    )
    shorter, longer = sorted((written, candidate), key=len)
    is_part = longer.startswith(shorter) or shorter in WORD_BREAK.split(longer)
    return is_part or errors <= max(2, len(written) // LETTERS_PER_ERROR)


def did_you_mean(name: str, names: Iterable[str], lists: str) -> str:
    """The end of a sentence about an unknown name: a similar name, if there is one; and the command
    or page `lists`, or all names if they are few or `lists` is empty."""
    known_names = list(names)
    near = near_names(name, known_names)
    question = f'; did you mean "{near[0]}"?' if near else "."
    if not lists or len(known_names) <= MOST_LISTED:
        return f"{question} Known are {', '.join(known_names)}"
    return f"{question} {lists} lists all"

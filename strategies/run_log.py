"""The app's own lines, in the process of the server and in that of a client on a machine of its
own."""

import codecs
import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import TextIO

log = logging.getLogger("curvfed")

PLAIN = str.maketrans(
    {
        "±": "+-",
        "·": "-",
        "–": "-",
        "—": "-",
        "−": "-",
        "×": "x",
        "→": "->",
        "…": "...",
        "°": " deg",
    }
)
"""What a terminal without these characters shows."""

TO_PLAIN = "curvfed.plain"
"""Name of the way, in Python's `codecs`, to write text in an encoding that lacks its characters."""


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Characters that an encoding has, in place of one that it lacks; ? for others."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    text = character.translate(PLAIN)
    return ("?" if text == character else text), error.start + 1


codecs.register_error(TO_PLAIN, _plain)


class _Handler(logging.StreamHandler[TextIO]):
    """Write to the standard output of the moment, which notebooks and their `%%capture` replace.

    A line that cannot be written is lost, and the run goes on.
    """

    @property
    def stream(self) -> TextIO:
        """The standard output; the standard error in a process that has none."""
        return sys.stdout or sys.stderr

    @stream.setter
    def stream(self, value: TextIO) -> None:
        """Nothing is kept."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, in characters that the output has."""
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        return super().format(record).encode(encoding, TO_PLAIN).decode(encoding)

    def handleError(self, record: logging.LogRecord) -> None:
        """Lose the line."""


@contextlib.contextmanager
def logged_from(level: int) -> Iterator[None]:
    """Within the block lines of this level and higher ones are logged."""
    before = log.level
    log.setLevel(level)
    try:
        yield
    finally:
        log.setLevel(before)


def log_to_stdout() -> None:
    """Print them: Flower streams what the ServerApp prints, and a SuperNode's log has what its
    ClientApps print."""
    if not log.handlers:
        handler = _Handler()
        handler.setFormatter(logging.Formatter("curvfed | %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False

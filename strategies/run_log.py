"""The app's log lines, in the server's process and in that of a client on its own machine."""

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
"""Replacements for a terminal that lacks these characters."""

TO_PLAIN = "curvfed.plain"
"""Name of the error handler, in Python's `codecs`, that replaces characters an encoding lacks."""


def _plain(error: UnicodeError) -> tuple[str, int]:
    """The replacement of a character that the encoding lacks; ? for a character without one."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    text = character.translate(PLAIN)
    return ("?" if text == character else text), error.start + 1


codecs.register_error(TO_PLAIN, _plain)


class _Handler(logging.StreamHandler[TextIO]):
    """Write to the current standard output, which notebooks and their `%%capture` replace.

    A line that cannot be written is dropped, and the run goes on.
    """

    @property
    def stream(self) -> TextIO:
        """The standard output; the standard error in a process without standard output."""
        return sys.stdout or sys.stderr

    @stream.setter
    def stream(self, value: TextIO) -> None:
        """Ignore the value."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, in characters that the output can encode."""
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        return super().format(record).encode(encoding, TO_PLAIN).decode(encoding)

    def handleError(self, record: logging.LogRecord) -> None:
        """Drop the line."""


@contextlib.contextmanager
def logged_from(level: int) -> Iterator[None]:
    """Log only lines of this level and higher levels within the block."""
    before = log.level
    log.setLevel(level)
    try:
        yield
    finally:
        log.setLevel(before)


def log_to_stdout(line: str = "curvfed | %(message)s") -> None:
    """Print log lines to the standard output, which Flower streams from the ServerApp and writes to
    a SuperNode's log from its ClientApps; in the given format, unless something logs already."""
    if not log.handlers:
        handler = _Handler()
        handler.setFormatter(logging.Formatter(line))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False

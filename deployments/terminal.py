"""The standard output and error of a command: what becomes of them decides nothing about its
work.
"""

import contextlib
import errno
import io
import os
import select
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from curvfed.strategies.run_log import TO_PLAIN

READER_LEFT = (errno.EPIPE, errno.ECONNRESET)
"""Errors of an output that nobody reads any more, as after `| head`."""


class _Output(io.FileIO):
    """A file descriptor that takes everything: once it cannot be written, what follows is lost.

    Attributes
    ----------
    error : OSError or None
        Why it cannot be written.
    """

    error: OSError | None = None

    def write(self, data: Any, /) -> int:
        """Write, if it can be; programs started later write to nowhere, too."""
        try:
            # another program has made it non-blocking
            while (written := super().write(data)) is None:
                select.select([], [self], [])
            return written
        except OSError as error:
            self.error = error
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(data)


@contextlib.contextmanager
def lasting_output() -> Iterator[None]:
    """Within the block a closed pipe, a full disk, a closed output or a terminal without Unicode
    raises no error."""
    _open_closed()
    output = _lasting(sys.stdout, 1)
    errors = _lasting(sys.stderr, 2)
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            yield
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(ValueError):  # closed
                    stream.flush()


def check_written() -> None:
    """Refuse an output that has not taken all, unless its reader wanted no more.

    Raises
    ------
    OSError
    """
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(raw, _Output) and raw.error and raw.error.errno not in READER_LEFT:
        raise OSError(
            raw.error.errno, f"the standard output cannot be written: {raw.error.strerror}"
        )


def _open_closed() -> None:
    """Open standard streams that are closed: otherwise the next file, a model or a table, takes
    their number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def _lasting(stream: TextIO | None, descriptor: int) -> TextIO:
    """The stream over an `_Output`; a stream that another program has put in its place stays."""
    if stream is not None and stream not in (sys.__stdout__, sys.__stderr__):
        return stream
    if stream is not None:
        stream.flush()
    raw = _Output(descriptor, "wb", closefd=False)
    # Python's option -u, which containers set, asks for every line at once.
    is_line_buffered = raw.isatty() or descriptor == 2 or getattr(stream, "write_through", False)
    encoding = stream.encoding if stream is not None else "utf-8"
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding, TO_PLAIN, line_buffering=is_line_buffered
    )

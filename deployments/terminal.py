"""The standard output and error of a command; their errors do not stop its work."""

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
"""Errors of an output without a reader, as after `| head`."""


class _Output(io.FileIO):
    """A file descriptor that accepts all writes; after an error the rest is lost.

    Attributes
    ----------
    error : OSError or None
        The error of the first failed write.
    """

    error: OSError | None = None

    def write(self, data: Any, /) -> int:
        """Write, or redirect the descriptor to the null device after an error, also for programs
        started later."""
        try:
            # Another program may have made the descriptor non-blocking.
            while (written := super().write(data)) is None:
                select.select([], [self], [])
            return written
        except OSError as error:
            self.error = error
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)
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
    """Refuse an incomplete output, unless its reader has closed it.

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
    """Open closed standard streams: otherwise the next opened file, a model or a table, gets their
    number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def _lasting(stream: TextIO | None, descriptor: int) -> TextIO:
    """The stream over an `_Output`; a stream that replaces the standard one stays as it is."""
    if stream is not None and stream not in (sys.__stdout__, sys.__stderr__):
        return stream
    if stream is not None:
        stream.flush()
    raw = _Output(descriptor, "wb", closefd=False)
    # Python's option -u, which containers set, needs each line at once.
    is_line_buffered = raw.isatty() or descriptor == 2 or getattr(stream, "write_through", False)
    encoding = stream.encoding if stream is not None else "utf-8"
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding, TO_PLAIN, line_buffering=is_line_buffered
    )

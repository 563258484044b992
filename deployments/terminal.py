"""Printed output of commands: tables and lists. An error of a stream does not stop a command's
work."""

import contextlib
import errno
import io
import os
import select
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table

from curvfed.strategies.base.figure import DETAIL
from curvfed.strategies.base.figures import BEST, EXAMPLES, FIGURES, PER_ROUND, STD, find, words_of
from curvfed.strategies.base.score_words import scored_text
from curvfed.strategies.methods import METHODS
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


def open_console(**options: Any) -> Console:
    """A console that prints texts as they are: labels, policies and paths may have brackets, which
    rich takes for markup otherwise. Colours are those of `rich.text.Text`."""
    return Console(markup=False, highlight=False, **options)


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


def print_data(text: str) -> None:
    """Print the content of a file, in UTF-8 as the file would be, whatever the terminal's encoding.

    Raises
    ------
    OSError
        If the output is incomplete, unless its reader has closed it.
    """
    sys.stdout.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:  # only a stream of text, as of a notebook
        sys.stdout.write(text)
    else:
        buffer.write(text.encode())
    sys.stdout.flush()
    raw = getattr(buffer, "raw", None)
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


FIRST = ("status", "error", "error_key", "method", "dataset", "seed", "num_clients", "rounds")
"""The keys of a summary above its figures."""

_NARROW = 16
_FRAME = 3
"""Columns of the terminal: a narrow column of a table, and the lines and spaces beside each."""


def summary_table(summary: Mapping[str, Any], fine_tuned: bool = False) -> Table:
    """Lay out the figures of a run: a column for the last round, of clients that may have
    fine-tuned since, and one for the best validation round if there is one."""
    method = METHODS.get(summary.get("method") or "")  # which registers its figures
    stage = "last round" if method is None else method.stage
    columns = {f"{stage}, fine-tuned" if fine_tuned else stage: summary}
    if summary.get(BEST):
        columns["best validation"] = summary[BEST]
    counts = summary.get("metrics") or {}
    values = [_values(column, counts) for column in columns.values()]
    table = Table("", *columns)
    is_one_shot = method is not None and method.is_one_shot
    for name in dict.fromkeys([*FIRST, *FIGURES, *values[0]]):
        cells = [column.get(name, "") for column in values]
        if is_one_shot and name == "rounds":
            continue
        if any(cells) and DETAIL not in find(name).levels and name not in EXAMPLES:
            words = words_of(name, values[0])
            table.add_row(words.removesuffix(PER_ROUND) if is_one_shot else words, *cells)
    return table


def _values(summary: Mapping[str, Any], counts: Mapping[str, Any]) -> dict[str, str]:
    """The printed values of a summary and of its metrics; a mean, its deviation and its number of
    test examples, which is among `counts`, are one value."""
    stored = dict(summary) | (summary.get("metrics") or {})
    stored["rounds"] = stored.get("rounds", stored.pop("round", None))
    shown = {name: value for name, value in stored.items() if not isinstance(value, Mapping | list)}
    return {
        name: find(name).text(str(value))
        if name in FIRST and value is not None
        else scored_text(name, shown, counts)
        for name, value in shown.items()
        if not name.endswith(STD)
    }


def print_rows(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """Print a table, its cells folded to the width of the terminal.

    Where it does not fit, the column with most text has what the others leave. These keep their
    longest words whole.
    """
    console = open_console()
    cells = list(rows)
    texts = ["\n".join(column) for column in zip(head, *cells, strict=True)]
    longest = texts.index(max(texts, key=len))
    widths = [max(map(len, text.splitlines())) for text in texts]
    fits = sum(widths) + _FRAME * len(head) < console.width
    table = Table(*head)
    for index, column in enumerate(table.columns):
        column.overflow = "fold"
        if index != longest and not fits:
            column.max_width = max(_NARROW, *map(len, texts[index].split()))
    for row in cells:
        table.add_row(*row)
    console.print(table)

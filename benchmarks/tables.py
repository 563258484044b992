"""Tables of pages: in Markdown, and as CSV files beside a page."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from curvfed.tasks.stored_files import write_atomically

ENCODING = "utf-8-sig"
"""With the mark by which spreadsheets recognise UTF-8."""


def table_lines(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table in Markdown."""
    rule = ["---"] * len(columns)
    return [f"| {' | '.join(row)} |" for row in (columns, rule, *rows)]


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write a table as CSV, its columns in the first row."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    write_atomically(path, text.getvalue().encode(ENCODING))


def read_csv(path: Path) -> list[list[str]]:
    """The rows of a table that `write_csv` wrote, without its columns."""
    with path.open(encoding=ENCODING, newline="") as file:
        return list(csv.reader(file))[1:]

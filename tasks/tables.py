"""Tables in text files: their encoding, their separator and their rows."""

import codecs
import csv
import gzip
import io
import math
import re
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from curvfed.tasks.errors import DataError, unreadable

Line = tuple[int, list[str]]
"""The number of a line of a table, and its cells without blanks around them."""

UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""The first bytes of a text in UTF-16."""

SEEN = 20
"""Number of lines that determine the contents of a table."""

PEEK = 2**16
"""Maximum number of bytes searched for these lines."""

SEPARATORS = (",", ";", "\t")

TABLES = (".csv", ".tsv")
"""Usual ends of the names of tables."""


def ending(path: Path) -> str:
    """The ending of a file's name, without that of its compression."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def number_in(cell: str) -> float:
    """The number in a cell, with a decimal point or comma, or NaN."""
    try:
        return float(cell.replace(",", "."))
    except ValueError:
        return math.nan


def is_number(cell: str) -> bool:
    """Whether a cell is a number other than NaN."""
    return not math.isnan(number_in(cell))


def read_text(path: Path, size: int = -1) -> str:
    """A text in UTF-8, or in UTF-16 with its mark, which gzip may have compressed; of the first
    `size` bytes the whole lines, in any encoding.

    Raises
    ------
    DataError
        If the file cannot be read or is damaged, or the whole text is in another encoding.
    """
    opened: Any = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opened(path, "rb") as file:
            data = file.read(size)
    except (OSError, EOFError, zlib.error) as error:
        expected = "gzip file" if opened is gzip.open else "text"
        raise unreadable(path, error, expected) from error
    encoding = "utf-16" if data.startswith(UTF16_MARKS) else "utf-8-sig"
    if size >= 0:
        text: str = data.decode(encoding, errors="replace")
        return text if len(data) < size else text.rpartition("\n")[0]
    try:
        return str(data, encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}, line {line}: text is neither in UTF-8 nor in UTF-16 with its mark. Save a"
            " table in another encoding, such as cp1252 of Windows, as UTF-8 (in Excel"
            ' "CSV UTF-8")',
            key="encoding",
        ) from error


def first_lines(path: Path) -> list[Line]:
    """The first lines of a table; none if they cannot be read."""
    try:
        return table_lines(path, size=PEEK, num_lines=SEEN)
    except DataError:
        return []


def table_lines(
    path: Path,
    min_columns: int = 2,
    has_quotes: bool = False,
    size: int = -1,
    num_lines: int | None = None,
) -> list[Line]:
    """The lines of a table that are not blank.

    Parameters
    ----------
    path : Path
    min_columns : int
        See `separator_of`.
    has_quotes : bool
        Whether quotes are around cells also between tabs, where they are letters by default.
    size, num_lines : int
        Read only so many bytes, see `read_text`, and so many lines.

    Raises
    ------
    DataError
        If the file cannot be read, is damaged or in another encoding, or a quote is not closed.
    """
    text = read_text(path, size)
    first, end, below = text.partition("\n")
    # Spreadsheets may declare the separator by a first line such as sep=;.
    declared = "".join(re.findall(r"^sep=([;,|\t])\r?$", first))
    text = end + below if declared else text
    usual = "," if ending(path) == ".csv" else "\t"
    separator = declared or separator_of(text, usual, min_columns)
    is_plain = separator == "\t" and not has_quotes
    reader = _reader(io.StringIO(text, newline=""), separator, is_plain, strict=True)
    lines: list[Line] = []
    begin = 1  # of the row that is read
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                lines.append((reader.line_num, cells))
            begin = reader.line_num + 1
            if len(lines) == num_lines:
                break
    except csv.Error as error:
        raise unreadable(path, error, "table", begin) from error
    return lines


def separator_of(text: str, usual: str, min_columns: int) -> str:
    """The separator of a table's columns: the usual one, or else the first that splits the first
    lines into equally many columns, `min_columns` or more.

    Spreadsheets write semicolons in place of commas if numbers contain commas. Lines that begin
    with # may be comments.
    """
    lines = [line for line in text[:PEEK].splitlines() if line.strip()][:SEEN]
    plain = [line for line in lines if not line.startswith("#")] or lines
    if usual == "," and any(re.search(r"\d,\d+;[+-]?\d+,\d", line) for line in plain[:1]):
        return ";"
    fitting = []
    for mark in (usual, *SEPARATORS):
        widths = [len(row) for row in _reader(plain, mark, mark == "\t", strict=False)]
        if widths and widths[0] >= (min_columns if mark == usual else max(min_columns, 2)):
            fitting.append((len({*widths}) > 1, mark))
    return min(fitting, key=lambda fit: fit[0])[1] if fitting else usual


def _reader(lines: Iterable[str], separator: str, is_plain: bool, strict: bool) -> Any:
    """The rows of lines; in plain ones a quote is a letter."""
    quoting = csv.QUOTE_NONE if is_plain else csv.QUOTE_MINIMAL
    return csv.reader(lines, delimiter=separator, quoting=quoting, strict=strict)  # type: ignore[arg-type]

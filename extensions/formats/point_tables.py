"""Tables of points with their classes, `.csv` and `.tsv`."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from curvfed.tasks import plugins, shipped
from curvfed.tasks.amounts import amount, be
from curvfed.tasks.class_names import names_listed
from curvfed.tasks.errors import MAX_TEXT, DataError, unreadable
from curvfed.tasks.points import EMBEDDING_HINT, RawPoints, raw_points
from curvfed.tasks.points.readers import DEFAULT_LABEL, repeated
from curvfed.tasks.public_data import Located
from curvfed.tasks.tables import Line, is_number, number_in, table_lines

COLUMNS = "two columns of coordinates and one of classes"

DECIMAL_CLASSES = (
    ". Decimal numbers are not guessed to be classes: if those of the last column are, name it in"
    " the first line, and set points.label-key to that name"
)
"""A hint for a table with decimal numbers in the last column."""

AXES = ("x", "y", "z")
"""The names of columns of coordinates."""


def locate(
    path: Path, embedding_key: str = "", label_key: str = DEFAULT_LABEL, bare: bool = False
) -> Located[RawPoints]:
    """The file, and its reader; the arguments are those of
    `curvfed.tasks.points.readers.read_points`."""
    return Located((path,), partial(_read, path, label_key, bare))


def _read(path: Path, label_key: str, bare: bool) -> RawPoints:
    """Read a table, with a note about repeated rows."""
    try:
        raw = read_table(path, label_key, bare)
    except DataError:
        raise
    except Exception as error:
        expected = f"{path.suffix.lower()} file of numbers and strings"
        raise unreadable(path, error, expected) from error
    return replace(raw, notes=(*raw.notes, *repeated(raw)))


def read_table(path: Path, label_key: str, bare: bool) -> RawPoints:
    """Read a `.csv` or `.tsv` in UTF-8 or UTF-16, with or without a header.

    The class is in the column `label_key`; if this is the default or the header is missing, also in
    the last of three columns, unless that is a coordinate or has decimals. The coordinates are in
    the columns "x" and "y", without a "z" of numbers, or in the two other columns that hold numbers
    and have a header that is not empty. Other arguments as in
    `curvfed.tasks.points.readers.read_points`.

    Raises
    ------
    DataError
        Says the line and the column; a value in it is one of its names.
    """
    min_columns = 2 if bare else 3
    rows = table_lines(path, min_columns, has_quotes=True)
    if not rows:
        raise DataError(f"{path} is empty; required are {COLUMNS}", key="empty")
    first_line, first_row = rows[0]
    width = len(first_row)
    if width < min_columns:
        raise DataError(
            f"{path}, line {first_line}: there {be(width)} {amount(width, 'column')}; required are"
            f" {COLUMNS}"
            f"{plugins.absent_hint(*shipped.DATA)}",
            key="columns",
        )
    for line, row in rows:
        if len(row) != width:
            raise DataError(
                f"{path}, line {line}: there {be(len(row))} {amount(len(row), 'column')}, in the"
                f" first line {width}",
                key="columns",
            )
    header = first_row if _is_header(first_row, label_key) else []
    body = rows[1:] if header else rows
    if not body:
        raise DataError(
            f"{path} has no points below the names of its columns; required are {COLUMNS}",
            key="empty",
        )
    _check_names(path, first_line, header)
    first = body[0]
    label = _label_column(header, body, label_key)
    if label is None and not bare:
        raise _unlabelled(path, header or [""] * width, label_key, first[1][-1])
    columns = _coordinate_columns(path, header, first, label)
    ignored = [
        name
        for place, name in enumerate(header)
        if name and place not in (label, *columns) and is_number(first[1][place])
    ]
    points = [
        [_coordinate(path, line, row, column, header) for column in columns] for line, row in body
    ]
    # The first column has the names of the points if it holds text, or the index of pandas.
    is_text_or_index = header[:1] == [""] or not is_number(first[1][0])
    is_named = is_text_or_index and 0 not in (label, *columns)
    names = [row[0] for _, row in body] if is_named else []
    classes = None if label is None else [row[label] for _, row in body]
    raw = raw_points(str(path), points, classes, ("coordinates", "classes"), names)
    notes = (f"columns of numbers that are not read: {names_listed(ignored)}",) if ignored else ()
    return replace(raw, notes=notes, lines=[line for line, _ in body])


def _check_names(path: Path, line: int, header: list[str]) -> None:
    """Refuse two columns of one name."""
    repeated = [name for name in dict.fromkeys(header) if name and header.count(name) > 1]
    if repeated:
        raise DataError(
            f'{path}, line {line}: {header.count(repeated[0])} columns are named "{repeated[0]}";'
            " allowed is one column of each name: rename the others, or remove them",
            f'"{repeated[0]}"',
            key="columns",
        )


def _is_header(row: list[str], label_key: str) -> bool:
    """Whether the first line has the columns' names; the default names of pandas are 0 and 1."""
    numbers = [cell for cell in row if is_number(cell)]
    return not numbers or label_key in row or numbers == ["0", "1"]


def _label_column(header: list[str], body: list[Line], label_key: str) -> int | None:
    """The column with this name; for the default name also the last of three columns, as any other
    guess may be wrong."""
    if label_key in header:
        return header.index(label_key)
    first = body[0][1]
    # A column with an empty header is the index of pandas.
    places = [place for place in range(len(first)) if not header or header[place]]
    if len(places) != 3 or (header and label_key != DEFAULT_LABEL):
        return None
    last = places[-1]
    numbers = [place for place in places if is_number(first[place])]
    is_coordinate = numbers[-1:] == [last] and (
        len(numbers) == 2 or (bool(header) and header[last].lower() in AXES)
    )
    has_decimals = any(number_in(row[last]) % 1 > 0 for _, row in body)
    return None if is_coordinate or has_decimals else last


def _unlabelled(path: Path, header: list[str], label_key: str, last_cell: str) -> DataError:
    names = [name for name in header if name]
    columns_listed = ", ".join(names[:20])
    columns = f"; its columns are {columns_listed}" if columns_listed else ""
    hint = DECIMAL_CLASSES if number_in(last_cell) % 1 > 0 else ""
    return DataError(
        f'{path} has {amount(len(names) or len(header), "column")} and none is named "{label_key}"'
        f" (points.label-key){columns}; required are {COLUMNS}, names or whole numbers{hint}",
        columns_listed,
        key="no-column",
    )


def _coordinate_columns(path: Path, header: list[str], first: Line, label: int | None) -> list[int]:
    """The columns "x" and "y", or else the two columns of numbers besides the class."""
    line, row = first
    lower = [name.lower() for name in header]
    if lower.count("x") == lower.count("y") == 1:
        third = lower.index("z") if "z" in lower else -1
        if third not in (-1, label) and is_number(row[third]):
            raise DataError(
                f"{path} has a column {header[third]} beside x and y: a third coordinate, and"
                " points in the disc have two; remove the column, or rename it if it is none",
                header[third],
                key="columns",
            )
        return [lower.index("x"), lower.index("y")]
    places = [
        place for place in range(len(row)) if place != label and (not header or header[place])
    ]
    if label is None and len(places) == 2:
        return places
    columns = [place for place in places if is_number(row[place])]
    if len(columns) != 2:
        besides = "" if label is None else f"besides the class, column {label + 1}, "
        names = f" ({names_listed([header[place] for place in columns])})" if header else ""
        hint = f"; if two of them are coordinates, name these x and y. {EMBEDDING_HINT}"
        raise DataError(
            f"{path}, line {line}: {besides}{amount(len(columns), 'column')} {be(len(columns))}"
            f" numbers{names}; required are {COLUMNS}{hint if len(columns) > 2 else ''}",
            key="columns",
        )
    return columns


def _coordinate(path: Path, line: int, row: list[str], column: int, header: Sequence[str]) -> float:
    value = number_in(row[column])
    if not math.isfinite(value):
        name = f" ({header[column]})" if header else ""  # a node strips the text with its marks
        cell = names_listed([row[column]])[:MAX_TEXT]
        shown = f'"{cell}"' if cell else "empty"
        raise DataError(
            f"{path}, line {line}: column {column + 1}{name}, a coordinate, is {shown}, no finite"
            " number; allowed are numbers such as 0.25 or 1e-3, without separators of thousands",
            shown,
            name,
            key="not-finite",
        )
    return value

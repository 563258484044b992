"""Tables of points as text: `.csv` and `.tsv`."""

import csv
import math
from pathlib import Path

import numpy as np

from curvfed.tasks.errors import DataError
from curvfed.tasks.points.raw_points import RawPoints, raw_points

COLUMNS = "two columns of coordinates and one of classes"

DEFAULT_LABEL = "label"
"""The name of the column of classes, if none is given."""


def read_table(path: Path, embedding_key: str, label_key: str, bare: bool) -> RawPoints:
    """Read a `.csv` or `.tsv` as `curvfed.tasks.points.readers.read_points` describes it.

    Raises
    ------
    DataError
        Says the line and the column, and never a value.
    """
    separator, said = ("\t", "tabs") if path.suffix.lower() == ".tsv" else (",", "commas")
    wanted = f"{COLUMNS}, separated by {said}"
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, delimiter=separator)
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    rows = [(line, row) for line, row in rows if any(row)]
    if not rows:
        raise DataError(f"{path} is empty; wanted are {wanted}")
    first_line, first_row = rows[0]
    width = len(first_row)
    if width < (2 if bare else 3):
        raise DataError(f"{path}, line {first_line}: there are {width} columns; wanted are {wanted}")
    for line, row in rows:
        if len(row) != width:
            raise DataError(f"{path}, line {line}: there are {len(row)} columns, in the first line {width}")
    header = [] if any(_is_number(cell) for cell in first_row) else first_row
    label = _label_column(path, header, width, label_key) if width > 2 else None
    body = rows[1:] if header else rows
    columns = _coordinate_columns(path, header, body[0], label) if body else []
    for line, row in body:
        for column in columns:
            if not _is_number(row[column]) or not math.isfinite(float(row[column])):
                raise DataError(f"{path}, line {line}: column {column + 1} is no finite number; it is a coordinate")
    points = [[float(row[column]) for column in columns] for _, row in body]
    classes = np.array(["" if label is None else row[label] for _, row in body], dtype=np.str_)
    return raw_points(str(path), points, classes, ("coordinates", "classes"))


def _coordinate_columns(path: Path, header: list[str], first: tuple[int, list[str]], label: int | None) -> list[int]:
    """The columns "x" and "y"; if there are none, the two columns of numbers besides the class."""
    line, row = first
    lower = [name.lower() for name in header]
    if lower.count("x") == lower.count("y") == 1:
        return [lower.index("x"), lower.index("y")]
    # A column with an empty header is the index that pandas writes.
    named = [place for place in range(len(row)) if place != label and (not header or header[place])]
    columns = [place for place in named if label is None or _is_number(row[place])]
    if label is not None and len(columns) != 2:
        raise DataError(
            f"{path}, line {line}: beside the class, column {label + 1}, {len(columns)} columns are numbers; wanted are "
            f"{COLUMNS}"
        )
    return columns


def _label_column(path: Path, header: list[str], width: int, label_key: str) -> int:
    """The column of that name. The last of three columns, if the name is the default: any other guess may be wrong."""
    if label_key in header:
        return header.index(label_key)
    named = [name for name in header if name] if header else [""] * width
    if len(named) == 3 and (label_key == DEFAULT_LABEL or not header):
        return width - 1
    there = ", ".join(named[:20])
    columns = f"; its columns are {there}" if header else ""
    raise DataError(
        f'{path} has {len(named)} columns and none is named "{label_key}" (points.label-key){columns}', there
    )


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True

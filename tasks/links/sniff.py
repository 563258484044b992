"""Recognises links by their content; imports no large library."""

import csv
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

SPLITS = ("train.txt", "valid.txt", "test.txt")
"""The files of a knowledge graph with its own split: head, relation and tail in each line."""

HEADERS = (("id1", "id2", "weight"), ("head", "tail"), ("head", "relation", "tail"))
"""First lines that are no link; the third column of the first is not read."""


EDGES = ("edge_index", "edge_type")
"""The arrays of a list of edges, as PyTorch Geometric names them."""

SEEN = 20
"""Lines that tell whether three columns of numbers are links: whole numbers alone."""


def is_links(path: Path) -> bool:
    """Whether a path holds links: a folder of `SPLITS`, an `.obo` file, an `.npz` of `EDGES`, or a
    table of two names, or of three that are not coordinates and a class: names or whole numbers."""
    if path.is_dir():
        return all((path / name).is_file() for name in SPLITS)
    if path.suffix.lower() == ".obo":
        return path.is_file()
    if path.suffix.lower() == ".npz" and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return f"{EDGES[0]}.npy" in archive.namelist()
    if path.suffix.lower() not in (".tsv", ".csv") or not path.is_file():
        return False
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = [row for _, row in zip(range(SEEN), rows_of(file, path), strict=False)]
    except (OSError, ValueError, csv.Error):
        return False
    second = lines[:2][-1] if lines else []
    if len(second) not in (2, 3):
        return False
    if is_header(lines[0]) or len(second) == 2:
        return True
    are_ids = all(cell.strip().isdecimal() for row in lines for cell in row)
    return are_ids or not any(map(_is_number, second))


def rows_of(lines: Iterable[str], path: Path) -> Iterator[list[str]]:
    """The rows of a table that are not empty, by the ending of its name."""
    separator = "," if path.suffix.lower() == ".csv" else "\t"
    return (row for row in csv.reader(lines, delimiter=separator) if row)


def is_header(row: list[str]) -> bool:
    """Whether the first row names the columns."""
    return tuple(cell.strip().lower() for cell in row) in HEADERS


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True

"""Tables of links and folders of them: how they are recognised, and their rows.

A configuration is checked with this file, which imports no large library.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from curvfed.extensions.links.sources import SPLITS
from curvfed.tasks.amounts import amount, be
from curvfed.tasks.class_names import alike, class_name, names_listed
from curvfed.tasks.errors import DataError
from curvfed.tasks.tables import SEEN, Line, first_lines, is_number, number_in

COLUMNS = {
    "head": "head h source src from child subject subj s id1 node1 start startnode fromnode",
    "relation": "relation rel r predicate pred p type label relationship edgetype edgelabel",
    "tail": "tail t target dst to parent object obj o id2 node2 end endnode tonode",
}
"""The usual names of columns, in small letters without marks and without "id" at their end."""

ROLES = {name: role for role, names in COLUMNS.items() for name in names.split()}

PARTS = {"train": 0, "valid": 1, "val": 1, "validation": 1, "dev": 1, "test": 2}
"""The names of the files of a split, and their part."""

ENDINGS = (".txt", ".tsv", ".csv", "", ".txt.gz", ".tsv.gz", ".csv.gz")
"""Ends of the names of the files of a split."""

FILES_HINT = (
    "links are a .tsv or .csv file of two columns of names or of three, head, relation and"
    " tail, an .obo file, a folder with such tables called train, valid and test, such as"
    " train.tsv, or a .pt or .npz file with edge_index"
)
"""Links in files, for error texts."""


def places_of(names: Sequence[str]) -> dict[str, int]:
    """The columns of head, relation and tail by the usual names of columns; {} without the names of
    head and tail.

    Examples
    --------
    >>> places_of(["source", "target", "type"]), places_of(["cat", "mammal"])
    ({'head': 0, 'relation': 2, 'tail': 1}, {})
    """
    roles = [ROLES.get(alike(name).removesuffix("id")) for name in names]
    places = {role: roles.index(role) for role in COLUMNS if role in roles}
    return places if {"head", "tail"} <= places.keys() else {}


def table(where: str, lines: Sequence[Line]) -> tuple[list[Line], list[str]]:
    """The links of a table, (head, relation, tail) or (head, tail), with their lines, and in words
    how its first line was read: as the names of the columns, if they are usual ones that no link
    below has.

    Lines that begin with # and have another number of columns than the others are comments. A last
    column that is empty in all lines is a separator at their ends.

    Raises
    ------
    DataError
        If a line has another number of columns.
    """
    if not any(row[-1] for _, row in lines):
        lines = [(number, row[:-1] or row) for number, row in lines]
    plain = [row for _, row in lines if not row[0].startswith("#")]
    width = len(next(iter(plain), lines[0][1] if lines else ()))
    lines = [line for line in lines if len(line[1]) == width or not line[1][0].startswith("#")]
    first, *below = [row for _, row in lines] or [[]]
    places = places_of(first)
    for number, row in lines:
        if len(row) != width or not (places or width in (2, 3)):
            raise DataError(
                f"{where}, line {number}: there {be(len(row))} {amount(len(row), 'column')};"
                " allowed are two, head and tail, or three, head, relation and tail, in all lines;"
                " or others below a line of their names, such as source, target",
                key="columns",
            )
    evident = [places["relation"]] if "relation" in places else list(places.values())
    occurs = {row[place] for row in below for place in evident} & {
        first[place] for place in evident
    }
    if not places or (width < 4 and occurs):
        return [*lines], []
    columns = ", ".join(f"{role} = {first[place]}" for role, place in places.items())
    links = [(number, [row[place] for place in places.values()]) for number, row in lines[1:]]
    return links, [f"line {lines[0][0]} names the columns: {columns}"]


def is_unclear(lines: Sequence[Line]) -> bool:
    """Whether the first lines of a table are missing, or a single one that may be a link or the
    names of other columns."""
    rows = [row for _, row in lines]
    return not rows or (
        len(rows) == 1 and not places_of(rows[0]) and not any(map(is_number, rows[0]))
    )


def columns_of(lines: Sequence[Line]) -> str:
    """The columns of a table of links by its first lines, in words: names, or whole numbers alone;
    "" for coordinates, and for names with a number as their class.

    Whole numbers may have decimals, such as 1.0, below names of columns and in two columns: points
    have a third one.
    """
    sample = lines[:SEEN]
    lines = [line for line in sample if len(line[1]) == len(sample[-1][1])]
    try:
        links, names = table("", lines)
    except DataError:
        return ""
    rows = [row for _, row in links]
    body = rows if names else rows[1:] or rows
    columns = list(zip(*body, strict=True))
    numeric = [place for place, cells in enumerate(columns) if all(map(is_number, cells))]
    is_whole = _is_whole if names or len(columns) == 2 else str.isdecimal
    are_whole = all(is_whole(row[place]) for row in rows for place in numeric)
    if not lines or not are_whole or not (names or len(numeric) in (0, len(columns))):
        return ""
    number = "two" if len(columns) == 2 else "three"
    return "".join(names) or f"{number} columns of {'whole numbers' if numeric else 'names'}"


def _is_whole(cell: str) -> bool:
    """Whether a cell is a whole number, with decimals or without."""
    return number_in(cell) % 1 == 0


def weighted(lines: Sequence[Line]) -> str:
    """The columns of a table without names of columns that may be links with a weight, in words;
    "" for other tables. Points have two columns of numbers."""
    rows = [row for _, row in lines[:SEEN]]
    if {len(row) for row in rows} not in ({3}, {4}):
        return ""
    columns = list(zip(*rows, strict=True))
    numeric = [place for place, cells in enumerate(columns) if all(map(is_number, cells))]
    return "columns of names and a last one of numbers" if numeric == [len(columns) - 1] else ""


def plain_numbers(rows: Sequence[list[str]], place_of: Callable[[int], str]) -> Sequence[list[str]]:
    """The links with one form of each number, 1 for 1.0, if all heads and tails are whole numbers:
    pandas writes decimals in a column with a gap.

    Parameters
    ----------
    rows : sequence of list of str
    place_of : callable
        From the position of a link to its file and line, for error texts.

    Raises
    ------
    DataError
        If such a number has an exponent or so many digits that it may be rounded.
    """
    ends = {cell for row in rows for cell in (row[0], row[-1])}
    if all(map(str.isdecimal, ends)) or not all(map(_is_whole, ends)):
        return rows
    for position, row in enumerate(rows):
        for cell in (row[0], row[-1]):
            if not re.fullmatch(r"-?\d+", class_name(cell), re.ASCII):
                raise DataError(
                    f'{place_of(position)}: "{cell}" may be a rounded number; allowed are names'
                    " and whole numbers without an exponent: with pandas, read the table by"
                    ' dtype=str or "Int64"',
                    f'"{cell}"',
                    key="link-names",
                )
    return [[class_name(row[0]), *row[1:-1], class_name(row[-1])] for row in rows]


def split_files(folder: Path) -> dict[Path, int]:
    """The files of a folder of links, and the part of each: 0 training, 1 validation, 2 test; {}
    for other folders."""
    for end in ENDINGS:
        files = {folder / f"{name}{end}": split for name, split in PARTS.items()}
        files = {path: split for path, split in files.items() if path.is_file()}
        if 0 in files.values() and len({*files.values()}) > 1:
            return files
    return {}


def missing_part(folder: Path) -> str:
    """The missing files of a folder that has tables of links by the names of a split, and other
    parts of it, in words; "" for other folders."""
    if split_files(folder) or any(map(Path.is_dir, folder.iterdir())):
        return ""
    for end in ENDINGS:
        files = [folder / f"{name}{end}" for name in PARTS]
        present = [file for file in files if file.is_file()]
        if present and columns_of(first_lines(present[0])):
            has_train = present[0] == files[0]
            return f"valid{end} or test{end} is missing" if has_train else f"train{end} is missing"
    return ""


def folder_of_links(folder: Path) -> str:
    """Why a folder holds links with their split, in words: it has the files of `SPLITS`, or tables
    of links without folders next to them, as pictures have; "" for other folders."""
    names = [file.name for file in split_files(folder)]
    if not names:
        return ""
    columns = columns_of(first_lines(folder / names[0]))
    has_folders = any(map(Path.is_dir, folder.iterdir()))
    if not {*SPLITS} <= {*names} and (has_folders or not columns):
        return ""
    return f"{names_listed(names)} are the parts of a split"

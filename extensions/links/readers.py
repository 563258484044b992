"""Readers of links: tables, folders with a split, OBO files, and the edges of stored graphs."""

import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from curvfed.extensions.links.raw import RawLinks, raw_links
from curvfed.extensions.links.sources import EDGES
from curvfed.extensions.links.tables import plain_numbers, split_files, table, weighted
from curvfed.geometry.arrays import Array
from curvfed.tasks.amounts import amount
from curvfed.tasks.class_names import names_listed
from curvfed.tasks.errors import DataError, unreadable
from curvfed.tasks.graphs.data.raw import unused
from curvfed.tasks.graphs.data.stored_objects import read_objects
from curvfed.tasks.graphs.data.user_file import graph_fields
from curvfed.tasks.public_data import Located
from curvfed.tasks.sources import STORED
from curvfed.tasks.tables import Line, ending, is_number, read_text, table_lines

GRAPH = "a graph with edge_index, and edge_type for several relations"


def locate(path: Path, order: Sequence[int] | None = None) -> Located[RawLinks]:
    """The files of links, as `read_links` reads them."""
    files = tuple(split_files(path)) if path.is_dir() else (path,)
    return Located(files, lambda: read_links(path, order))


def read_links(path: Path, order: Sequence[int] | None = None) -> RawLinks:
    """Read links: a `.pt`, `.obo` or `.npz` file, a table, or a folder with the tables of a split.

    Parameters
    ----------
    path : Path
    order : sequence of int, optional
        The columns of head, relation and tail of tables without names of columns; by default the
        first, second and third.

    Raises
    ------
    DataError
        If a file cannot be read, a line has another number of names, edges are not whole numbers,
        or links are missing.
    """
    kind = ending(path)
    if kind in STORED:
        return edge_links(str(path), graph_fields(str(path), read_objects(path, GRAPH)))
    if kind == ".obo":
        return raw_links(str(path), list(_obo_links(read_text(path))))
    if kind == ".npz":
        return edge_links(str(path), _edge_arrays(path))
    return _read_tables(path, split_files(path) or {path: None}, order)


def _edge_arrays(path: Path) -> dict[str, Array]:
    """The arrays of `EDGES` that an `.npz` holds."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in EDGES if name in file}
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise unreadable(path, error, ".npz file of edges") from error


def _read_tables(
    path: Path, files: Mapping[Path, int | None], order: Sequence[int] | None
) -> RawLinks:
    """A table, or the tables of a split by their parts."""
    rows: list[list[str]] = []
    places: list[tuple[Path, int]] = []
    parts: list[Any] = []
    history: list[str] = []
    first_rows: list[list[str]] = []
    for file, split in files.items():
        lines, columns = table(str(file), table_lines(file))
        if file == path and not columns and weighted(lines):
            raise _weights(path, lines[0])
        links = [row for _, row in lines]
        if rows and links and len(links[0]) != len(rows[0]):
            raise DataError(
                f"{file} has links of {amount(len(links[0]), 'column')}, and {places[0][0].name} of"
                f" {len(rows[0])}; allowed are two, head and tail, or three, head, relation and"
                " tail, in all files of a folder",
                key="columns",
            )
        places += [(file, number) for number, _ in lines]
        if order is not None:
            links = [[link[place] for place in order] for link in links]
        rows += links
        parts += [split] * len(links)
        # The run's log names the file or folder that the user gave.
        within = "" if file == path else f"{file.name}, "
        history += [f"{within}{text}" for text in columns]
        first_rows += [] if columns else links[:1]

    def place_of(position: int) -> str:
        file, number = places[position]
        return f"{file}, line {number}"

    numbered = plain_numbers(rows, place_of)
    if numbered != rows:
        history += ["whole numbers with decimals, such as 1.0, are read without them"]
    raw = raw_links(str(path), numbered, None if path in files else parts, history, place_of)
    return replace(raw, notes=(*_possible_headers(first_rows, rows), *_new_relations(raw)))


def _new_relations(raw: RawLinks) -> tuple[str, ...]:
    """A note about test links with a relation that no training link has."""
    if raw.parts is None:
        return ()
    relations = raw.triples[:, 1]
    tested = relations[raw.parts == 2]
    new = tested[~np.isin(tested, relations[raw.parts == 0])]
    if not len(new):
        return ()
    names = [raw.relations[number] for number in np.unique(new)]
    return (
        f"{len(new):,} of {len(tested):,} test links have a relation without a training link,"
        f" {names_listed(names)}: no method learns it",
    )


def _weights(path: Path, line: Line) -> DataError:
    """The error for a table with numbers in its last column, which may be weights or tails."""
    number, row = line
    return DataError(
        f'{path}, line {number}: the last column has numbers, "{row[-1]}" here, which may be'
        " weights or tails; allowed is a first line with the names of the columns, such as head,"
        " tail, weight, or head, relation, tail",
        f'"{row[-1]}"',
        key="columns",
    )


def _possible_headers(
    first_rows: Sequence[Sequence[str]], rows: Sequence[Sequence[str]]
) -> tuple[str, ...]:
    """A note about a first line of names that no other link has."""
    counts = Counter(name for row in rows for name in row)
    for row in first_rows:
        is_alone = all(counts[name] == first_rows.count(row) for name in row)
        if is_alone and not any(map(is_number, row)):
            return (
                f"the first line, {', '.join(row)}, is read as a link, and no other line has these"
                " names: if they name the columns, remove the line, or write source, target and"
                " type",
            )
    return ()


def edge_links(where: str, fields: Mapping[str, Any]) -> RawLinks:
    """The edges of a graph; its nodes and relations are named by their numbers: `edge_index` (2,
    E); `edge_type` or `edge_reltype` (E,) if there are several relations; and, without features of
    nodes, three masks (E,) of a split. The history names all other fields.

    Raises
    ------
    DataError
        If they have other shapes, or are not whole numbers from 0 on.
    """
    present = [name for name, value in fields.items() if value is not None and name != "num_nodes"]
    arrays = {name: np.asarray(fields[name]) for name in EDGES if name in present}
    names = [name for name in EDGES[:3] if name in arrays][:2]
    tables = [arrays[name].squeeze() if name == "edge_reltype" else arrays[name] for name in names]
    count = tables[0].shape[-1:] if tables else ()
    shapes = [array.shape for array in tables]
    is_whole = all(array.dtype.kind in "iu" and array.min(initial=0) >= 0 for array in tables)
    if not is_whole or shapes not in ([(2, *count)], [(2, *count), count]):
        description = ", ".join(
            f"{name} {arrays[name].dtype}{list(arrays[name].shape)}" for name in names
        )
        raise DataError(
            f"{where} has {description or 'no edge_index'}; allowed are edge_index [2, E] and"
            " edge_type [E], or none, of whole numbers from 0 on",
            key="edges",
        )
    order = [0, 2, 1] if len(tables) == 2 else [0, 1]
    rows = [list(map(str, row)) for row in np.vstack(tables)[order].T.tolist()]
    masks = [array for name, array in arrays.items() if name in EDGES[3:] and array.shape == count]
    is_split = len(masks) == 3 and "x" not in present and bool((np.sum(masks, axis=0) == 1).all())
    used = EDGES if is_split else names
    parts = np.argmax(masks, axis=0).tolist() if is_split else None
    return raw_links(where, rows, parts, unused([name for name in present if name not in used]))


def _obo_links(text: str) -> Iterator[tuple[str, str, str]]:
    """Each `is_a` and `relationship` of the terms that are not obsolete (OBO 1.4)."""
    for stanza in re.split(r"^[ \t]*\[", text, flags=re.MULTILINE):
        lines = re.findall(r"^[ \t]*(\w+):([^!{\n]*)", stanza, re.MULTILINE)
        tags = [(tag, value.split()) for tag, value in lines]
        if not stanza.startswith("Term]") or ("is_obsolete", ["true"]) in tags:
            continue
        term = "".join(dict(tags).get("id", [])[:1])
        for tag, words in tags:
            link = [tag, *words] if tag == "is_a" else words
            if tag in ("is_a", "relationship") and len(link) > 1:
                yield term, link[0], link[1]

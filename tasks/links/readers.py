"""Readers of links: tables, folders with a split, OBO files, and the edges of stored graphs."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from curvfed.tasks.errors import DataError, unreadable
from curvfed.tasks.graphs.data.raw import unused
from curvfed.tasks.graphs.data.stored_objects import read_objects
from curvfed.tasks.graphs.data.user_file import graph_fields
from curvfed.tasks.link_tables import (
    UNREADABLE,
    ending,
    numbered_rows,
    open_text,
    split_files,
    table,
)
from curvfed.tasks.links import RawLinks, raw_links
from curvfed.tasks.public_data import Located
from curvfed.tasks.sources import EDGES, STORED

GRAPH = "a graph with edge_index, and edge_type for several relations"


def locate(path: Path) -> Located[RawLinks]:
    """The files of links."""
    files = tuple(split_files(path)) if path.is_dir() else (path,)
    return Located(files, lambda: read_links(path))


def read_links(path: Path) -> RawLinks:
    """Read links; see `curvfed.tasks.formats.is_links` for the formats.

    Raises
    ------
    DataError
        If a file cannot be read, a line has another number of names, edges are no whole numbers, or
        there is no link.
    """
    kind = ending(path)
    try:
        if kind == ".obo":
            with open_text(path) as file:
                return raw_links(str(path), list(_obo_links(file)))
        if kind in STORED:
            return edge_links(str(path), graph_fields(str(path), read_objects(path, GRAPH)))
        if kind == ".npz":
            with np.load(path, allow_pickle=False) as file:
                return edge_links(str(path), {name: file[name] for name in EDGES if name in file})
        return _read_tables(path, split_files(path) or {path: None})
    except UNREADABLE as error:
        if isinstance(error, DataError):
            raise
        raise unreadable(path, error, "file of links in UTF-8 or UTF-16") from error


def _read_tables(path: Path, files: Mapping[Path, int | None]) -> RawLinks:
    """A table, or the tables of a split by their parts."""
    rows: list[list[str]] = []
    parts: list[Any] = []
    history: list[str] = []
    for file, part in files.items():
        links, notes = table(str(file), list(numbered_rows(file)))
        rows += links
        parts += [part] * len(links)
        history += [f"{file.name}, {note}" for note in notes]
    return raw_links(str(path), rows, None if path in files else parts, history)


def edge_links(where: str, fields: Mapping[str, Any]) -> RawLinks:
    """The edges of a graph, whose nodes and relations are named by their numbers: `edge_index` (2,
    E); `edge_type` or `edge_reltype` (E,) if there are several relations; and, without features of
    nodes, three masks (E,) of a split. The history names all other fields.

    Raises
    ------
    DataError
        If they have other shapes, or are no whole numbers from 0 on.
    """
    present = [name for name, value in fields.items() if value is not None and name != "num_nodes"]
    arrays = {name: np.asarray(fields[name]) for name in EDGES if name in present}
    names = [name for name in EDGES[:3] if name in arrays][:2]
    tables = [arrays[name].squeeze() if name == "edge_reltype" else arrays[name] for name in names]
    count = tables[0].shape[-1:] if tables else ()
    shapes = [array.shape for array in tables]
    is_whole = all(array.dtype.kind in "iu" and array.min(initial=0) >= 0 for array in tables)
    if not is_whole or shapes not in ([(2, *count)], [(2, *count), count]):
        held = ", ".join(f"{name} {arrays[name].dtype}{list(arrays[name].shape)}" for name in names)
        raise DataError(
            f"{where} has {held or 'no edge_index'}; allowed are edge_index [2, E] and edge_type"
            " [E], or none, of whole numbers from 0 on",
            key="edges",
        )
    order = [0, 2, 1] if len(tables) == 2 else [0, 1]
    rows = [list(map(str, row)) for row in np.vstack(tables)[order].T.tolist()]
    masks = [array for name, array in arrays.items() if name in EDGES[3:] and array.shape == count]
    is_split = len(masks) == 3 and "x" not in present and bool((np.sum(masks, axis=0) == 1).all())
    used = EDGES if is_split else names
    parts = np.argmax(masks, axis=0).tolist() if is_split else None
    return raw_links(where, rows, parts, unused([name for name in present if name not in used]))


def _obo_links(lines: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Each `is_a` and `relationship` of the terms that are not obsolete (OBO 1.4)."""
    stanza: list[tuple[str, str]] = []
    kind = ""
    term = ""
    for line in (*lines, "[End]"):
        text = line.partition("!")[0].strip()
        if text.startswith("["):
            yield from ((term, relation, parent) for relation, parent in stanza)
            stanza = []
            kind = text
        tag, _, value = text.partition(":")
        words = value.partition("{")[0].split()
        if kind != "[Term]" or not words:
            continue
        if tag == "id":
            term = words[0]
        elif tag == "is_obsolete" and words == ["true"]:
            stanza = []
            kind = ""
        elif tag == "is_a":
            stanza.append(("is_a", words[0]))
        elif tag == "relationship" and len(words) > 1:
            stanza.append((words[0], words[1]))

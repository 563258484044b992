"""Files of links: tables of edges, OBO files, and folders of triples."""

import csv
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from curvfed.tasks.errors import DataError, unreadable
from curvfed.tasks.links.client_links import RawLinks, raw_links
from curvfed.tasks.links.sniff import EDGES, SPLITS, is_header, rows_of
from curvfed.tasks.public_data import Located


def locate(path: Path) -> Located[RawLinks]:
    """The files of links."""
    files = tuple(path / name for name in SPLITS) if path.is_dir() else (path,)
    return Located(files, lambda: read_links(path))


def read_links(path: Path) -> RawLinks:
    """Read links; see `curvfed.tasks.links.sniff.is_links` for the formats.

    Raises
    ------
    DataError
        If a file cannot be read, a line has another number of names, edges are no whole numbers, or
        there is no link.
    """
    try:
        if path.is_dir():
            return _read_splits(path)
        if path.suffix.lower() == ".obo":
            with path.open(encoding="utf-8-sig") as file:
                return raw_links(str(path), list(_obo_links(file)))
        if path.suffix.lower() in (".pt", ".npz"):
            return raw_links(str(path), _edges(path))
        with path.open(encoding="utf-8-sig", newline="") as file:
            return raw_links(str(path), _table(file, path))
    except (OSError, ValueError, csv.Error) as error:
        if isinstance(error, DataError):
            raise
        raise unreadable(path, error, "file of links in UTF-8") from error


def _read_splits(folder: Path) -> RawLinks:
    rows: list[list[str]] = []
    parts: list[int] = []
    for part, name in enumerate(SPLITS):
        with (folder / name).open(encoding="utf-8-sig", newline="") as file:
            triples = _table(file, folder / name)
        rows += triples
        parts += [part] * len(triples)
    return raw_links(str(folder), rows, parts)


def _table(lines: Iterator[str], path: Path) -> list[list[str]]:
    """The links of a table."""
    rows = list(rows_of(lines, path))
    has_header = bool(rows) and is_header(rows[0])
    width = len(rows[0]) if rows else 0
    for line, row in enumerate(rows, 1):
        if len(row) != width or width not in (2, 3):
            raise DataError(
                f"{path}, line {line}: there are {len(row)} columns; allowed are two, head and"
                " tail, or three, head, relation and tail, in all lines",
                key="columns",
            )
    is_weighted = has_header and rows[0][-1].strip().lower() == "weight"
    return [row[:2] if is_weighted else row for row in rows[has_header:]]


def _edges(path: Path) -> list[list[str]]:
    """The edges of a `.pt` file, a `Data` or a dict, or of an `.npz` file: `edge_index` (2, E), and
    `edge_type` (E,) if there are several relations. Nodes and relations are named by their
    numbers."""
    fields: Mapping[str, Any]
    if path.suffix.lower() == ".pt":
        from curvfed.tasks.graphs.data.stored_objects import read_objects
        from curvfed.tasks.graphs.data.user_file import graph_fields

        stored = read_objects(path, "a graph with edge_index, and edge_type for several relations")
        fields = graph_fields(str(path), stored)
    else:
        with np.load(path, allow_pickle=False) as file:
            fields = {name: file[name] for name in EDGES if name in file.files}
    arrays = [np.asarray(fields[name]) for name in EDGES if fields.get(name) is not None]
    table = np.vstack(arrays) if arrays else np.zeros((0, 0))
    if len(table) != len(arrays) + 1 or table.dtype.kind not in "iu" or (table < 0).any():
        raise DataError(
            f"{path} has {table.dtype}{list(table.shape)} in {' and '.join(EDGES)}; allowed are"
            " edge_index [2, E] and edge_type [E], or none, of whole numbers from 0 on",
            key="edges",
        )
    order = [0, 2, 1] if len(table) == 3 else [0, 1]
    return [list(map(str, row)) for row in table[order].T.tolist()]


def _obo_links(lines: Iterator[str]) -> Iterator[tuple[str, str, str]]:
    """Each `is_a` and `relationship` of the terms that are not obsolete (OBO 1.4)."""
    stanza: list[tuple[str, str]] = []
    term = ""
    for line in (*lines, "[End]"):
        text = line.partition("!")[0].strip()
        if text.startswith("["):
            yield from ((term, relation, parent) for relation, parent in stanza)
            stanza = []
            term = ""
        tag, _, value = text.partition(": ")
        words = value.split("{")[0].split()
        if tag == "id" and words:
            term = words[0]
        elif tag == "is_obsolete" and value == "true":
            stanza = []
            term = ""
        elif term and tag == "is_a" and words:
            stanza.append(("is_a", words[0]))
        elif term and tag == "relationship" and len(words) > 1:
            stanza.append((words[0], words[1]))


def balanced_tree(branching: int, depth: int) -> RawLinks:
    """The links from each node of a balanced tree to all its ancestors; a node's name is its path
    from the root."""
    nodes = ["0"]
    layer = ["0"]
    for _ in range(depth):
        layer = [f"{node}.{child}" for node in layer for child in range(branching)]
        nodes += layer
    rows = []
    for node in nodes:
        steps = node.split(".")
        rows += [(node, ".".join(steps[:end])) for end in range(1, len(steps))]
    return raw_links("the balanced tree", rows)


def random_tree(nodes: int, depth: int, seed: int) -> RawLinks:
    """The links from each node of a random tree to all its ancestors.

    Every node hangs below one of the earlier nodes above the last layer, each with equal
    probability.
    """
    draw = random.Random(seed)
    ancestors: list[list[int]] = [[]]
    inner = [0]
    for node in range(1, nodes):
        parent = draw.choice(inner)
        ancestors.append([*ancestors[parent], parent])
        if len(ancestors[node]) < depth:
            inner.append(node)
    rows = [(f"n{node}", f"n{above}") for node, line in enumerate(ancestors) for above in line]
    return raw_links("the random tree", rows)

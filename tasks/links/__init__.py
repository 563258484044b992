"""Links between entities: taxonomies, ontologies, knowledge graphs and graphs of friends. Here are
the links of a data set, read from tables of edges, OBO files and folders of triples, and those of
one client."""

import csv
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from curvfed.tasks.errors import DataError, unreadable
from curvfed.tasks.examples import Examples, sha256
from curvfed.tasks.formats import is_header, rows_of
from curvfed.tasks.links.ranking import frequent_mrr
from curvfed.tasks.public_data import Located
from curvfed.tasks.sources import EDGES, SPLITS

RELATION = "→ "
"""Beginning of the name of a relation among the names that a client states."""


@dataclass(frozen=True, eq=False)
class RawLinks:
    """The links of a file or a data set.

    Attributes
    ----------
    triples : (n, 3), int64
        Head, relation, tail: rows of `entities` and `relations`; each triple once, in the order of
        the file.
    entities, relations : tuple of str
        Names; the relation of links without one has the name "".
    parts : (n,), int64, or None
        0 training, 1 validation, 2 test, if the data set has its own split.
    """

    triples: NDArray[np.int64]
    entities: tuple[str, ...]
    relations: tuple[str, ...]
    parts: NDArray[np.int64] | None = None


def raw_links(
    where: str, rows: Sequence[Sequence[str]], parts: Sequence[int] | None = None
) -> RawLinks:
    """Number the names of links (head, tail) or (head, relation, tail), in alphabetical order.

    Links of an entity to itself, and repeated ones, are left out.

    Raises
    ------
    DataError
        If there is no link, or a name is empty or begins like that of a relation.
    """
    kept: dict[tuple[str, str, str], int] = {}
    for position, row in enumerate(rows):
        head, *between, tail = (" ".join(cell.split()) for cell in row)
        if not head or not tail or head.startswith(RELATION) or tail.startswith(RELATION):
            raise DataError(
                f'{where}, link {position + 1}: a name is empty or begins with "{RELATION}";'
                " allowed are other names",
                key="link-names",
            )
        if head != tail:
            kept.setdefault((head, *between, tail) if between else (head, "", tail), position)  # type: ignore[arg-type]
    if not kept:
        raise DataError(f"{where} has no links between two entities", key="no-links")
    entities = tuple(sorted({name for head, _, tail in kept for name in (head, tail)}))
    relations = tuple(sorted({relation for _, relation, _ in kept}))
    number = {name: row for row, name in enumerate(entities)}
    relation_number = {name: row for row, name in enumerate(relations)}
    triples = np.array([(number[h], relation_number[r], number[t]) for h, r, t in kept])
    if parts is not None:
        parts_kept = np.array([parts[position] for position in kept.values()])
        return RawLinks(triples, entities, relations, parts_kept)
    return RawLinks(triples, entities, relations)


def stated_names(entities: Sequence[str], relations: Sequence[str]) -> tuple[str, ...]:
    """The names that a client states: entities, then relations, unless no link has a name of its
    relation."""
    named = relations if any(relations) else ()
    return (*entities, *(f"{RELATION}{name}" for name in named))


def split_names(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The entities and the relations of stated names; without a relation, the only one is "".

    Examples
    --------
    >>> split_names(["cat", "→ is a", "mammal", "→ eats"])
    (['cat', 'mammal'], ['is a', 'eats'])
    """
    entities = [name for name in names if not name.startswith(RELATION)]
    relations = [name.removeprefix(RELATION) for name in names if name.startswith(RELATION)]
    return entities, relations or [""]


@dataclass(frozen=True, eq=False, kw_only=True)
class ClientLinks(Examples):
    """Links of a client, of a whole data set, or those that a server scores; see `Examples`, whose
    labels are the tails.

    Attributes
    ----------
    heads, relations : Tensor, (n,), int64
        Rows of the entities and relations in `class_names`.
    """

    heads: Tensor
    relations: Tensor

    task: ClassVar[str] = "links"
    shape: ClassVar[str] = ""
    num_features: ClassVar[int] = 1

    def describe(self) -> str:
        """The number of links and entities."""
        held = len(torch.unique(torch.cat([self.heads, self.labels])))
        return f"{len(self.labels)} links between {held} entities"

    def statistics(self, triangles: bool = True) -> dict[str, Any]:
        """The numbers of links, and the score of the most frequent tails; names of entities have no
        counts."""
        sizes = {f"num_{part}": int(getattr(self, part).sum()) for part in ("train", "val", "test")}
        return {**sizes, **self.trivial_scores()}

    def trivial_scores(self) -> dict[str, float | None]:
        """See `Examples`: the mean reciprocal rank of always answering with the most frequent tails
        of the relation, among entities of training links."""
        triples = torch.stack([self.heads, self.relations, self.labels], dim=1)
        sizes = [len(names) for names in split_names(self.class_names)]
        return {"frequent_mrr": frequent_mrr(triples, self.train, self.test, *sizes)}

    def numbered(self, class_names: Sequence[str]) -> Tensor:
        """Head, relation and tail (n, 3) as rows of a federation's entities and relations; −1 for
        those that it does not name.

        Raises
        ------
        DataError
            If there are links, and it names none of them.
        """
        entities, relations = split_names(class_names)
        own_entities, own_relations = split_names(self.class_names)
        rows = _rows(own_entities, entities)
        numbers = _rows(own_relations, relations)[self.relations]
        triples = torch.stack([rows[self.heads], numbers, rows[self.labels]], dim=1)
        if len(triples) and not (triples >= 0).all(dim=1).any():
            raise DataError(
                f"none of the {len(triples)} links has two entities and a relation that the clients"
                " of this run name; allowed are their names, and links without a relation only if"
                " no client names one",
                key="unknown-links",
            )
        return triples

    def check_test(self, shape: str, class_names: Sequence[str]) -> None:
        """Accept links of which a client has some; others are not scored.

        Raises
        ------
        DataError
            If no client has any of the links.
        """
        self.numbered(class_names)

    def bytes_on(self, device: torch.device) -> int:
        """Bytes of the numbers."""
        return 6 * self.labels.nbytes

    def computed_digest(self) -> str:
        """SHA-256 of the data."""
        return sha256("\n".join(self.class_names), self.tensors())


def _rows(names: list[str], all_names: list[str]) -> Tensor:
    """The row of each name; −1 for a name that the federation does not have."""
    numbers = {name: row for row, name in enumerate(all_names)}
    return torch.tensor([numbers.get(name, -1) for name in names])


def locate(path: Path) -> Located[RawLinks]:
    """The files of links."""
    files = tuple(path / name for name in SPLITS) if path.is_dir() else (path,)
    return Located(files, lambda: read_links(path))


def read_links(path: Path) -> RawLinks:
    """Read links; see `curvfed.tasks.formats.is_links` for the formats.

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
    names = [name for name in EDGES if fields.get(name) is not None]
    arrays = {name: np.asarray(fields[name]) for name in names}
    held = ", ".join(f"{name} {array.dtype}{list(array.shape)}" for name, array in arrays.items())
    number = arrays["edge_index"].shape[-1:] if "edge_index" in arrays else ()
    shapes = [(2, *number), number][: len(arrays)]
    is_whole = all(array.dtype.kind in "iu" for array in arrays.values())
    if not number or [array.shape for array in arrays.values()] != shapes or not is_whole:
        raise _wrong_edges(path, held or "neither edge_index nor edge_type")
    table = np.vstack(list(arrays.values()))
    if (table < 0).any():
        raise _wrong_edges(path, f"{held} with numbers below 0")
    order = [0, 2, 1] if len(table) == 3 else [0, 1]
    return [list(map(str, row)) for row in table[order].T.tolist()]


def _wrong_edges(path: Path, held: str) -> DataError:
    return DataError(
        f"{path} has {held}; allowed are edge_index [2, E] and edge_type [E], or none, of whole"
        " numbers from 0 on",
        key="edges",
    )


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

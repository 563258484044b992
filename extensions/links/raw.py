"""The links of a file or a data set, and those of generated trees."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from curvfed.extensions.links.names import RELATION
from curvfed.tasks.amounts import amount
from curvfed.tasks.class_names import normalised
from curvfed.tasks.errors import DataError
from curvfed.tasks.record_split import record_of


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
    history : tuple of str
        How they were read, and the omissions, in words.
    notes : tuple of str
        Possible faults of the links, in words.
    """

    task: ClassVar[str] = "links"

    triples: NDArray[np.int64]
    entities: tuple[str, ...]
    relations: tuple[str, ...]
    parts: NDArray[np.int64] | None = None
    history: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @cached_property
    def records(self) -> list[bytes]:
        """The links, by the names of their ends, in alphabetical order, and of their relation: the
        two directions of a link are one record."""
        records = []
        for head, relation, tail in self.triples.tolist():
            ends = "\0".join(sorted([self.entities[head], self.entities[tail]]))
            records.append(record_of(ends.encode(), self.relations[relation]))
        return records

    def context(self) -> bytes:
        """Which end of each link is the head, as bits in an order of their own."""
        triples = self.triples.tolist()
        heads = [self.entities[head] < self.entities[tail] for head, _, tail in triples]
        pairs = zip(self.records, heads, strict=True)
        return bytes(is_first for _, is_first in sorted(pairs))


def raw_links(
    where: str,
    rows: Sequence[Sequence[str]],
    parts: Sequence[int] | None = None,
    history: Sequence[str] = (),
    place_of: Callable[[int], str] | None = None,
) -> RawLinks:
    """Number the names of links (head, tail) or (head, relation, tail), in alphabetical order.

    Links of an entity to itself, and repeated ones, are left out; the history counts them.
    `place_of` gives the file and line of a link for error texts, which else have its number.

    Raises
    ------
    DataError
        If links are missing, or a name is empty or begins like that of a relation.
    """
    first: dict[tuple[str, str, str], int] = {}
    left_out: Counter[str] = Counter()
    for position, row in enumerate(rows):
        head, *middle, tail = map(normalised, row)
        if not head or not tail or head.startswith(RELATION) or tail.startswith(RELATION):
            place = place_of(position) if place_of else f"{where}, link {position + 1}"
            raise _unnamed(place, head, tail)
        if head == tail:
            left_out["of an entity to itself"] += 1
            continue
        earlier = first.setdefault((head, "".join(middle), tail), position)
        if parts is not None and parts[earlier] != parts[position]:
            left_out["that an earlier part of the split has"] += 1
        elif earlier != position:
            left_out["repeated"] += 1
    if not first:
        raise DataError(f"{where} has no links between two entities", key="no-links")
    entities = tuple(sorted({name for head, _, tail in first for name in (head, tail)}))
    relations = tuple(sorted({relation for _, relation, _ in first}))
    number = {name: row for row, name in enumerate(entities)}
    relation_number = {name: row for row, name in enumerate(relations)}
    triples = np.array([(number[h], relation_number[r], number[t]) for h, r, t in first])
    steps = [*history]
    if left_out:
        counts = ", ".join(f"{count:,} {words}" for words, count in left_out.items())
        steps.append(f"{amount(format(len(rows), ','), 'link')}, of which {counts} are left out")
    if parts is None:
        kept_parts = None
    else:
        kept_parts = np.array([parts[place] for place in first.values()])
    return RawLinks(triples, entities, relations, kept_parts, tuple(steps))


def _unnamed(place: str, head: str, tail: str) -> DataError:
    """The error for a link with an empty name, or one that begins like that of a relation."""
    names = [f'"{name}"' for name in (head, tail) if name]  # a node strips them with their quotes
    if len(names) == 2:
        unfit = tail if tail.startswith(RELATION) else head
        text = f'the name "{unfit}" begins with "{RELATION}"; allowed are other names'
    elif head:
        text = f'"{head}" has no tail, its name is empty; a root needs no row: delete this one'
    elif tail:
        text = f'"{tail}" has no head, its name is empty; allowed are two names: delete the row'
    else:
        text = "the names of head and tail are empty; allowed are two names: delete the row"
    return DataError(f"{place}: {text}", *names, key="link-names")


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

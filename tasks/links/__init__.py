"""Links between entities: taxonomies, ontologies, knowledge graphs and graphs of friends. Here are
the links of a data set, and those of one client."""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from curvfed.tasks.class_names import normalised
from curvfed.tasks.errors import DataError
from curvfed.tasks.examples import Examples, sha256
from curvfed.tasks.links.ranking import frequent_mrr
from curvfed.tasks.record_split import record_of

RELATION = "→ "
"""Beginning of the name of a relation among the names that a client states."""

NUM_UNRANKED = "num_test_unranked"
UNFIT = (NUM_UNRANKED, "num_test_reversed")
"""The numbers of a client's test links with an entity that none of its training links has, and of
those that are training links in the other direction."""


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
        How they were read, and what is left out, in words.
    notes : tuple of str
        What may be wrong with them, in words.
    """

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
) -> RawLinks:
    """Number the names of links (head, tail) or (head, relation, tail), in alphabetical order.

    Links of an entity to itself, and repeated ones, are left out; the history counts them.

    Raises
    ------
    DataError
        If there is no link, or a name is empty or begins like that of a relation.
    """
    first: dict[tuple[str, str, str], int] = {}
    left_out: Counter[str] = Counter()
    for position, row in enumerate(rows):
        head, *between, tail = map(normalised, row)
        if not head or not tail or head.startswith(RELATION) or tail.startswith(RELATION):
            raise DataError(
                f'{where}, link {position + 1}: a name is empty or begins with "{RELATION}";'
                " allowed are other names",
                key="link-names",
            )
        if head == tail:
            left_out["of an entity to itself"] += 1
            continue
        earlier = first.setdefault((head, "".join(between), tail), position)
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
        steps.append(f"{len(rows):,} links, of which {counts} are left out")
    kept_parts = None if parts is None else np.array([parts[place] for place in first.values()])
    return RawLinks(triples, entities, relations, kept_parts, tuple(steps))


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
    history : str
        How the links were read, in words for the log.
    doubts : tuple of str
        What may be wrong with their file, in words.
    """

    heads: Tensor
    relations: Tensor
    history: str = ""
    doubts: tuple[str, ...] = ()

    task: ClassVar[str] = "links"
    shape: ClassVar[str] = ""
    num_features: ClassVar[int] = 1

    def describe(self) -> str:
        """The number of links, of relations if there are several, and of entities."""
        held = len(torch.unique(torch.cat([self.heads, self.labels])))
        number = len(torch.unique(self.relations))
        kinds = f" of {number} relations" if number > 1 else ""
        return f"{len(self.labels)} links{kinds} between {held} entities"

    @property
    def notes(self) -> list[str]:
        """What may be wrong with the links, in words; see also `unfit_tests`."""
        number = len(torch.unique(self.relations))
        num_tails = len(torch.unique(self.labels))
        texts = list(self.doubts)
        texts += unfit_tests([{"num_test": int(self.test.sum()), **self._unfit_tests()}])
        entities, relations = map(set, split_names(self.class_names))
        doubled = [name for name in relations & entities if not name.isdecimal()]
        if number > num_tails or 2 * len(doubled) > len(relations):
            texts.append(
                f"there are {number} relations and {num_tails} tails, and {len(doubled)} relations"
                " have names of entities: columns without names in the first line, such as source,"
                " target, type, are read as head, relation, tail"
            )
        return texts

    def statistics(self, triangles: bool = True) -> dict[str, Any]:
        """The numbers of links, and the score of the most frequent tails; names of entities have no
        counts."""
        sizes = {f"num_{part}": int(getattr(self, part).sum()) for part in ("train", "val", "test")}
        return {**sizes, **self._unfit_tests(), **self.trivial_scores()}

    def _unfit_tests(self) -> dict[str, int]:
        """See `UNFIT`."""
        ends = torch.stack([self.heads, self.labels], dim=1)
        train = ends[self.train]
        test = ends[self.test]
        factors = torch.tensor([1, len(self.class_names)])
        is_ranked = torch.isin(test, train).all(dim=1)
        is_reverse = torch.isin((test * factors).sum(1), (train.flip(1) * factors).sum(1))
        counts = [int((~is_ranked).sum()), int(is_reverse.sum())]
        return dict(zip(UNFIT, counts, strict=True))

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

    def held(self, minimum: int) -> set[str]:
        """The names of the entities and relations of the training links, whatever their number."""
        entities, relations = split_names(self.class_names)
        ends = torch.unique(torch.cat([self.heads[self.train], self.labels[self.train]]))
        numbers = torch.unique(self.relations[self.train])
        return {entities[row] for row in ends.tolist()} | {
            f"{RELATION}{relations[row]}" for row in numbers.tolist()
        }

    def bytes_on(self, device: torch.device) -> int:
        """Bytes of the numbers."""
        return 6 * self.labels.nbytes

    def computed_digest(self) -> str:
        """SHA-256 of the data."""
        return sha256("\n".join(self.class_names), self.tensors())


def unfit_tests(statistics: Iterable[Mapping[str, Any]], share: float = 0.0) -> list[str]:
    """Why figures of the test links mislead, in words, if more than a share of these are not
    ranked; from the statistics of clients."""
    total: Counter[str] = Counter()
    for figures in statistics:
        total.update({name: figures.get(name, 0) for name in ("num_test", *UNFIT)})
    number = total["num_test"]
    unranked, reverse = (total[name] for name in UNFIT)
    texts = []
    if unranked > share * number:
        texts.append(
            f"of {number:,} test links {number - unranked:,} are scored; {unranked:,} are not, for"
            " want of training links of an entity at their client"
        )
    if reverse:
        texts.append(
            f"{reverse:,} of {number:,} test links are training links in the other direction, so"
            " their ranks are no predictions"
        )
    return texts


def _rows(names: list[str], all_names: list[str]) -> Tensor:
    """The row of each name; −1 for a name that the federation does not have."""
    numbers = {name: row for row, name in enumerate(all_names)}
    return torch.tensor([numbers.get(name, -1) for name in names])


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

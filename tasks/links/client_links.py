"""The links of one client, and the names of what they connect."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from curvfed.tasks.errors import DataError
from curvfed.tasks.examples import Examples, sha256

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
    own = None if parts is None else np.array([parts[position] for position in kept.values()])
    return RawLinks(triples, entities, relations, own)


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
        """The numbers of links; names of entities have no counts."""
        return {f"num_{part}": int(getattr(self, part).sum()) for part in ("train", "val", "test")}

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

"""The links of one client, of a whole data set, or those that a server scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.sparse import coo_array
from torch import Tensor

from curvfed.extensions.links.names import RELATION, split_names
from curvfed.extensions.links.ranking import KnownLinks, frequent_mrr
from curvfed.extensions.links.unranked import UNFIT, unfit_tests
from curvfed.tasks.amounts import amount
from curvfed.tasks.errors import DataError
from curvfed.tasks.examples import Examples, sha256

MOST_STEPS = 50_000_000
"""Maximum number of pairs of links that follow each other, among which a third link is sought."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ClientLinks(Examples):
    """Links of a client, of a whole data set, or those that a server scores; see `Examples`; the
    labels are the tails.

    Attributes
    ----------
    heads, relations : Tensor, (n,), int64
        Rows of the entities and relations in `class_names`.
    history : str
        How the links were read, in words for the log.
    doubts : tuple of str
        Possible faults of their file, in words.
    reciprocal : bool
        Whether heads are predicted too, as tails of inverse relations.
    """

    heads: Tensor
    relations: Tensor
    history: str = ""
    doubts: tuple[str, ...] = ()
    reciprocal: bool = False

    task: ClassVar[str] = "links"
    shape: ClassVar[str] = ""
    num_features: ClassVar[int] = 1

    def describe(self) -> str:
        """The number of links, of relations if there are several, and of entities."""
        num_entities = len(torch.unique(torch.cat([self.heads, self.labels])))
        number = len(torch.unique(self.relations))
        kinds = f" of {number} relations" if number > 1 else ""
        return f"{amount(len(self.labels), 'link')}{kinds} between {amount(num_entities, 'entity')}"

    @property
    def notes(self) -> list[str]:
        """Possible faults of the links, in words; see also `unfit_tests`."""
        number = len(torch.unique(self.relations))
        num_tails = len(torch.unique(self.labels))
        texts = list(self.doubts)
        texts += unfit_tests([{"num_test": int(self.test.sum()), **self._unfit_tests()}])
        if bool(self.test.any()) and self._are_direct():
            texts.append(
                "the links seem to name direct parents alone: held-out ones cannot be predicted"
                " from them, and scores mean little; links.closure=true adds the links to all"
                " ancestors"
            )
        num_heads = len(torch.unique(self.heads))
        if number == 1 and num_tails > 2 * num_heads:
            texts.append(
                "there are more than twice as many tails as heads, but links of a hierarchy go from"
                " the child to the parent: if the columns are the other way round, name them in the"
                " first line (parent, child)"
            )
        entities, relations = map(set, split_names(self.class_names))
        doubled = [name for name in relations & entities if not name.isdecimal()]
        if number > num_tails or 2 * len(doubled) > len(relations):
            texts.append(
                f"there are {number} relations and {num_tails} tails, and {len(doubled)} relations"
                " have names of entities: columns without names in the first line, such as source,"
                " target, type, are read as head, relation, tail"
            )
        return texts

    def statistics(self) -> dict[str, Any]:
        """The numbers of links, and the score of the most frequent tails; names of entities lack
        counts."""
        sizes = {
            f"num_{split}": int(getattr(self, split).sum()) for split in ("train", "val", "test")
        }
        return {**sizes, **self._unfit_tests(), **self.trivial_scores()}

    def _are_direct(self) -> bool:
        """Whether two links follow each other, and no such two have the ends of a third; without
        links in both directions, which are no hierarchy. With more than `MOST_STEPS` pairs of
        links that follow each other nothing is computed, and the answer is no."""
        number = len(self.class_names)
        has_steps = False
        for relation in torch.unique(self.relations):
            is_here = self.relations == relation
            heads = self.heads[is_here].numpy()
            tails = self.labels[is_here].numpy()
            ends = (heads, tails)
            links = coo_array((np.ones(len(heads)), ends), shape=(number, number)).tocsr()
            num_steps = int(np.bincount(heads, minlength=number)[tails].sum())
            if num_steps > MOST_STEPS or links.multiply(links.T).nnz:
                return False
            if links.multiply(links @ links).nnz:
                return False
            has_steps = has_steps or num_steps > 0
        return has_steps

    def _unfit_tests(self) -> dict[str, int]:
        """See `UNFIT`."""
        ends = torch.stack([self.heads, self.labels], dim=1)
        train = ends[self.train]
        test = ends[self.test]
        factors = torch.tensor([1, len(self.class_names)])
        is_ranked = torch.isin(test, train).all(dim=1)
        test_numbers = (test * factors).sum(1)
        reversed_numbers = (train.flip(1) * factors).sum(1)
        is_reverse = torch.isin(test_numbers, reversed_numbers)
        counts = [int((~is_ranked).sum()), int(is_reverse.sum())]
        return dict(zip(UNFIT, counts, strict=True))

    def trivial_scores(self) -> dict[str, float | None]:
        """See `Examples`: the mean reciprocal rank of always answering with the most frequent tails
        of the relation, among entities of training links."""
        triples = torch.stack([self.heads, self.relations, self.labels], dim=1)
        right_links = self.right_links(triples, self.class_names)
        return {"frequent_mrr": frequent_mrr(triples, self.train, self.test, right_links)}

    def right_links(self, triples: Tensor, class_names: Sequence[str]) -> KnownLinks:
        """Links (n, 3) in the numbering of these names, as right ones, with their inverses if heads
        are predicted."""
        entities, relations = split_names(class_names)
        return KnownLinks(triples, len(entities), len(relations), self.reciprocal)

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
                "no link has two entities and a relation that the clients of this run name; allowed"
                " are their names, and links without a relation only if no client names one",
                key="unknown-links",
            )
        return triples

    def check_test(self, shape: str, class_names: Sequence[str]) -> None:
        """Accept links if a client has some of them; others are not scored.

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
        entity_names = {entities[row] for row in ends.tolist()}
        relation_names = {f"{RELATION}{relations[row]}" for row in numbers.tolist()}
        return entity_names | relation_names

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

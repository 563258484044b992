"""Ranks of the tails of links among candidates, and the trivial rival of every embedding: always to
answer with the most frequent tails. With reciprocal relations heads are tails of inverse links."""

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import Tensor

from curvfed.extensions.links.models import Embedding
from curvfed.extensions.links.unranked import MOST_SCORED

QUERIES = MOST_SCORED

SCORE_STREAM = 18
"""Random stream of the seed."""


class KnownLinks:
    """A set of links, looked up by many at once.

    Parameters
    ----------
    triples : Tensor (n, 3), int64
        Head, relation and tail.
    num_entities, num_relations : int
        Without inverse relations.
    reciprocal : bool
        Whether each relation r has an inverse, of number r + `num_relations`, and the set holds the
        inverse of each link.

    Attributes
    ----------
    num_entities : int
    directions : int
        2 with inverse relations, else 1.

    Examples
    --------
    >>> known = KnownLinks(torch.tensor([[0, 0, 1]]), num_entities=2, num_relations=1)
    >>> known.holds(torch.tensor([0, 1]), torch.tensor([0, 0]), torch.tensor([1, 0]))
    tensor([ True, False])
    """

    def __init__(
        self, triples: Tensor, num_entities: int, num_relations: int, reciprocal: bool = False
    ) -> None:
        self.directions = 1 + reciprocal
        self.num_entities = num_entities
        self._sizes = (num_entities, self.directions * num_relations)
        self._keys = torch.unique(self._key(*self.directed(triples).T))

    def directed(self, triples: Tensor) -> Tensor:
        """Links (n, 3), with inverse relations followed by their inverses, (2n, 3) (Lacroix et al.,
        2018).

        Examples
        --------
        >>> KnownLinks(torch.tensor([[0, 0, 1]]), 2, 1, True).directed(torch.tensor([[0, 0, 1]]))
        tensor([[0, 0, 1],
                [1, 1, 0]])
        """
        if self.directions == 1:
            return triples
        _, num_relations = self._sizes
        inverse = triples.flip(1)
        inverse[:, 1] += num_relations // 2
        return torch.cat([triples, inverse])

    def holds(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Whether each link is in the set; the arguments broadcast."""
        keys = self._key(heads, relations, tails)
        places = torch.searchsorted(self._keys, keys.contiguous()).clamp(max=len(self._keys) - 1)
        is_held: Tensor = self._keys[places] == keys
        return is_held

    def tails(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The tails (k,) of all links from heads (n,) by relations (n,), and for each the position
        (k,) of its head.

        Examples
        --------
        >>> known = KnownLinks(torch.tensor([[0, 0, 1], [2, 0, 0], [2, 0, 1]]), 3, 1)
        >>> known.tails(torch.tensor([0, 2]), torch.tensor([0, 0]))
        (tensor([1, 0, 1]), tensor([0, 1, 1]))
        """
        num_entities, _ = self._sizes
        first = self._key(heads, relations, torch.zeros_like(heads))
        begin = torch.searchsorted(self._keys, first)
        number = torch.searchsorted(self._keys, first + num_entities) - begin
        positions = torch.repeat_interleave(number)
        before = number.cumsum(0) - number
        places = torch.arange(len(positions), device=heads.device) + (begin - before)[positions]
        return self._keys[places] % num_entities, positions

    def _key(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        num_entities, num_relations = self._sizes
        return (heads * num_relations + relations) * num_entities + tails


class FrequentTails:
    """The trivial rival of an embedding: the score of a tail is its number of training links with
    the relation, whatever the head.

    Parameters
    ----------
    triples : Tensor (n, 3), int64
        Head, relation and tail of the training links.
    num_entities : int

    Examples
    --------
    >>> rival = FrequentTails(torch.tensor([[0, 0, 2], [1, 0, 2], [1, 0, 0]]), num_entities=3)
    >>> next(rival.blocks(torch.tensor([0]), torch.tensor([0]), torch.arange(3)))
    tensor([[1, 0, 2]])
    """

    def __init__(self, triples: Tensor, num_entities: int) -> None:
        self._triples = triples
        self._num_entities = num_entities

    def blocks(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Iterator[Tensor]:
        """Scores (n', m) as those of `Embedding.blocks`."""
        size = max(1, QUERIES**2 // max(len(tails), 1))
        counts = {}
        for relation in torch.unique(relations).tolist():
            relation_tails = self._triples[self._triples[:, 1] == relation, 2]
            counts[relation] = torch.bincount(relation_tails, minlength=self._num_entities)[tails]
        for block in torch.split(relations, size):
            yield torch.stack([counts[relation] for relation in block.tolist()])


Scorer = Embedding | FrequentTails
"""The models that rank tails."""


class Queries:
    """Links with tails to rank among candidates, without the candidates that are right too.

    Parameters
    ----------
    triples : Tensor (n, 3), int64
    candidates : Tensor (m,), int64
        Entities that the tails are ranked among, ascending, the tails included.
    right_links : KnownLinks
        Right links, which are left out.
    """

    def __init__(self, triples: Tensor, candidates: Tensor, right_links: KnownLinks) -> None:
        self._heads, self._relations, tails = triples.T.contiguous()
        self._candidates = candidates
        links = torch.arange(len(triples), device=triples.device)
        known_tails, known_links = right_links.tails(self._heads, self._relations)
        not_wrong = torch.cat([known_tails, self._heads, tails])
        last_column = max(len(candidates) - 1, 0)
        columns = torch.searchsorted(candidates, not_wrong).clamp(max=last_column)
        self._right = columns[len(columns) - len(links) :, None]
        rows = torch.cat([known_links, links, links])
        is_candidate = candidates[columns] == not_wrong
        order = torch.argsort(rows[is_candidate], stable=True)
        self._rows = rows[is_candidate][order]
        self._columns = columns[is_candidate][order]

    def __len__(self) -> int:
        return len(self._right)

    def ranks(self, model: Scorer) -> tuple[Tensor, Tensor]:
        """The filtered rank of the tail of each link, and its share of the wrong candidates below
        it.

        Returns
        -------
        ranks, shares : Tensor (n,)
            Equal scores count by half: a rank is 1 + those above + half of those equal (Bordes et
            al., 2013, with the mean of ties).
        """
        above = []
        wrong = []
        begin = 0
        for scores in model.blocks(self._heads, self._relations, self._candidates):
            end = begin + len(scores)
            ends = torch.tensor([begin, end], device=self._rows.device)
            first, last = torch.searchsorted(self._rows, ends).tolist()
            is_wrong = torch.ones(scores.shape, dtype=torch.bool, device=scores.device)
            is_wrong[self._rows[first:last] - begin, self._columns[first:last]] = False
            right = scores.gather(1, self._right[begin:end])
            num_higher = ((scores > right) & is_wrong).sum(1).double()
            num_equal = ((scores == right) & is_wrong).sum(1).double()
            above.append(num_higher + num_equal / 2)
            wrong.append(is_wrong.sum(1))
            begin = end
        if not above:
            return torch.zeros(0), torch.zeros(0)
        num_above = torch.cat(above)
        return 1 + num_above, 1 - num_above / torch.cat(wrong).clamp(min=1)


def link_scores(model: Scorer, queries: Queries | None) -> dict[str, float]:
    """Mean reciprocal rank, Hits@1 and @10, and the area under the ROC curve, a mean over the
    links; empty without links."""
    if queries is None:
        return {}
    rank, share = queries.ranks(model)
    figures: Mapping[str, Tensor] = {
        "mrr": 1 / rank,
        "hits_1": (rank < 2).double(),
        "hits_10": (rank < 11).double(),
        "link_auc": share,
    }
    return {name: float(values.double().mean()) for name, values in figures.items()}


def make_queries(
    triples: Tensor, entities: Tensor, right_links: KnownLinks, seed: int
) -> Queries | None:
    """The links of a part that are scored; None if missing.

    Parameters
    ----------
    triples : Tensor (n, 3), int64
        Head, relation and tail of the part's links; of more than `QUERIES` the seed draws some.
        With inverse relations their heads are ranked too.
    entities : Tensor (m,), int64
        The rows of the client's training links, ascending, among which tails are ranked.
    right_links : KnownLinks
        All right links.
    seed : int
    """
    # A tail that the client does not train lacks a row of its own.
    is_trained = torch.isin(triples[:, [0, 2]], entities).all(dim=1)
    triples = triples[is_trained]
    if len(triples) > QUERIES:
        drawn = np.random.default_rng([seed, SCORE_STREAM]).permutation(len(triples))
        triples = triples[np.sort(drawn[:QUERIES])]
    if not len(triples):
        return None
    return Queries(right_links.directed(triples), entities, right_links)


def frequent_mrr(
    triples: Tensor, is_train: Tensor, is_test: Tensor, right_links: KnownLinks
) -> float | None:
    """The mean reciprocal rank of the most frequent tails on the test links (n,) among the links
    (n, 3) of a client; None without test links between entities of training links.

    Examples
    --------
    >>> triples = torch.tensor([[0, 0, 2], [1, 0, 2], [1, 0, 3], [0, 0, 3]])
    >>> is_test = torch.arange(4) == 3
    >>> frequent_mrr(triples, ~is_test, is_test, KnownLinks(triples, 4, 1))
    1.0
    """
    train = triples[is_train]
    entities = torch.unique(train[:, [0, 2]])
    queries = make_queries(triples[is_test], entities, right_links, seed=0)
    rival = FrequentTails(right_links.directed(train), right_links.num_entities)
    return link_scores(rival, queries).get("mrr")

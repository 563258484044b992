"""Ranks of the tails of links among candidates, and the trivial rival of every embedding: always to
answer with the most frequent tails. With reciprocal relations heads are tails of inverse links."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import torch
from torch import Tensor

from curvfed.extensions.links.models import Embedding
from curvfed.extensions.links.unranked import MOST_SCORED

QUERIES = MOST_SCORED

LOOKED_UP = 2**22
"""The most triples of which a set of links keeps whether it holds each, in a table of 4 MB."""

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
        self._left_out: Tensor | None = None

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

    def leave_out(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Whether tails (n, m) are no wrong answers of heads (n,) and relations (n,): their link is
        in the set, or they are the head.

        Examples
        --------
        >>> known = KnownLinks(torch.tensor([[0, 0, 1]]), num_entities=3, num_relations=1)
        >>> known.leave_out(torch.tensor([0]), torch.tensor([0]), torch.tensor([[0, 1, 2]]))
        tensor([[ True,  True, False]])
        """
        num_entities, num_relations = self._sizes
        if num_entities**2 * num_relations > LOOKED_UP:
            is_held = self.holds(heads[:, None], relations[:, None], tails)
            return is_held | (tails == heads[:, None])
        if self._left_out is None:
            table = torch.zeros((*self._sizes, num_entities), dtype=torch.bool, device=tails.device)
            table.view(-1)[self._keys] = True
            table.diagonal(dim1=0, dim2=2).fill_(True)
            self._left_out = table.flatten()
        firsts = self._key(heads, relations, torch.zeros_like(heads))
        return self._left_out.take(firsts[:, None] + tails)

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
        questions, places = torch.unique(triples[:, :2], dim=0, return_inverse=True)
        self._heads, self._relations = questions.T.contiguous()
        # The links of a question lie side by side: its scores are computed once.
        self._order = torch.argsort(places, stable=True)
        self._questions = places[self._order]
        self._candidates = candidates
        heads, relations, tails = triples[self._order].T.contiguous()
        links = torch.arange(len(triples), device=triples.device)
        known_tails, known_links = right_links.tails(heads, relations)
        not_wrong = torch.cat([known_tails, heads, tails])
        last_column = max(len(candidates) - 1, 0)
        columns = torch.searchsorted(candidates, not_wrong).clamp(max=last_column)
        self._right = columns[len(columns) - len(links) :, None]
        rows = torch.cat([known_links, links, links])
        is_candidate = candidates[columns] == not_wrong
        cells = torch.stack([rows[is_candidate], columns[is_candidate]], dim=1)
        self._rows, self._columns = torch.unique(cells, dim=0).T.contiguous()
        self._num_wrong = len(candidates) - torch.bincount(self._rows, minlength=len(links))

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
        begin = 0
        for of_questions in model.blocks(self._heads, self._relations, self._candidates):
            end = begin + len(of_questions)
            first, last = _between(self._questions, begin, end)
            scores = of_questions[self._questions[first:last] - begin]
            cells = slice(*_between(self._rows, first, last))
            rows = self._rows[cells] - first
            right = scores.gather(1, self._right[first:last])
            not_wrong = scores[rows, self._columns[cells]]
            of_right = right[rows, 0]
            # Equal ones are half above: mean of those above and those above or equal.
            twice = _count(torch.gt, scores, right) + _count(torch.ge, scores, right)
            excess = (not_wrong > of_right).double() + (not_wrong >= of_right).double()
            above.append(twice.index_add(0, rows, -excess) / 2)
            begin = end
        if not above:
            return torch.zeros(0), torch.zeros(0)
        num_above = torch.cat(above)
        shares = 1 - num_above / self._num_wrong.clamp(min=1)
        back = torch.argsort(self._order)
        return (1 + num_above)[back], shares[back]


def _between(numbers: Tensor, begin: int, end: int) -> tuple[int, int]:
    """The first place of ascending numbers from `begin` on, and that from `end` on."""
    bounds = torch.tensor([begin, end], device=numbers.device)
    first, last = torch.searchsorted(numbers, bounds).tolist()
    return first, last


def _count(compare: Callable[..., Tensor], scores: Tensor, right: Tensor) -> Tensor:
    """The number (n,) of scores (n, m) that compare so with those of the right tails (n, 1)."""
    # Sums of floats are several times faster than those of truth values, and exact to 2^24.
    hits = torch.empty(scores.shape, dtype=torch.float32, device=scores.device)
    compare(scores, right, out=hits)
    return hits.sum(1).double()


def link_scores(model: Scorer, queries: Queries | None) -> dict[str, float]:
    """Mean reciprocal rank, Hits@1 and @10, and the area under the ROC curve, a mean over the
    links; empty without links."""
    if queries is None:
        return {}
    return figures_of(*queries.ranks(model))


def figures_of(rank: Tensor, share: Tensor) -> dict[str, float]:
    """The figures of `link_scores` by those of `Queries.ranks`."""
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
    """The queries of `scored_links`; None without such links.

    Parameters
    ----------
    triples, entities, seed
        See `scored_links`.
    right_links : KnownLinks
        All right links. With inverse relations the heads of the links are ranked too.
    """
    scored = scored_links(triples, entities, seed)
    if not len(scored):
        return None
    return Queries(right_links.directed(scored), entities, right_links)


def scored_links(triples: Tensor, entities: Tensor, seed: int) -> Tensor:
    """The links of a part that are scored, (k, 3).

    Parameters
    ----------
    triples : Tensor (n, 3), int64
        Head, relation and tail of the part's links; of more than `QUERIES` the seed draws some.
    entities : Tensor (m,), int64
        The rows of the client's training links, ascending, among which tails are ranked.
    seed : int
    """
    # A tail that the client does not train lacks a row of its own.
    is_trained = torch.isin(triples[:, [0, 2]], entities).all(dim=1)
    triples = triples[is_trained]
    if len(triples) > QUERIES:
        drawn = np.random.default_rng([seed, SCORE_STREAM]).permutation(len(triples))
        triples = triples[np.sort(drawn[:QUERIES])]
    return triples


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

"""The task of links: the right tail of a head among negatives, and ranks of held-out tails."""

from collections.abc import Iterator, Mapping

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.tasks.links import ClientLinks, split_names
from curvfed.tasks.links.models import Embedding
from curvfed.tasks.task import PARTS, SCORED, Batch, Task

QUERIES = 5000
"""The most links of a part that are scored, drawn by the run's seed, and the most heads of
`LinkTask.whole_scores`."""

SCORE_STREAM = 18
"""Random stream of the seed."""


class KnownLinks:
    """A set of links, looked up by many at once.

    Parameters
    ----------
    triples : Tensor (n, 3), int64
        Head, relation and tail.
    num_entities, num_relations : int

    Examples
    --------
    >>> known = KnownLinks(torch.tensor([[0, 0, 1]]), num_entities=2, num_relations=1)
    >>> known.holds(torch.tensor([0, 1]), torch.tensor([0, 0]), torch.tensor([1, 0]))
    tensor([ True, False])
    """

    def __init__(self, triples: Tensor, num_entities: int, num_relations: int) -> None:
        self._sizes = (num_entities, num_relations)
        self._keys = torch.unique(self._key(*triples.T))

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
            own = self._triples[self._triples[:, 1] == relation, 2]
            counts[relation] = torch.bincount(own, minlength=self._num_entities)[tails]
        for part in torch.split(relations, size):
            yield torch.stack([counts[relation] for relation in part.tolist()])


Scorer = Embedding | FrequentTails
"""What ranks tails."""


class Queries:
    """Links whose tails are ranked among candidates, without the candidates that are right too.

    Parameters
    ----------
    triples : Tensor (n, 3), int64
    candidates : Tensor (m,), int64
        Entities that the tails are ranked among, ascending, the tails included.
    known : KnownLinks
        Right links, which are left out.
    """

    def __init__(self, triples: Tensor, candidates: Tensor, known: KnownLinks) -> None:
        self._heads, self._relations, tails = triples.T.contiguous()
        self._candidates = candidates
        links = torch.arange(len(triples), device=triples.device)
        known_tails, known_links = known.tails(self._heads, self._relations)
        not_wrong = torch.cat([known_tails, self._heads, tails])
        columns = torch.searchsorted(candidates, not_wrong).clamp(max=max(len(candidates) - 1, 0))
        self._right = columns[len(columns) - len(links) :, None]
        rows = torch.cat([known_links, links, links])
        is_candidate = candidates[columns] == not_wrong
        order = torch.argsort(rows[is_candidate], stable=True)
        self._rows = rows[is_candidate][order]
        self._columns = columns[is_candidate][order]

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


def average_precision(model: Scorer, triples: Tensor, num_entities: int) -> float:
    """Mean over heads and relations of the average precision with which all entities are ranked as
    tails: how well the embedding gives the links back (Nickel & Kiela, 2017, Section 4.1).

    Examples
    --------
    >>> from curvfed.tasks.links.models import LinkModelSpec
    >>> line = LinkModelSpec("normal", 3, 1, 1, curvature=0.0).build(0)
    >>> line.entities.data = torch.tensor([[0.0], [1.0], [3.0]])
    >>> average_precision(line, torch.tensor([[0, 0, 2]]), 3)
    0.5
    """
    queries, places = torch.unique(triples[:, :2], dim=0, return_inverse=True)
    entities = torch.arange(num_entities, device=triples.device)
    values = []
    begin = 0
    for scores in model.blocks(queries[:, 0], queries[:, 1], entities):
        rows = slice(begin, begin + len(scores))
        is_here = (places >= rows.start) & (places < rows.stop)
        begin = rows.stop
        is_right = torch.zeros(scores.shape, dtype=torch.bool, device=scores.device)
        is_right[places[is_here] - rows.start, triples[is_here, 2]] = True
        own = queries[rows, :1]
        order = (
            scores.float().scatter(1, own, -torch.inf).argsort(dim=1, descending=True, stable=True)
        )
        hits = is_right.gather(1, order).double()
        precision = hits.cumsum(1) / torch.arange(1, num_entities + 1, device=hits.device)
        values.append((precision * hits).sum(1) / hits.sum(1))
    return float(torch.cat(values).mean())


class LinkTask(Task):
    """One client's links on its device, with rows in the federation's numbering.

    Parameters
    ----------
    links : ClientLinks
    class_names : tuple of str
        The names of the federation's entities and relations.
    device : torch.device
    batch_size : int
        Links per step; 0: all.
    negatives : int
        Entities of the client's own that each step draws per link.
    seed : int
        Draws the links that are scored, of more than `QUERIES`.

    Attributes
    ----------
    triples : dict of str to Tensor (n, 3), int64
        Head, relation and tail by part.
    entities : Tensor (m,), int64
        The rows of this client's training links, ascending.
    counts : dict of str to Tensor (n,)
        By parameter, the number of this client's training links with each row.

    Raises
    ------
    DataError
        If the federation names none of the links.
    """

    def __init__(
        self,
        links: ClientLinks,
        class_names: tuple[str, ...],
        device: torch.device,
        batch_size: int,
        negatives: int,
        seed: int = 0,
    ) -> None:
        entities, relations = split_names(class_names)
        triples = links.numbered(class_names)
        is_known = (triples >= 0).all(dim=1)
        triples = triples[is_known].to(device)
        masks = {name: getattr(links, name)[is_known].to(device) for name in PARTS}
        self.triples = {name: triples[mask] for name, mask in masks.items()}
        self.metric = links.metric
        self.labels = triples[:, 2]
        self.parts = {name: mask.nonzero().squeeze(1) for name, mask in masks.items()}
        train = self.triples["train"]
        self.train_labels = train[:, 2]
        self.num_examples = len(train)
        self.counts = {
            "entities": torch.bincount(train[:, [0, 2]].flatten(), minlength=len(entities)),
            "relations": torch.bincount(train[:, 1], minlength=len(relations)),
        }
        self.entities = self.counts["entities"].nonzero().squeeze(1)
        # Training numbers this client's entities alone: the table of all may be much larger.
        self._train = train.clone()
        for column in (0, 2):
            self._train[:, column] = torch.searchsorted(
                self.entities, train[:, column].contiguous()
            )
        sizes = (len(entities), len(relations))
        self._known = KnownLinks(triples, *sizes) if len(triples) else None
        own_sizes = (len(self.entities), len(relations))
        self._trained = KnownLinks(self._train, *own_sizes) if len(train) else None
        self._batch_size = batch_size or max(self.num_examples, 1)
        self._negatives = negatives
        self._seed = seed
        self._queries: dict[str, Queries | None] = {}

    @property
    def num_steps(self) -> int:
        """The number of batches."""
        return -(-self.num_examples // self._batch_size)

    def batches(self, model: nn.Module) -> Iterator[Batch]:
        """One pass in shuffled batches, each link once."""
        order = torch.randperm(len(self._train), device=self._train.device)
        for rows in torch.split(order, self._batch_size):
            yield Batch(self._train[rows], self.train_labels[rows])

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Mean cross-entropy of the right tail among it and the negatives, without those that are
        right too (Nickel & Kiela, 2017, Eq. 6)."""
        heads, relations, tails = batch.inputs.T
        shape = (len(heads), self._negatives)
        negatives = torch.randint(len(self.entities), shape, device=heads.device)
        tails = torch.cat([tails[:, None], negatives], dim=1)
        scores = model(heads, relations, tails, self.entities)
        assert self._trained is not None, "a client without training links does not train"
        left_out = self._trained.holds(heads[:, None], relations[:, None], negatives)
        left_out |= negatives == heads[:, None]
        scores = scores.masked_fill(F.pad(left_out, (1, 0)), -torch.inf)
        return F.cross_entropy(scores, torch.zeros_like(heads))

    def scores(self, model: nn.Module) -> dict[str, float]:
        """Filtered scores of the tails of held-out links among this client's entities.

        Returns
        -------
        dict
            "validation" and "score", the mean reciprocal ranks; "accuracy", Hits@1, "hits_10" and
            "link_auc" of the test links. Parts without links have none.
        """
        assert isinstance(model, Embedding)
        figures: dict[str, float] = {}
        for part, name in SCORED.items():
            scores = self._scores_of(model, part)
            if scores:
                figures[name] = scores["mrr"]
            if part == "test" and scores:
                figures["accuracy"] = scores["hits_1"]
                figures |= {key: scores[key] for key in ("hits_10", "link_auc")}
        return figures

    def frequent_tails(self) -> FrequentTails:
        """The trivial rival, from this client's training links."""
        return FrequentTails(self.triples["train"], len(self.counts["entities"]))

    def trivial_score(self) -> float | None:
        """The mean reciprocal rank of the most frequent tails on the test links, if there are
        any."""
        return self._scores_of(self.frequent_tails(), "test").get("mrr")

    def whole_scores(self, model: Scorer) -> dict[str, float]:
        """Scores of the test links, and "reconstruction_map" of all links."""
        figures = self._scores_of(model, "test")
        triples = torch.cat(list(self.triples.values()))
        number = len(self.counts["entities"])
        heads = torch.unique(triples[:, 0])
        if len(heads) > QUERIES:
            triples = triples[torch.isin(triples[:, 0], heads[:: -(-len(heads) // QUERIES)])]
        return {**figures, "reconstruction_map": average_precision(model, triples, number)}

    def _scores_of(self, model: Scorer, part: str) -> dict[str, float]:
        if part not in self._queries:
            self._queries[part] = self._make_queries(part)
        return link_scores(model, self._queries[part])

    def _make_queries(self, part: str) -> Queries | None:
        """The links of a part that are scored; None if there are none."""
        triples = self.triples[part]
        # A tail that the client does not train has no row of its own.
        is_trained = torch.isin(triples[:, [0, 2]], self.entities).all(dim=1)
        triples = triples[is_trained]
        if len(triples) > QUERIES:
            drawn = np.random.default_rng([self._seed, SCORE_STREAM]).permutation(len(triples))
            triples = triples[np.sort(drawn[:QUERIES])]
        if not len(triples) or self._known is None:
            return None
        return Queries(triples, self.entities, self._known)

    def logits(self, model: nn.Module) -> Tensor:
        """Scores (n, N) of all entities as the tail of each link."""
        assert isinstance(model, Embedding)
        triples = torch.cat(list(self.triples.values()))
        entities = torch.arange(len(self.counts["entities"]), device=triples.device)
        return torch.cat(list(model.blocks(triples[:, 0], triples[:, 1], entities)))

    def confusion(self, model: nn.Module) -> list[int]:
        """Empty: tails are no classes."""
        return []

"""The task of links: the right tail of a head among negatives, and ranks of held-out tails."""

from collections.abc import Iterator
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.extensions.links.client_links import ClientLinks
from curvfed.extensions.links.models import Embedding
from curvfed.extensions.links.names import RELATION, split_names
from curvfed.extensions.links.ranking import (
    FrequentTails,
    KnownLinks,
    Queries,
    Scorer,
    figures_of,
    link_scores,
    make_queries,
    scored_links,
)
from curvfed.tasks.draws import permutation, whole_numbers
from curvfed.tasks.task import PARTS, SCORED, Batch, Task

HEADS = 5000
"""The most heads of `LinkTask.whole_scores`."""


def average_precision(model: Scorer, triples: Tensor, num_entities: int) -> float:
    """Mean over heads and relations of the average precision with which all entities are ranked as
    tails: how well the embedding gives the links back (Nickel & Kiela, 2017, Section 4.1).

    Examples
    --------
    >>> from curvfed.extensions.links.models import LinkModelSpec
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
        heads = queries[rows, :1]
        of_others = scores.float().scatter(1, heads, -torch.inf)
        order = of_others.argsort(dim=1, descending=True, stable=True)
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
        Draws the links that are scored, of more than `curvfed.extensions.links.ranking.QUERIES`.

    Attributes
    ----------
    triples : dict of str to Tensor (n, 3), int64
        Head, relation and tail by part.
    entities : Tensor (m,), int64
        The rows of this client's training links, ascending.
    counts : dict of str to Tensor (n,)
        By kind of row, the number of this client's training links with each; an inverse relation
        has those of its relation.
    places : dict of str to Tensor (n,), int64
        By kind of row, the place of each among the federation's names; −1 for the relation
        without a name.

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
        self._known = links.right_links(triples, class_names)
        directions = self._known.directions
        relation_counts = torch.bincount(train[:, 1], minlength=len(relations))
        self.counts = {
            "entities": torch.bincount(train[:, [0, 2]].flatten(), minlength=len(entities)),
            "relations": relation_counts.repeat(directions),
        }
        self.places = _places(class_names)
        self.places["relations"] = self.places["relations"].repeat(directions)
        self.entities = self.counts["entities"].nonzero().squeeze(1)
        # Training numbers this client's entities alone: the table of all may be much larger.
        self._train = train.clone()
        for column in (0, 2):
            self._train[:, column] = torch.searchsorted(
                self.entities, train[:, column].contiguous()
            )
        self._trained: KnownLinks | None = None
        if len(train):
            own_sizes = (len(self.entities), len(relations))
            self._trained = KnownLinks(self._train, *own_sizes, reciprocal=links.reciprocal)
        self._batch_size = batch_size or max(self.num_examples, 1)
        self._negatives = negatives
        self._seed = seed

    @property
    def num_steps(self) -> int:
        """The number of batches."""
        return -(-self.num_examples // self._batch_size)

    def batches(self, model: nn.Module) -> Iterator[Batch]:
        """One pass in shuffled batches, each link once, with inverse relations in both
        directions."""
        order = permutation(len(self._train), self._train.device)
        for rows in torch.split(order, self._batch_size):
            inputs = self._known.directed(self._train[rows])
            yield Batch(inputs, self.entities[inputs[:, 2]])

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Mean cross-entropy of the right tail among it and the negatives, without those that are
        right too (Nickel & Kiela, 2017, Eq. 6)."""
        heads, relations, tails = batch.inputs.T
        shape = (len(heads), self._negatives)
        negatives = whole_numbers(len(self.entities), shape, heads.device)
        tails = torch.cat([tails[:, None], negatives], dim=1)
        scores = model(heads, relations, tails, self.entities)
        assert self._trained is not None, "a client without training links does not train"
        left_out = self._trained.leave_out(heads, relations, negatives)
        scores = scores.masked_fill(F.pad(left_out, (1, 0)), -torch.inf)
        return F.cross_entropy(scores, torch.zeros_like(heads))

    def scores(self, model: nn.Module) -> dict[str, float]:
        """Filtered scores of the tails of held-out links among this client's entities, with inverse
        relations of their heads too.

        Returns
        -------
        dict
            "validation" and "score", the mean reciprocal ranks; "accuracy", Hits@1, "hits_10" and
            "link_auc" of the test links. Parts without links lack scores.
        """
        assert isinstance(model, Embedding)
        numbers, queries = self._held_out
        if queries is None:
            return {}
        # Both parts at once: for few links the calls take longer than the work.
        ranks, shares = (values.split(numbers) for values in queries.ranks(model))
        figures: dict[str, float] = {}
        for part, (split, name) in enumerate(SCORED.items()):
            if not numbers[part]:
                continue
            scores = figures_of(ranks[part], shares[part])
            figures[name] = scores["mrr"]
            if split == "test":
                figures["accuracy"] = scores["hits_1"]
                figures |= {key: scores[key] for key in ("hits_10", "link_auc")}
        return figures

    def frequent_tails(self) -> FrequentTails:
        """The trivial rival, from this client's training links."""
        train = self._known.directed(self.triples["train"])
        return FrequentTails(train, len(self.counts["entities"]))

    @property
    def num_tested(self) -> int:
        """The number of test links that are scored."""
        return 0 if self._tests is None else len(self._tests) // self._known.directions

    def whole_scores(self, model: Scorer) -> dict[str, float]:
        """Scores of the test links, and "reconstruction_map" of all links."""
        figures = link_scores(model, self._tests)
        triples = self._known.directed(torch.cat(list(self.triples.values())))
        number = len(self.counts["entities"])
        heads = torch.unique(triples[:, 0])
        if len(heads) > HEADS:
            step = -(-len(heads) // HEADS)
            triples = triples[torch.isin(triples[:, 0], heads[::step])]
        return {**figures, "reconstruction_map": average_precision(model, triples, number)}

    @cached_property
    def _tests(self) -> Queries | None:
        """The test links that are scored."""
        return make_queries(self.triples["test"], self.entities, self._known, self._seed)

    @cached_property
    def _held_out(self) -> tuple[list[int], Queries | None]:
        """The numbers of queries of the parts in `SCORED`, and all of them, in this order."""
        parts = []
        for split in SCORED:
            links = scored_links(self.triples[split], self.entities, self._seed)
            parts.append(self._known.directed(links))
        triples = torch.cat(parts)
        queries = Queries(triples, self.entities, self._known) if len(triples) else None
        return [len(part) for part in parts], queries

    def logits(self, model: nn.Module) -> Tensor:
        """Scores (n, N) of all entities as the tail of each link."""
        assert isinstance(model, Embedding)
        triples = torch.cat(list(self.triples.values()))
        entities = torch.arange(len(self.counts["entities"]), device=triples.device)
        return torch.cat(list(model.blocks(triples[:, 0], triples[:, 1], entities)))

    def confusion(self, model: nn.Module) -> list[int]:
        """Empty: tails are not classes."""
        return []


def _places(class_names: tuple[str, ...]) -> dict[str, Tensor]:
    """See `LinkTask.places`."""
    is_relation = torch.tensor([name.startswith(RELATION) for name in class_names])
    relations = is_relation.nonzero().squeeze(1)
    return {
        "entities": (~is_relation).nonzero().squeeze(1),
        "relations": relations if len(relations) else torch.tensor([-1]),
    }

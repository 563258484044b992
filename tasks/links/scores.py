"""Scores of embeddings of links: ranks of the right tails among all, without other right ones."""

from collections.abc import Mapping

import torch
from torch import Tensor

from curvfed.tasks.links.models import Embedding


class KnownLinks:
    """A set of links, looked up by many at once.

    Parameters
    ----------
    heads, relations, tails : Tensor (n,), int64
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

    def _key(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        num_entities, num_relations = self._sizes
        return (heads * num_relations + relations) * num_entities + tails


def ranks(
    model: Embedding, triples: Tensor, candidates: Tensor, known: KnownLinks
) -> tuple[Tensor, Tensor]:
    """The filtered rank of the tail of each link, and its share of the wrong candidates below it.

    Parameters
    ----------
    model : Embedding
    triples : Tensor (n, 3), int64
    candidates : Tensor (m,), int64
        Entities that the tails are ranked among, the tails included.
    known : KnownLinks
        Other right links, which are left out.

    Returns
    -------
    ranks, shares : Tensor (n,)
        Equal scores count by half: a rank is 1 + those above + half of those equal (Bordes et al.,
        2013, with the mean of ties).
    """
    heads, relations, tails = triples.T
    places = torch.searchsorted(candidates, tails.contiguous())
    above = []
    wrong = []
    begin = 0
    for scores in model.blocks(heads, relations, candidates):
        rows = slice(begin, begin + len(scores))
        begin += len(scores)
        right = scores.gather(1, places[rows, None])
        is_known = known.holds(heads[rows, None], relations[rows, None], candidates)
        is_wrong = ~is_known & (candidates != heads[rows, None])
        counts = (scores > right).double() + 0.5 * (scores == right).double()
        counts[torch.arange(len(scores)), places[rows]] = 0
        above.append((counts * is_wrong).sum(1))
        is_wrong[torch.arange(len(scores)), places[rows]] = False
        wrong.append(is_wrong.sum(1))
    if not above:
        return torch.zeros(0), torch.zeros(0)
    num_above = torch.cat(above)
    return 1 + num_above, 1 - num_above / torch.cat(wrong).clamp(min=1)


def link_scores(
    model: Embedding, triples: Tensor, candidates: Tensor, known: KnownLinks
) -> dict[str, float]:
    """Mean reciprocal rank, Hits@1 and @10, and the area under the ROC curve, a mean over the
    links; empty without links."""
    if not len(triples):
        return {}
    rank, share = ranks(model, triples, candidates, known)
    figures: Mapping[str, Tensor] = {
        "mrr": 1 / rank,
        "hits_1": (rank < 2).double(),
        "hits_10": (rank < 11).double(),
        "link_auc": share,
    }
    return {name: float(values.double().mean()) for name, values in figures.items()}


def average_precision(model: Embedding, triples: Tensor, num_entities: int) -> float:
    """Mean over heads and relations of the average precision with which all entities are ranked as
    tails: how well the embedding gives the links back (Nickel & Kiela, 2017, Section 4.1).

    Examples
    --------
    >>> from curvfed.tasks.links.models import LinkModelSpec
    >>> line = LinkModelSpec("euclidean", 3, 1, 1).build(0)
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
        order = scores.scatter(1, own, -torch.inf).argsort(dim=1, descending=True, stable=True)
        hits = is_right.gather(1, order).double()
        precision = hits.cumsum(1) / torch.arange(1, num_entities + 1, device=hits.device)
        values.append((precision * hits).sum(1) / hits.sum(1))
    return float(torch.cat(values).mean())

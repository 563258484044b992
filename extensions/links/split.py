"""The split of links into training, validation and test."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from curvfed.extensions.links.raw import RawLinks
from curvfed.tasks.dataset import Spec
from curvfed.tasks.record_split import RecordSplit

SPLIT_STREAM = 17
"""Random stream of the seed."""

FEWER = 0.1
"""Largest missing share of the test links that is not told."""

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class LinkSpec(Spec):
    """The settings of links.

    Attributes
    ----------
    partition : str
        "branches", "relations", "louvain" or "random"; for links made of a graph that of its nodes.
    seed : int
    train_size, test_size : float
        Shares of the links.
    trained_ends : bool
        Whether both entities of a held-out link keep a training link.
    closure : bool
        Whether links to all ancestors are made of those of the files.
    reciprocal : bool
        Whether heads are predicted too.
    """

    partition: str = "branches"
    seed: int = 0
    train_size: float = 0.8
    test_size: float = 0.1
    trained_ends: bool = True
    closure: bool = False
    reciprocal: bool = False


def own_parts(raw: RawLinks, record_split: RecordSplit) -> Integers:
    """The part of each link of a node, whether or not a run holds links out: that of the files, or
    by the names."""
    if raw.parts is not None:
        return np.asarray(raw.parts)
    records = raw.records
    distinct = list(dict.fromkeys(records))
    part_of = dict(zip(distinct, record_split.parts(distinct).tolist(), strict=True))
    return np.array([part_of[record] for record in records])


def split_links(raw: RawLinks, spec: LinkSpec, record_split: RecordSplit | None = None) -> Integers:
    """The part of each link: 0 training, 1 validation, 2 test. The two directions of a link are in
    one part."""
    if spec.train_size == 1:
        return np.zeros(len(raw.triples), np.int64)
    if record_split is not None:
        return own_parts(raw, record_split)
    if raw.parts is not None:
        return np.asarray(raw.parts)
    low, high = np.sort(raw.triples[:, ::2], axis=1).T
    pair_numbers = low * len(raw.entities) + high
    keys = pair_numbers * len(raw.relations) + raw.triples[:, 1]
    _, first, pairs = np.unique(keys, return_index=True, return_inverse=True)
    number = len(first)
    order = np.random.default_rng([spec.seed, SPLIT_STREAM]).permutation(number)
    parts = np.ones(number, np.int64)
    num_train = round(spec.train_size * number)
    parts[order[:num_train]] = 0
    parts[order[num_train : num_train + round(spec.test_size * number)]] = 2
    # A pair has the place of the first of its links.
    places = np.argsort(np.argsort(first))[pairs]
    if not spec.trained_ends:
        return parts[places]
    ends = np.empty((number, 2), np.int64)
    ends[places] = np.stack([low, high], axis=1)
    return keep_ends_trained(parts, ends, order)[places]


def keep_ends_trained(parts: Integers, ends: Integers, order: Integers) -> Integers:
    """Exchange held-out pairs of entities with training pairs, so that each entity of a held-out
    pair is in a training pair too, as far as the pairs allow; without such a pair an entity has no
    row of its own, and no rank.

    Parameters
    ----------
    parts : (n,), int64
        The part of each pair: 0 training, 1 validation, 2 test.
    ends : (n, 2), int64
        The two entities of each pair.
    order : (n,), int64
        The order in which pairs were drawn; the last training pairs are exchanged first.

    Returns
    -------
    (n,), int64
        The parts. Where no exchange is possible, a pair goes to training, and its part is smaller.

    Examples
    --------
    >>> ends = np.array([[0, 1], [1, 2], [0, 2], [2, 3]])  # only the last pair has entity 3
    >>> keep_ends_trained(np.array([0, 0, 0, 2]), ends, np.arange(4)).tolist()
    [0, 0, 2, 0]
    """
    parts = parts.copy()
    counts = np.bincount(ends[parts == 0].ravel(), minlength=int(ends.max()) + 1)
    missing = []
    for pair in order[parts[order] > 0]:
        if counts[ends[pair]].min() == 0:
            missing.append(parts[pair])
            parts[pair] = 0
            counts[ends[pair]] += 1
    for pair in order[parts[order] == 0][::-1]:
        if not missing:
            break
        if counts[ends[pair]].min() > 1:
            parts[pair] = missing.pop()
            counts[ends[pair]] -= 1
    return parts


def fewer_tests(parts: Integers, spec: LinkSpec) -> list[str]:
    """The number of test links in words, if it is smaller than the run's share of the links."""
    asked = round(spec.test_size * len(parts))
    number = int((parts == 2).sum())
    if number >= (1 - FEWER) * asked:
        return []
    return [
        f"{number:,} test links instead of the {asked:,} of test-size: each other link is the only"
        " one of an entity, and has to train it"
    ]

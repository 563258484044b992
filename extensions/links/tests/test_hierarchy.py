"""The shape of a hierarchy against matrices of reachability."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from curvfed.extensions.links.hierarchy import hierarchy

NODES = 8


def reachability(pairs):
    """Whether a path of one link or more leads from each entity to each."""
    reached = np.zeros((NODES, NODES), bool)
    reached[pairs[:, 0], pairs[:, 1]] = True
    for middle in range(NODES):
        reached |= reached[:, [middle]] & reached[[middle]]
    return reached


links = st.lists(
    st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), min_size=1, max_size=20
)


@given(links)
def test_direct_links_and_ancestors_are_those_of_paths(drawn):
    # Heads above tails: without cycles.
    pairs = np.array([(max(pair), min(pair)) for pair in drawn if pair[0] != pair[1]])
    if not len(pairs):
        return
    reached = reachability(pairs)
    shape = hierarchy(pairs)
    entities = np.unique(pairs)
    direct = {tuple(pair) for pair in pairs.tolist()}
    for head, tail in list(direct):
        if any(reached[head, middle] and reached[middle, tail] for middle in entities):
            direct.remove((head, tail))
    parents = [sum(head == entity for head, _ in direct) for entity in entities]
    assert shape.entities == len(entities)
    assert shape.links == len(pairs)
    assert shape.direct == len(direct)
    assert shape.several_parents == np.mean(np.array(parents) > 1)
    assert shape.ancestors == reached[entities].sum(axis=1).mean()
    assert shape.in_cycles == 0


@given(links)
def test_entities_above_themselves_are_counted(drawn):
    pairs = np.array(drawn)
    reached = reachability(pairs)
    mutual = reached & reached.T
    np.fill_diagonal(mutual, False)
    shape = hierarchy(pairs)
    assert shape.in_cycles == mutual.any(axis=1).sum()
    assert shape.links == len(drawn)

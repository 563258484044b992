"""Test links with misleading figures, counted at the clients and put in words."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

MOST_SCORED = 5000
"""The most links of a part that are scored, drawn by the run's seed."""

NUM_UNRANKED = "num_test_unranked"
UNFIT = (NUM_UNRANKED, "num_test_reversed")
"""The numbers of a client's test links with an entity that none of its training links has, and of
those that are training links in the other direction."""


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
            f"{number - unranked:,} of {number:,} test links are scored, the others not, for want"
            " of training links of an entity at their client"
        )
    if reverse:
        texts.append(
            f"{reverse:,} of {number:,} test links are training links in the other direction, so"
            " their ranks are no predictions"
        )
    return texts

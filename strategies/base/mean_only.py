"""Whether an aggregation needs only the mean of the updates, found out by trying it."""

from typing import Any

import numpy as np

from curvfed.strategies.base.aggregation import Aggregation, split_average
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.statistics import Statistics


def needs_only_mean(kind: type[Aggregation], keys: Any, config: RunKeys | None = None) -> bool:
    """Whether an aggregation needs only the mean of the updates: two rounds with the replies of
    some clients, and two with their mean as a single reply, leave it in the same state.

    Parameters
    ----------
    kind : type of Aggregation
    keys : Table
        The method's own keys.
    config : RunKeys, optional
        The keys of every run.

    Examples
    --------
    >>> from curvfed.strategies.base.aggregation import Average
    >>> class Momentum(Average):
    ...     def aggregate(self, replies):
    ...         start = self._arrays
    ...         super().aggregate(replies)
    ...         self._arrays = {name: 2 * self._arrays[name] - start[name] for name in start}
    >>> class Largest(Average):
    ...     def aggregate(self, replies):
    ...         self._arrays = dict(max(replies.values(), key=lambda reply: reply.weight).arrays)
    >>> needs_only_mean(Momentum, None), needs_only_mean(Largest, None)
    (True, False)
    """
    rng = np.random.default_rng(0)
    start = {"weight": rng.normal(size=(4, 3)), "bias": rng.normal(size=4)}
    replies = {
        client: Statistics(
            {name: array + rng.normal(size=array.shape) for name, array in start.items()},
            client + 1,
        )
        for client in range(5)
    }
    total = sum(reply.weight for reply in replies.values())
    mean = Statistics(split_average(start, list(replies.values())), total)
    states = []
    try:
        for answers in (replies, {0: mean}):
            server = kind(
                {name: array.copy() for name, array in start.items()}, keys, config, [*replies]
            )
            server.aggregate(answers)
            server.aggregate(answers)
            states.append(server.state())
    except Exception:  # it needs parameters or figures that only its own method has
        return False
    one_by_one, at_once = states
    return one_by_one.keys() == at_once.keys() and all(
        np.allclose(array, at_once[name], rtol=1e-6, atol=1e-9)
        for name, array in one_by_one.items()
    )

"""Lengths of updates, in medians of their round, and the bound on them."""

from types import SimpleNamespace

import numpy as np

from curvfed.server_app.callbacks.long_updates import FEWEST, LongUpdates, update_lengths
from curvfed.server_app.directory.checkpoint import State
from curvfed.strategies.base.aggregation import Average
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.statistics import Statistics


def test_lengths_are_in_medians_of_those_that_moved():
    server = Average({"w": np.zeros(2, np.float32), "n.running_mean": np.zeros(1, np.float32)})

    def reply(length, running=0.0):
        arrays = {"w": np.array([length, 0]), "n.running_mean": np.array([running])}
        return Statistics({name: array.astype(np.float32) for name, array in arrays.items()}, 1)

    replies = dict(enumerate([reply(0), reply(1), reply(2, 1e3), reply(4), reply(1e25)]))
    with np.errstate(over="ignore"):
        lengths = update_lengths(server, replies)
    assert lengths == {0: 0, 1: 1 / 3, 2: 1, 3: 4 / 3, 4: np.inf}
    run = SimpleNamespace(model=server, state=State())
    used = LongUpdates(run).contributions
    with np.errstate(over="ignore"):
        assert used(1, replies).keys() == {0, 1, 2, 3}
        server.config = RunKeys(update_bound=1.2)
        assert used(2, replies).keys() == {0, 1, 2}
        server.config = RunKeys(update_bound=0)
        assert used(3, replies).keys() == replies.keys()
    assert update_lengths(server, dict(list(replies.items())[: FEWEST - 1])) == {}


def test_a_model_stored_by_columns_has_the_same_lengths():
    rng = np.random.default_rng(0)
    start = rng.standard_normal((300, 500)).astype(np.float32)
    models = [start + np.float32(scale) * start**2 for scale in (1, 2, 3, 5)]
    replies = {p: Statistics({"w": np.asfortranarray(w)}, 1) for p, w in enumerate(models)}
    by_column = np.asfortranarray(start)
    for server in (Average({"w": start}), Average({"w": by_column})):
        lengths = update_lengths(server, replies)
        # the scales by their median, 2.5
        assert np.allclose(list(lengths.values()), [0.4, 0.8, 1.2, 2.0], rtol=1e-4)

"""The private histogram of `hull`: what one point changes, and what noise alone passes."""

import numpy as np
import pytest
from guards import hiding
from scipy.stats import binomtest

from curvfed.extensions.privacy.histogram import (
    NOISE_PASSES,
    HistogramClient,
    HistogramServer,
    least_count,
)
from curvfed.extensions.privacy.keys import Privacy
from curvfed.strategies.base.one_shot import Setting, Site
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.shared_tables import Points
from curvfed.strategies.base.statistics import Leaving, Statistics
from curvfed.strategies.errors import HullError
from curvfed.strategies.methods.hull import Keys
from curvfed.tasks.points import ClientPoints

GUARD = hiding()
GUARD.keys = Privacy(cell=1.0)
SETTING = Setting(Keys(), RunKeys(), Points(), GUARD, ("a", "b", "c"))


def client_of(points, labels, leaving):
    is_train = np.ones(len(points), bool)
    data = ClientPoints(points, labels, is_train, ~is_train, SETTING.class_names, -1.0, "", "")
    site = Site(data, 0, True, leaving, 1.0, lambda revealed, own_points: None)
    return HistogramClient(SETTING, site)


def counts(points, labels):
    statistics = client_of(points, labels, Leaving(5)).contribution(3, {})
    assert statistics.weight == 0
    return statistics.arrays["sums"]


def test_a_point_changes_one_number_by_one():
    generator = np.random.default_rng(3)
    angles = generator.uniform(0, 2 * np.pi, 60)
    # up to the rim, and on the borders of cells
    radii = np.concatenate([generator.uniform(0, 1, 50), [0.0] * 5, [1 - 1e-12] * 5])
    points = radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    labels = generator.integers(0, 3, 60)
    all_counts = counts(points, labels)
    assert all_counts.sum() == 60
    assert all_counts.size == HistogramServer(SETTING).vectors(3).length
    for left_out in range(60):
        change = all_counts - counts(np.delete(points, left_out, 0), np.delete(labels, left_out))
        assert np.array_equal(np.sort(change)[-2:], [0, 1])
        assert change.sum() == 1


def test_a_smaller_weight_leaves_classes_out_that_would_leave_by_their_size():
    labels = np.repeat([0, 1, 2], [40, 9, 3])
    points = np.zeros((52, 2))
    for max_examples, number in ((np.inf, 0), (26, 1), (5, 2)):
        client = client_of(points, labels, Leaving(5, max_examples=max_examples))
        assert client.classes_lost() == number


def test_cells_hold_their_centres():
    server = HistogramServer(SETTING)
    cells = np.arange(server.side**2)
    tangents = (np.stack(np.divmod(cells, server.side), axis=1) + 0.5) * 1.0 - 4
    inside = np.linalg.norm(tangents, axis=1) < 4
    assert np.array_equal(server.cells_of(tangents)[inside], cells[inside])


def test_noise_alone_passes_about_as_often_as_stated():
    noisy = np.random.default_rng(5).normal(scale=7.0, size=(4000, 300))
    passed = int((noisy > least_count(7.0, 300)).any(axis=1).sum())
    assert binomtest(passed, 4000, NOISE_PASSES).pvalue > 1e-3


def test_noise_that_leaves_one_class_is_an_error():
    server = HistogramServer(SETTING)
    sums = np.zeros(server.vectors(3).length)
    sums[0] = 100.0
    with pytest.raises(HullError, match=r"dp\.cell"):
        server.learn(Statistics({"sums": sums}, noise=3.0))

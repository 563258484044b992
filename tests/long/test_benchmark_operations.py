"""The benchmarks of the maps: what they say of errors, and that their rows can be measured."""

import math

import pytest
import torch

from benchmarks import losses, operations
from benchmarks.exact import exact_results
from benchmarks.row import Place

PLACE = Place(None)


@pytest.fixture(scope="module")
def errors():
    return operations.errors(PLACE)


def test_every_operation_has_its_errors_in_both_dtypes(errors):
    found = {(one.what, one.against, one.dtype) for one in errors}
    assert len(found) == len(errors) == 2 * sum(len(one.peers) for one in operations.OPERATIONS)


def test_our_errors_are_at_most_the_peers(errors):
    # Below 1, less than what rounding arguments and result costs by itself, there is nothing to be better in. Where a
    # peer has no number at all its largest error is not known.
    for one in errors:
        assert one.ours.bad == 0, one
        assert one.ours.conditioned <= max(one.theirs.conditioned, 1.0), one
        assert one.theirs.bad or one.ours.largest <= max(one.theirs.largest, 1.0), one


def test_both_compute_the_same_map(errors):
    # Half of the points are easy for everybody: another curvature or another convention would show.
    for one in errors:
        if one.dtype == "float64":
            assert one.theirs.median < 1e6, one
            assert one.ours.median < 4, one


def test_the_batch_is_in_nobodys_boundary():
    for space, one in (("poincare", operations.poincare), ("lorentz", operations.lorentz)):
        for curvature in operations.CURVATURES:
            points = operations._batch(space, torch.float64, curvature)
            origin = torch.zeros_like(points["x"])
            if space == "lorentz":
                origin[:, 0] = 1 / math.sqrt(-curvature)
            radii = one.dist(points["x"], origin, curvature) * math.sqrt(-curvature)
            assert 5.9 < radii.max() <= 6 + 1e-9


def test_exact_results_and_their_condition():
    (one,) = exact_results("poincare", "dist", -0.25, [[[0.0, 0.0]], [[1.0, 0.0]]])
    # 2·artanh(1/2)/(1/2) is 2 ln 3, and its slope over a relative change of x is 4/(1 − 1/4)/3 of that.
    assert float(one.vector[0]) == pytest.approx(2 * math.log(3), rel=1e-15)
    assert one.condition == pytest.approx((8 / 3) / (2 * math.log(3)), rel=1e-12)
    assert one.errors([math.nan]) == (math.inf, one.condition)
    assert one.errors([2 * math.log(3) * 1.5])[0] == pytest.approx(0.5)


@pytest.mark.parametrize("part", [operations, losses])
def test_rows_are_measured(part, monkeypatch):
    monkeypatch.setattr(part, "REPEATS", 1)
    monkeypatch.setattr(part, "CALLS", 1)
    monkeypatch.setattr(part, "BATCH", 20)
    threads = torch.get_num_threads()
    try:
        for row in part.rows(PLACE):
            if "float64" not in row.what and not row.what.endswith("forward"):
                assert row.measure().ratio > 0, row.what
    finally:
        torch.set_num_threads(threads)

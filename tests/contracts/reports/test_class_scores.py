"""Recall by class and reliability of probabilities in the report of a one-shot run."""

import numpy as np
import pytest
from app_runs import run
from scipy import stats

from curvfed.server_app.directory.hull_file import HullFile
from curvfed.server_app.report.class_scores import bands, recalls, wilson


@pytest.mark.parametrize(("right", "of"), [(0, 1), (0, 12), (1, 1), (3, 8), (40, 40), (977, 1000)])
def test_intervals_are_wilsons(right, of):
    expected = stats.binomtest(right, of).proportion_ci(0.95, "wilson")
    np.testing.assert_allclose(wilson(right, of), (expected.low, expected.high), atol=1e-6)


def test_recalls_and_bands_are_those_of_the_stored_points(tmp_path):
    found = run(tmp_path, method="hull", points__num=600, test_size=0.3, hull__baselines="none")
    file = HullFile.read(found.path / "hulls.npz")
    told = recalls(file.test.labels, file.predicted, file.class_names)
    assert [one.share for one in told] == sorted(one.share for one in told)
    right = sum(one.share * one.of for one in told)
    assert right / sum(one.of for one in told) == pytest.approx(found.summary["global_accuracy"])
    for one in told:
        mine = file.test.labels == file.class_names.index(one.name)
        assert one.share == pytest.approx((file.predicted[mine] == file.test.labels[mine]).mean())
    parts = bands(file)
    assert sum(one.of for one in parts) == len(file.test.labels)
    page = (found.path / "report.html").read_text()
    assert "Classes, the worst first" in page
    assert "Where the probabilities can be believed" in page

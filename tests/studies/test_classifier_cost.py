"""The counted costs of the classifier are those that SphereFed's Table 1 prints."""

import pytest

from studies.classifier_cost import METHODS, printed, sent_here, table


@pytest.mark.parametrize("method", METHODS)
def test_counts_agree_with_the_printed_digits(method):
    cost = table()[method]
    megabytes, operations = printed()[method]
    assert cost.megabytes == pytest.approx(megabytes, abs=0.6)
    assert cost.giga_operations == pytest.approx(operations, rel=0.06)


def test_triangles_in_float64_are_about_as_long_as_whole_matrices_in_float32():
    here = sent_here()
    assert here["CCVR"] == pytest.approx(table()["CCVR"].megabytes, rel=0.01)

"""The audit of neighbours: a node's own data with one record and without it, through loader, split,
training, sums and noise; a few releases of some runs, and 2,000 of every kind of private run."""

import numpy as np
import pytest
from scipy import stats
from tiers import only

from benchmarks.tables import read_csv
from studies import audit
from studies.audit import (
    Separation,
    exact_epsilon,
    lower_bound,
    normal_bound,
    separation,
    write_page,
)

pytest.importorskip("dp_accounting")

CERTAIN = 1 - 1e-6
"""Confidence of bounds on releases whose noise has no seed."""


def check(audited: Separation, epsilon: float) -> None:
    """Neither the exact replies nor the noisy ones refute epsilon, and the noise has its scale."""
    assert exact_epsilon(audited.distance) <= epsilon * (1 + 1e-6)
    assert lower_bound(audited, CERTAIN) <= epsilon
    assert normal_bound(audited, CERTAIN) <= epsilon
    for scores, mean in ((audited.without, 0.0), (audited.beside, audited.distance)):
        assert stats.kstest(scores - mean, "norm").pvalue > 1e-6


@pytest.mark.parametrize(
    ("name", "epsilon", "has_parts"),
    only(
        [
            ("points, discriminant", 1.0, True),
            ("points, discriminant", 1.0, False),
            ("images, two rounds", 8.0, True),
            ("images, two rounds", 8.0, False),
        ],
        lambda case: case != ("images, two rounds", 8.0, False),
    ),
)
def test_a_record_is_hidden_as_far_as_is_claimed(name, epsilon, has_parts, tmp_path):
    audited = separation(name, epsilon, 40, tmp_path, has_parts, candidates=1 if has_parts else 2)
    check(audited, epsilon)
    if has_parts:  # the claim is no weaker than it could be
        assert exact_epsilon(audited.distance) > 0.9 * epsilon


@pytest.mark.long
@pytest.mark.parametrize("has_parts", [True, False])
@pytest.mark.parametrize("epsilon", audit.EPSILONS)
@pytest.mark.parametrize("name", audit.RUNS)
def test_a_record_is_hidden_in_2000_releases(name, epsilon, has_parts, tmp_path):
    audited = separation(name, epsilon, audit.RELEASES, tmp_path, has_parts)
    check(audited, epsilon)
    assert exact_epsilon(audited.distance) > 0.8 * epsilon, (
        "the claim is no weaker than it could be"
    )


def of_normal(distance, number=2000, spread=1.0):
    generator = np.random.default_rng(0)
    without, with_record = spread * generator.normal(size=(2, number))
    return Separation(distance, without, with_record + distance)


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
@pytest.mark.parametrize("bound", [lower_bound, normal_bound])
def test_bounds_hold_for_noise_of_the_claimed_scale_and_see_a_third_of_it(bound, epsilon):
    distance = {1.0: 0.26810, 8.0: 1.66601}[epsilon]
    assert exact_epsilon(distance) == pytest.approx(epsilon, rel=1e-3)
    assert bound(of_normal(distance), audit.CONFIDENCE) <= epsilon
    louder = bound(of_normal(distance, spread=1 / 3), audit.CONFIDENCE)
    assert louder > (1.0 if epsilon == 1 else 4.0)


def test_a_third_of_the_noise_is_noticed_by_its_scale():
    with pytest.raises(AssertionError):
        check(of_normal(0.268, spread=1 / 3), 1.0)


def test_answers_alone_refute_little():
    assert 4.5 < lower_bound(of_normal(100.0), audit.CONFIDENCE) < 5.5
    assert lower_bound(of_normal(0.0), audit.CONFIDENCE) == 0


def test_a_claim_holds_if_no_number_of_its_row_is_above_epsilon(tmp_path):
    rows = [
        ["points", "given", "1", "0.20", "0.67", "1.00"],
        ["points", "drawn", "1", "0.10", "1.01", "0.95"],
    ]
    write_page(tmp_path / "page.md", rows, 2000)
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert text.endswith("\n| 1 | 1 of 2 | 0.20 | 1.01 | 1.00 |\n")
    assert read_csv(tmp_path / "page.csv") == rows

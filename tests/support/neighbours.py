"""Whether releases of neighbours refute a claim of privacy."""

from scipy import stats

from studies.audit import Separation, exact_epsilon, lower_bound, normal_bound

CERTAIN = 1 - 1e-6
"""Confidence of bounds on releases whose noise has no seed."""


def check(seen: Separation, epsilon: float) -> None:
    """Neither the exact replies nor what is seen of noisy ones refute epsilon, and the noise has
    its scale."""
    assert exact_epsilon(seen.distance) <= epsilon * (1 + 1e-6)
    assert lower_bound(seen, CERTAIN) <= epsilon
    assert normal_bound(seen, CERTAIN) <= epsilon
    for scores, mean in ((seen.without, 0.0), (seen.beside, seen.distance)):
        assert stats.kstest(scores - mean, "norm").pvalue > 1e-6

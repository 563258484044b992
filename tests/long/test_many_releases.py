"""2,000 releases of a node's own data with one record and without it, of every kind of private
run: through loader, split, training, sums and noise."""

import pytest
from neighbours import check

from studies.audit import EPSILONS, RELEASES, RUNS, exact_epsilon, separation

pytest.importorskip("dp_accounting")


@pytest.mark.parametrize("has_parts", [True, False])
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", RUNS)
def test_a_record_is_hidden_as_far_as_is_claimed(name, epsilon, has_parts, tmp_path):
    seen = separation(name, epsilon, RELEASES, tmp_path, has_parts)
    check(seen, epsilon)
    assert exact_epsilon(seen.distance) > 0.8 * epsilon, "the claim is no weaker than it could be"

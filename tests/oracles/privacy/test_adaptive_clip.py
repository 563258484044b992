"""The adaptive clip: where it goes, and what one update changes in a noised sum."""

import numpy as np
import pytest

from curvfed.strategies.base.aggregation import Average
from curvfed.strategies.base.privacy_noise import (
    CLIP,
    WITHIN,
    AdaptiveClip,
    split_clip,
    variances,
    within,
)
from curvfed.strategies.base.shared_tables import Privacy
from curvfed.strategies.base.statistics import Statistics
from curvfed.strategies.config.secure_phases import weighted_update
from curvfed.strategies.wire.checks import MessageError

PRIVACY = Privacy(unit="client", epsilon=1.0, clip=0.1, clip_quantile=0.7)


def test_the_clip_goes_to_the_quantile_of_the_lengths():
    generator = np.random.default_rng(1)
    lengths = generator.gamma(3.0, size=200)
    server = AdaptiveClip(Average({"w": np.zeros(2)}), PRIVACY)
    for _ in range(150):
        _, clip = split_clip(server.sent_to(0))
        bits = np.array([within(length, clip)[WITHIN][0] for length in lengths])
        noise = generator.normal(scale=0.05 * clip, size=1)  # of the mean
        update = Statistics({"w": np.ones(2), WITHIN: bits.mean(keepdims=True) + noise}, 200)
        server.aggregate({0: update})
    assert abs((lengths <= clip).mean() - 0.7) < 0.06
    assert server.global_model().keys() == {"w"}
    resumed = AdaptiveClip(Average({"w": np.zeros(2)}), PRIVACY)
    resumed.load(server.state())
    assert resumed.sent_to(0)[CLIP] == server.sent_to(0)[CLIP]


@pytest.mark.parametrize("length", [0.0, 0.5, 2.0, 2.0001, 1e9])
def test_an_update_changes_the_sum_by_no_more_than_the_noise_is_for(length):
    start = {"a": np.zeros(2), "w": np.zeros((3, 4)), CLIP: np.array([2.0])}
    move = np.random.default_rng(2).normal(size=(3, 4))
    arrays = {"a": np.zeros(2), "w": move * length / np.linalg.norm(move)}
    _, measured = weighted_update(arrays, start, 1, 2.0)
    vector, _ = weighted_update(arrays | within(measured, 2.0), start, 1, 2.0 * (1 - 1e-6))
    cost = (vector**2 / variances(arrays, 2.0)).sum()
    assert 0.05 * (1 - 1e-9) <= cost <= 1


@pytest.mark.parametrize("clip", [[], [0.0], [-1.0], [np.nan], [np.inf], [1.0, 1.0]])
def test_a_clip_without_meaning_is_refused(clip):
    with pytest.raises(MessageError, match=CLIP):
        split_clip({"w": np.zeros(2), CLIP: np.array(clip)})

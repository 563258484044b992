"""Which phases of a run are masked."""

from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.wire.messages import CALIBRATE, CCVR, EVALUATE, FINE_TUNE, HULLS, TRAIN

TARGETS = (TRAIN, CALIBRATE, CCVR, HULLS, FINE_TUNE, EVALUATE)
"""Phases whose replies can be masked, in their order within a round."""


def is_masked(run: RunKeys, phase: str) -> bool:
    """Whether the server sees only the sum of the replies of this phase."""
    return phase in TARGETS and (run.secure_sum or phase == HULLS)

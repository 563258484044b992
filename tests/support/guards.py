"""Guards of runs in tests, without a package that adds one."""

import pytest

from curvfed.strategies.base.guard import Guard
from curvfed.tasks.plugins import additions

needs_privacy = pytest.mark.skipif(
    "dp" not in additions("guards"), reason="differential privacy is an extension of its own"
)


def hiding(unit: str = "record", clip: float = 1.0) -> Guard:
    """A guard that hides this unit."""
    guard = Guard(None)
    guard.unit = unit
    guard.clip = clip
    return guard

"""Which cases of a parametrised test are left to the longer tier."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def only(cases: Iterable[Any], kept: Callable[[Any], bool]) -> list[Any]:
    """All cases; those that are not kept are marked `long`. What a case is alone in proving must be
    kept."""
    return [
        (
            case
            if kept(case)
            else pytest.param(
                *(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.long
            )
        )
        for case in cases
    ]

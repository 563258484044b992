"""What is left to the longer tier: cases of a parametrised test, and examples of a law."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import settings


def only(cases: Iterable[Any], kept: Callable[[Any], bool]) -> list[Any]:
    """All cases; the others are marked `long`. What a case alone proves must be chosen."""
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


def examples(most: int) -> settings:
    """So many examples in the longer tier and for chosen files, a sixth in the quick tier."""
    is_quick = settings.default.max_examples < settings.get_profile("whole").max_examples
    return settings(max_examples=max(most // 6, 6) if is_quick else most)

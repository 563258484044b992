"""Which secure sums have values of single classes or entities, and how many members must have one:
with fewer, the values stay at these members, since the sum would show them."""

from collections.abc import Iterable

from curvfed.strategies.config.build_method import learner_class
from curvfed.strategies.config.one_shot import client_class
from curvfed.strategies.config.run_config import RunConfig

MIN_HOLDERS = 3
"""Default of secure.min-holders, and of [sums] min-holders in a policy: with two, each knows the
other's part of the sum."""

COUNT_MODULUS = 2**31 - 1
"""Modulus of the sum that counts the members."""


def sums_by_name(config: RunConfig) -> bool:
    """Whether secure sums of a run have cells or rows for single classes or entities, and no noise
    hides them; `config` has its defaults resolved."""
    if not config.is_masked or config.guard.hides_classes:
        return False
    if config.row.is_one_shot:
        return bool(client_class(config).sums_by_name(config.own_keys))
    return config.calibrator is not None or learner_class(config.row).sums_by_name


def few_stay(config: RunConfig, minima: Iterable[int]) -> bool:
    """Whether results of a class or an entity with too few members stay with these, by the minima
    of the members, as `holders_needed` takes them; `config` has its defaults resolved."""
    asked = config.secure.min_holders or 1
    return sums_by_name(config) and any(minimum != 1 for minimum in (asked, *minima))


def holders_needed(minimum: int, members: int) -> int:
    """The minimum number of holders among these members; a minimum of 0 is the default: 3, or all
    of fewer."""
    return minimum or min(MIN_HOLDERS, members)

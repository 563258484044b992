"""Sums of integer vectors modulo a prime that show a server nothing but the sum (Bonawitz et al., CCS 2017)."""

from curvfed.strategies.secure_sum.collector import Collector
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.secure_sum.fixed_point import SUM_PRIME, FixedPoint
from curvfed.strategies.secure_sum.member import Member
from curvfed.strategies.secure_sum.session import Session
from curvfed.strategies.secure_sum.wire import (
    Keys,
    Parts,
    Shares,
    by_partition,
    by_partition_parts,
    checksum,
    key_book,
    key_book_parts,
)

__all__ = [
    "SUM_PRIME",
    "Collector",
    "FixedPoint",
    "Keys",
    "Member",
    "Parts",
    "SecureSumError",
    "Session",
    "Shares",
    "by_partition",
    "by_partition_parts",
    "checksum",
    "key_book",
    "key_book_parts",
]

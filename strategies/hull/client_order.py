"""A random order of the clients, which they agree on and the server does not see (Appendix B).

Every client draws a fresh random number and sends it to all others, encrypted with keys that are
used only for this. The paper derives the number from a secret key that the server can recover when
a client vanishes; the server could then compute the order.
"""

import secrets
from collections.abc import Mapping

from curvfed.strategies.hull.errors import HullError

ORDER_NUMBER_BYTES = 16
"""Two of 1000 clients draw the same number with probability 1e-33."""


def draw_order_number() -> bytes:
    """A fresh random number."""
    return secrets.token_bytes(ORDER_NUMBER_BYTES)


def client_position(order_numbers: Mapping[int, bytes], me: int) -> int:
    """This client's position in the order of all clients' numbers, from 0.

    Raises
    ------
    HullError
        If a number does not have `ORDER_NUMBER_BYTES` bytes, or two are equal, so that two clients
        would share a position.
    """
    wrong = sorted(
        partition
        for partition, number in order_numbers.items()
        if len(number) != ORDER_NUMBER_BYTES
    )
    if wrong:
        raise HullError(
            f"the order number of partition {wrong[0]} does not have {ORDER_NUMBER_BYTES} bytes",
            key="order-number",
        )
    ordered = sorted(order_numbers.values())
    if len(set(ordered)) < len(ordered):
        raise HullError("two clients have the same order number", key="order-number")
    return ordered.index(order_numbers[me])


def draw_slots(num_slots: int, count: int) -> list[int]:
    """`count` different slots out of 0 … num_slots − 1, at random, so that a slot does not reveal a
    class."""
    return secrets.SystemRandom().sample(range(num_slots), count)

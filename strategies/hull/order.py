"""Who is first, second, third: an order that the clients agree on and the server does not see (Appendix B).

Every client draws a fresh random number and sends it to all others, sealed by keys that are for nothing else. The paper
draws it from the secret key whose recovery the server can ask for when a client vanishes, and would then know it.
"""

import secrets
from collections.abc import Mapping

from curvfed.strategies.hull.errors import HullError

NOTE_BYTES = 16
"""Of a number: two of 1000 clients draw the same one with probability 1e-33."""


def draw_order_number() -> bytes:
    """A fresh number."""
    return secrets.token_bytes(NOTE_BYTES)


def position(notes: Mapping[int, bytes], me: int) -> int:
    """The client's place, 0 for the first, in the order of the numbers of all that are there.

    Raises
    ------
    HullError
        If a number is not of `NOTE_BYTES` bytes, or two are equal: their clients would take one place.
    """
    odd = sorted(partition for partition, note in notes.items() if len(note) != NOTE_BYTES)
    if odd:
        raise HullError(f"the order number of partition {odd[0]} is not of {NOTE_BYTES} bytes")
    ordered = sorted(notes.values())
    if len(set(ordered)) < len(ordered):
        raise HullError("two clients have the same order number")
    return ordered.index(notes[me])


def draw_slots(num_slots: int, count: int) -> list[int]:
    """`count` different slots out of 0 … num_slots − 1, at random: which is of which class is nobody else's business."""
    return secrets.SystemRandom().sample(range(num_slots), count)

"""The error of the hull protocol."""

from curvfed.tasks.errors import SafeError


class HullError(SafeError, ValueError):
    """Hulls cannot be encoded, or a sum cannot be decoded.

    The text travels to the server: it says what is wrong and what is allowed, never a bin, a slot
    or a position.
    """

    area = "hull"


def undecodable(why: str) -> HullError:
    """The error of a sum that is not the sum of encoded hulls."""
    return HullError(
        f"the sum of the hulls cannot be decoded: {why}; a client's vector or a mask is missing or"
        " damaged",
        key="undecodable",
    )

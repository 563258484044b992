"""The format number of the files that a run can be resumed from, so that later versions know what they read.

Files without a number have format 1. In their configurations 0 or -1 has the meaning of "auto" in format 2.
"""

FORMAT = 2


def unreadable(number: str) -> str:
    """Why a file of this format cannot be read; "" if it can."""
    if number in map(str, range(1, FORMAT + 1)):
        return ""
    return f"it has format {number}, written by another version of curvfed; this one reads formats 1 to {FORMAT}"

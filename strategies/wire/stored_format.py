"""The format number of the files that a run can be resumed from, so that later versions know what they read.

Files without a number have format 1. In their configurations 0 or -1 has the meaning of "auto" in later formats. Up to
format 2 the automatic optimiser of graphs was adam, and moments lived on only beside personal parameters. Up to format 3
files had no digest.
"""

FORMAT = 4
WITHOUT_DIGEST = ("1", "2", "3")


def unreadable(number: str) -> str:
    """Why a file of this format cannot be read; "" if it can."""
    if number in map(str, range(1, FORMAT + 1)):
        return ""
    return f"it has format {number}, written by another version of curvfed; this one reads formats 1 to {FORMAT}"

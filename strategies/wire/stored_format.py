"""The format of the files that a run goes on from, by number: a later version can then tell what it reads.

Format 1 is that of files without a number. In its configurations 0 or -1 stands for what is "auto" since format 2.
"""

FORMAT = 2


def unreadable(number: str) -> str:
    """Why a file of this format cannot be read; "" if it can."""
    if number in map(str, range(1, FORMAT + 1)):
        return ""
    return f"it is of format {number}, written by another version of curvfed; this one reads formats 1 to {FORMAT}"

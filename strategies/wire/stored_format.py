"""The format of the files that a run goes on from, by number: a later version can then tell what it reads.

Format 1 is that of files without a number, too.
"""

FORMAT = 1


def unreadable(number: str) -> str:
    """Why a file of this format cannot be read; "" if it can."""
    if number == str(FORMAT):
        return ""
    return f"it is of format {number}, written by another version of curvfed; this one reads format {FORMAT}"

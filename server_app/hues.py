"""The colours of classes: unlike all others, which are the page's own, the same on light paper and on dark."""

from collections.abc import Sequence

HUES = (
    "#2f86c8", "#e0781e", "#3f9d43", "#d6403f", "#8f6bc0", "#94624f", "#d977bd", "#7f8890", "#a3a227", "#1fb0c0",
    "#4a5fd6", "#b8860b", "#2f8f78", "#b0305c", "#c061e8", "#6d7a3a", "#f0719a", "#5a7d9e", "#7fb34d", "#c9846b",
)  # fmt: skip
"""Colours that can be told apart."""

_COURSE = ("#7b4fc9", "#2a7fd0", "#159a9c", "#3f9e3a", "#a39a1c", "#e07b1a", "#d43a3a", "#d052a8")


def hues(count: int) -> Sequence[str]:
    """A colour for each of so many classes: `HUES`, or where there are more classes a course whose neighbours are alike."""
    if count <= len(HUES):
        return HUES
    from matplotlib.colors import LinearSegmentedColormap, to_hex

    course = LinearSegmentedColormap.from_list("course", _COURSE)
    return [to_hex(course(place / (count - 1))) for place in range(count)]

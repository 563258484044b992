"""The formats of links, and how they are recognised."""

from pathlib import Path

from curvfed.extensions.links.sources import EDGES
from curvfed.extensions.links.tables import columns_of, folder_of_links, is_unclear, weighted
from curvfed.tasks.format import Format, holds_array
from curvfed.tasks.tables import ending, first_lines

TABLES = (".csv", ".tsv")


def _is_links(path: Path) -> str:
    if path.is_dir():
        return folder_of_links(path)
    kind = ending(path)
    if kind not in TABLES or not path.is_file():
        return "it ends in .obo" if kind == ".obo" else holds_array(path, EDGES[0])
    lines = first_lines(path)
    # A damaged table that is not compressed is unclear; see below.
    if not lines and path.suffix.lower() == ".gz":
        return "it ends in .gz, and has no lines that can be read"
    return columns_of(lines) or weighted(lines)


def _is_unclear(path: Path) -> str:
    if path.suffix.lower() not in TABLES or not path.is_file():
        return ""
    lines = first_lines(path)
    if not is_unclear(lines):
        return ""
    names = "one line, which may be the names of columns"
    return f"it has {names if lines else 'no lines that can be read'}"


FORMATS = (
    Format(
        "a table, OBO file or folder of links",
        ("links",),
        _is_links,
        "curvfed.extensions.links.readers:locate",
    ),
)
"""The formats that lists name."""

UNCLEAR = (Format("a table of links or points", ("links", "points"), _is_unclear),)
"""Files that may also hold points."""

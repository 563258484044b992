"""The shapes of hierarchies as a table."""

from collections.abc import Sequence

from curvfed.server_app.report.page import Cell, Table, number, percent
from curvfed.tasks.links.hierarchy import Hierarchy


def table(shapes: Sequence[Hierarchy]) -> Table:
    """A row per relation."""
    rows = []
    for shape in shapes:
        texts = [
            number(shape.entities),
            number(shape.links),
            number(shape.direct),
            percent(shape.several_parents),
            number(shape.ancestors, 1),
            number(shape.in_cycles),
        ]
        rows.append(([shape.relation or "links"], [Cell(text) for text in texts]))
    heads = [
        "entities",
        "links",
        "direct links",
        "several parents",
        "ancestors",
        "in cycles",
    ]
    return Table("", ["relation"], heads, rows)

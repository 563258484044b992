"""The table of a comparison on a terminal."""

from rich.console import Console
from rich.table import Table as PrintedTable

from curvfed.server_app.report.page import Table

PRINTED = 200
"""Width of the printed table, in characters, without a terminal."""


def print_table(table: Table, console: Console) -> None:
    """Print the figures, as a list if the terminal is narrower than the table, and below them the
    configurations, which are too long for columns."""
    if not console.is_terminal:
        console.width = PRINTED  # a file or a pipe has space for every column
    printed = PrintedTable("method", *table.columns)
    for (name, _), cells in table.rows:
        printed.add_row(name, *(cell.text for cell in cells))
    unbounded = console.options.update(max_width=10 * PRINTED)
    if console.measure(printed, options=unbounded).maximum <= console.width:
        console.print(printed)
    else:
        _print_list(table, console)
    for (name, words), _ in table.rows:
        if words:
            console.print(f"{name}: {words}")


def _print_list(table: Table, console: Console) -> None:
    """Print each method with its figures below it."""
    for (name, _), cells in table.rows:
        console.print(name)
        for head, cell in zip(table.columns, cells, strict=True):
            if cell.text not in ("", "–"):
                console.print(f"  {head}: {cell.text}")

"""Tables and pictures of pages: columns that stand, line breaks, colours of dark paper."""

import re
from typing import Any

from curvfed.server_app.report import style
from curvfed.server_app.report.page import Cell, Page, Picture, Table, html_page

COLUMNS = ("nodes", "graphs", "curvature")


def table(*rows: tuple[str, ...], **more: Any) -> Table:
    """A table of clients, with a row for each."""
    cells = [([str(place)], [Cell(text) for text in row]) for place, row in enumerate(rows)]
    return Table("", ["client"], COLUMNS, cells, "Clients.", **more)


def test_optional_columns_that_tell_nothing_apart_go_to_the_legend():
    whole = table(("8", "1", "–"), ("9", "1", ""), optional=COLUMNS)
    assert whole.shown.columns == ["nodes"]
    assert [[cell.text for cell in cells] for _, cells in whole.shown.rows] == [["8"], ["9"]]
    assert whole.shown.legend == "Clients. The same in all rows: graphs: 1."
    assert "curvature" not in whole.html
    assert "graphs: 1" in whole.html


def test_a_column_that_a_row_lacks_is_not_equal_in_all():
    """The size of a client that keeps it to itself is not that of the others."""
    sizes = table(("50", "1", "a"), ("50", "1", "b"), ("–", "1", "c"), optional=COLUMNS).shown
    assert sizes.columns == ["nodes", "curvature"]
    assert sizes.legend == "Clients. The same in all rows: graphs: 1."


def test_a_configuration_is_a_row_below_its_name():
    heads = ["method", "rate", "schedule", "gate"]
    rows = [(["links", "0.1", "inverse", "true"], [Cell("1"), Cell("2")])]
    page = Table("", heads, ["score", "cost"], rows, is_folded=True).html
    assert "rate = 0.1, inverse, gate = true" in page
    assert page.count("<th ") == 1 + 2 + 1  # the method and the columns, and the row's name
    assert 'colspan="3"' in page


def test_every_colour_of_a_picture_is_one_of_the_page(tmp_path):
    with style.applied():
        figure, (axes,) = style.panels(1)
        for number in range(len(style.PALETTE)):
            look = style.Look.of(number)
            axes.plot([0, 1], [number, 2], color=look.colour, marker=look.marker)
            axes.bar([number], [1], 0.5, color=look.tint, hatch=look.hatch)
        axes.set(xlabel="x", ylabel="y")
    picture = Picture(figure, "All looks", "A caption.").saved(tmp_path / "it")
    text = html_page(Page("It", [], [], [picture], []))
    drawn = text[text.index("<svg") : text.rindex("</svg>")]
    assert re.findall(r"#[0-9a-f]{6}\b", drawn) == []
    names = set(re.findall(r"var\(--([\w-]+)\)", drawn))
    light, dark = text.partition("@media screen and (prefers-color-scheme: dark)")[::2]
    for name in names:
        assert f"--{name}: #" in light
        assert f"--{name}: #" in dark.partition("* { box-sizing")[0]

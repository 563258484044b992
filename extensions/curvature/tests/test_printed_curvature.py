"""Brackets in a printed table are text, although they look like rich's markup."""

import io

from curvfed.deployments.terminal import open_console
from curvfed.extensions.curvature.commands.entry import _print
from curvfed.server_app.report.page import Cell, Table


def test_brackets_in_names_and_cells_are_printed():
    output = io.StringIO()
    table = Table("", ["a", "b"], ["c"], [(["mine[0]", ""], [Cell("[data]")])])
    _print(table, open_console(file=output, width=200))
    assert "mine[0]" in output.getvalue()
    assert "[data]" in output.getvalue()

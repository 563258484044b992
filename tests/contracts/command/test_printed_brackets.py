"""Brackets in the texts of a summary are printed, although they look like rich's markup."""

import io

from rich.console import Console

from curvfed.deployments.commands import models
from curvfed.deployments.terminal import summary_table
from curvfed.extensions.sweeps.commands.compare import results
from curvfed.server_app.report.page import Cell, Table


def test_a_section_in_brackets_is_printed():
    error = "policy.toml says in [data]; the line label-key = 'a' there would allow it"
    output = io.StringIO()
    table = summary_table({"status": "failed", "error": error})
    Console(file=output, width=200).print(table)
    assert error in output.getvalue()


def test_brackets_in_the_names_and_cells_of_a_table_are_printed():
    for print_table in (models._print, results._print_table):
        output = io.StringIO()
        table = Table("", ["a", "b"], ["c"], [(["mine[0]", ""], [Cell("[data]")])])
        print_table(table, Console(file=output, width=200))
        assert "mine[0]" in output.getvalue()
        assert "[data]" in output.getvalue()

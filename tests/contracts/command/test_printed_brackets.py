"""Brackets in the texts of a summary are printed, although they look like rich's markup."""

import io

from rich.console import Console

from curvfed.deployments.terminal import summary_table


def test_a_section_in_brackets_is_printed():
    error = "policy.toml says in [data]; the line label-key = 'a' there would allow it"
    output = io.StringIO()
    table = summary_table({"status": "failed", "error": error})
    Console(file=output, width=200).print(table)
    assert error in output.getvalue()

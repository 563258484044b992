"""Texts from outside are printed as they are, although brackets look like rich's markup."""

import io
import re
from pathlib import Path

import pytest
from absent_extensions import needs_tables

from curvfed.deployments.commands.command import main
from curvfed.deployments.terminal import open_console, summary_table

ROOT = Path(__file__).parents[3]
ERROR = "policy.toml says in [data]; the line label-key = 'a[/b]' there would allow it"


def test_a_section_in_brackets_is_printed():
    output = io.StringIO()
    table = summary_table({"status": "failed", "error": ERROR})
    open_console(file=output, width=200).print(table)
    assert ERROR in output.getvalue()


@needs_tables
def test_names_of_files_and_labels_are_printed_as_they_are(tmp_path, capsys):
    path = tmp_path / "[red]cells.csv"
    path.write_text("x,y,label\n" + "0.1,0.2,[data]\n0.3,0.1,[/bold]\n" * 20)
    assert main(["check", f"dataset={path}", "method=fedavg", "num-supernodes=2"]) == 0
    said = capsys.readouterr().out
    assert "classes: [/bold], [data]" in said
    assert "[red]cells.csv" in said
    assert main(["check", f"dataset={tmp_path}/[blue]none.csv"]) == 2
    assert "[blue]none.csv" in capsys.readouterr().err


@pytest.mark.parametrize("room", ["deployments", "extensions", "server_app", "client_app"])
def test_only_one_function_makes_a_console(room):
    for path in sorted((ROOT / room).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if path.name != "terminal.py" and "tests" not in path.parts:
            assert not re.search(r"(?<![\w.])Console\(|rich\.markup|from_markup", text), path

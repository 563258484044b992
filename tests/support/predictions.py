"""The command `predict`, and what it says."""

import csv

from curvfed.deployments.commands.command import main


def ask(capsys, *arguments) -> tuple[list[dict[str, str]], dict[str, str]]:
    """Rows of the CSV, and what is said beside it."""
    capsys.readouterr()  # what a run said
    assert main(["predict", *map(str, arguments)]) == 0
    captured = capsys.readouterr()
    notes = dict(line.split(": ", 1) for line in captured.err.splitlines())
    return list(csv.DictReader(captured.out.splitlines())), notes


def refused(capsys, *arguments, status: int = 1) -> str:
    capsys.readouterr()
    code = main(["predict", *map(str, arguments)])
    captured = capsys.readouterr()
    assert (code, captured.out) == (status, "")
    assert captured.err.startswith("error: ")
    return captured.err

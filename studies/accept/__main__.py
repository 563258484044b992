"""Run the acceptance tables, on which figures of the documentation rest.

    python -m studies.accept --data FOLDER [--only olsson,joining] [--keep FOLDER [--reuse]] [--store]

Prints bar, value, pass or fail per line; exit status 0 if all pass. With --store the lines of each
table also go to `docs/measured/accept/NAME.json`, from which `docs/make_pages.py` reads figures. A
table whose data sets are not in the folder is a line that fails. Run directories stay in a temporary folder that is named at the
end if a line failed.
"""

import argparse
import json
import logging
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from curvfed.tasks.errors import DataError
from curvfed.tasks.stored_files import write_atomically
from studies.accept import consistency, flatland, hull_choice, olsson
from studies.accept.lab import Lab, Outcome, RunFailed

PARTS = (flatland, olsson, hull_choice, consistency)
TABLES = tuple(table for part in PARTS for table in part.TABLES)

LONG = ("consistency",)
"""Tables that take an hour, which run only by name."""

STORED = Path(__file__).parents[2] / "docs" / "measured" / "accept"

ENDS = (DataError, RunFailed)
"""Errors that end a table, and not the command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tables that the command line names, all of them by default."""
    tables = {table.__name__: table for table in TABLES}
    parser = argparse.ArgumentParser(
        prog="python -m studies.accept", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--data", required=True, type=Path, help="folder of the public data sets")
    usual = ",".join(name for name in tables if name not in LONG)
    help_text = (
        f"which of {', '.join(tables)}; all but {', '.join(LONG)}, which take long, if left out"
    )
    parser.add_argument("--only", default=usual, help=help_text)
    parser.add_argument("--keep", type=Path, help="folder for the run directories, kept")
    parser.add_argument(
        "--reuse", action="store_true", help="with --keep: runs that are there already count"
    )
    parser.add_argument(
        "--store", action="store_true", help="write the lines into docs/measured/accept"
    )
    options = parser.parse_args(arguments)
    chosen = options.only.split(",")
    if unknown := [name for name in chosen if name not in tables]:
        parser.error(f"--only: no table {', '.join(unknown)}; there are {', '.join(tables)}")
    if not options.data.is_dir():
        parser.error(f"--data: {options.data} is no folder (with make: make accept DATA=folder)")
    folder = options.keep or Path(tempfile.mkdtemp(prefix="curvfed-accept-"))
    folder.mkdir(parents=True, exist_ok=True)
    console = Console()
    logging.getLogger("curvfed").addHandler(
        logging.NullHandler()
    )  # progress of runs in this process is not a line here
    failed = 0
    with Lab(options.data.resolve(), folder.resolve(), options.reuse) as lab:
        for name in chosen:
            outcomes = []
            try:
                for outcome in tables[name](lab):
                    failed += not outcome.passed
                    outcomes.append(asdict(outcome))
                    _print(console, outcome)
                if options.store:
                    STORED.mkdir(exist_ok=True)
                    text = json.dumps(outcomes, indent=1, ensure_ascii=False)
                    write_atomically(STORED / f"{name}.json", f"{text}\n".encode())
            except ENDS as error:  # the other tables may have what they need
                failed += 1
                _print(
                    console,
                    Outcome(f"{name}: the table ends here", "all of its lines", str(error), False),
                )
    console.print(
        f"{failed} failed; run directories: {folder}" if failed else "all passed", soft_wrap=True
    )
    return int(failed > 0)


def _print(console: Console, outcome: Outcome) -> None:
    """One line, as soon as it is known: the tables take minutes."""
    word = "[green]pass[/green]" if outcome.passed else "[red]FAIL[/red]"
    console.print(
        f"{word}  {escape(outcome.what)}\n      bar {escape(outcome.bar)}   value"
        f" {escape(outcome.value)}",
        soft_wrap=True,
    )


if __name__ == "__main__":
    sys.exit(main())

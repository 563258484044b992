"""Tables and figures of a sweep, of whatever runs of it there are.

    curvfed report FILE.toml [--scale smoke] [--results FOLDER] [--to FOLDER] [--against METHOD]

Exit status: 0, or 2 for wrong usage.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from curvfed.deployments.pairs import UsageError
from curvfed.deployments.report.page import FORMATS, make_folder, make_part, write_part
from curvfed.deployments.report.selection import select
from curvfed.deployments.sweep.__main__ import add_places, default_results, expanded
from curvfed.deployments.sweep.plan import read_plan
from curvfed.deployments.sweep.results import Results


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as the command line says, and return the exit status."""
    parser = argparse.ArgumentParser(prog="curvfed report", description=__doc__.split("\n")[0])
    add_places(parser)
    parser.add_argument("--to", type=expanded, default=Path("report"), help="folder to write to, report by default")
    parser.add_argument("--against", default="", help="method that the others are tested against")
    parser.add_argument("--formats", default=",".join(FORMATS), help=f"some of {','.join(FORMATS)}, all by default")
    options = parser.parse_args(arguments)
    console = Console(soft_wrap=True)
    try:
        formats = options.formats.split(",")
        if unknown := [one for one in formats if one not in FORMATS]:
            raise UsageError(f"--formats: {unknown[0]!r}; allowed are {', '.join(FORMATS)}")
        plan = read_plan(options.file, options.scale)
        methods = list(dict.fromkeys(str(run.value("method")) for run in plan.runs))
        if options.against and options.against not in methods:
            raise UsageError(
                f"--against: {options.file} has no run of {options.against!r}; it has {', '.join(methods)}"
            )
        folder = (options.results or default_results()).resolve()
        runs = select(plan, Results(folder))
        if not any(run.row for run in runs):
            raise UsageError(f"no run of {options.file} is in {folder}; curvfed sweep makes them")
        make_folder(options.to)
        part = make_part(plan, runs, options.to, options.against)
        made = write_part(part, options.to, formats)
    except UsageError as error:
        console.print(f"[red]error:[/red] {escape(str(error))}")
        return 2
    for note in part.notes:
        console.print(escape(note), highlight=False)
    for path in made:
        console.print(str(path), highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())

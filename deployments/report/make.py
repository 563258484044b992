"""Tables and figures of a sweep, of whatever runs of it there are."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from curvfed.deployments.pairs import UsageError
from curvfed.deployments.report.page import FORMATS, make_folder, make_part, write_part
from curvfed.deployments.report.selection import select
from curvfed.deployments.sweep.make import default_results, find
from curvfed.deployments.sweep.plan import read_plan
from curvfed.deployments.sweep.results import Results


def main(name: str, scale: str, results: Path | None, to: Path, against: str, formats: str) -> int:
    """Write them to the folder `to`; the exit status, 0, or 2 for wrong usage."""
    console = Console(soft_wrap=True)
    try:
        wanted = formats.split(",") if formats else list(FORMATS)
        if unknown := [one for one in wanted if one not in FORMATS]:
            raise UsageError(f"--formats: {unknown[0]!r}; allowed are {', '.join(FORMATS)}")
        plan = read_plan(find(name), scale)
        methods = list(dict.fromkeys(str(run.value("method")) for run in plan.runs))
        if against and against not in methods:
            raise UsageError(f"--against: {name} has no run of {against!r}; it has {', '.join(methods)}")
        folder = (results or default_results()).resolve()
        runs = select(plan, Results(folder))
        if not any(run.row for run in runs):
            raise UsageError(f"no run of {name} is in {folder}; curvfed sweep makes them")
        make_folder(to)
        part = make_part(plan, runs, to, against)
        made = write_part(part, to, wanted)
    except UsageError as error:
        console.print(f"[red]error:[/red] {escape(str(error))}")
        return 2
    for note in part.notes:
        console.print(escape(note), highlight=False)
    for path in made:
        console.print(str(path), highlight=False)
    return 0

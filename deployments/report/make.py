"""The command `curvfed report`: tables and figures of a sweep, of whatever runs of it there are."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from curvfed.deployments.pairs import UsageError
from curvfed.deployments.report.page import FORMATS, make_folder, make_page, write_page
from curvfed.deployments.report.selection import select
from curvfed.deployments.sweep.make import default_results, exit_status, find
from curvfed.deployments.sweep.plan import read_plan
from curvfed.deployments.sweep.results import Results


@exit_status
def main(
    console: Console, name: str, scale: str, results: Path | None, to: Path, against: str, formats: str
) -> int:  # fmt: skip
    """Write them to the folder `to`; the exit status, 0, or 2 for wrong usage."""
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
    page = make_page(plan, runs, to, against, "pdf" in wanted)
    made = write_page(page, to, wanted)
    for line in (*page.notes, *made):
        console.print(escape(str(line)), highlight=False)
    return 0

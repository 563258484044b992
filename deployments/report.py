"""The command `curvfed report`: tables and figures of the existing runs of a sweep."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from curvfed.deployments.arguments import UsageError
from curvfed.deployments.output_file import make_folder
from curvfed.deployments.sweep.make import default_results, find
from curvfed.deployments.sweep.plan import read_plan
from curvfed.deployments.sweep.results import Results
from curvfed.server_app.report import make_page, write_page


def main(
    name: str,
    scale: str,
    results: Path | None,
    to: Path,
    against: str,
    formats: Sequence[str],
) -> None:
    """Write tables and figures to the folder `to`.

    Raises
    ------
    UsageError, ConfigError
    """
    console = Console(soft_wrap=True)
    plan = read_plan(find(name), scale)
    methods = list(dict.fromkeys(str(run.value("method")) for run in plan.runs))
    if against and against not in methods:
        raise UsageError(
            f"--against: {name} has no run of {against!r}; it has {', '.join(methods)}",
            key="against",
        )
    folder = (results or default_results()).resolve()
    runs = Results(folder).select(plan)
    if not any(run.row for run in runs):
        raise UsageError(f"no run of {name} is in {folder}; curvfed sweep makes them", key="no-run")
    make_folder(to)
    page = make_page(plan, runs, to, against, "pdf" in formats)
    files = write_page(page, to, plan.path.stem, formats)
    for line in (*page.notes, *files):
        console.print(escape(str(line)), highlight=False)

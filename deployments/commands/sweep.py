"""`curvfed sweep`: the runs of a sweep file, several at a time. `curvfed report`: tables and
figures of the existing ones."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from curvfed.deployments.arguments import UsageError
from curvfed.deployments.output_file import make_folder
from curvfed.deployments.parameters import (
    Address,
    Cpus,
    Data,
    Gpus,
    Results,
    Scale,
    Sweep,
    expanded,
)
from curvfed.deployments.parameters import Results as ResultsFolder
from curvfed.deployments.resources import Resources
from curvfed.server_app.report import FORMATS


def sweep(
    name: Sweep,
    scale: Scale = "",
    results: Results = None,
    data: Data = None,
    cpus: Cpus = 1,
    gpus: Gpus = 0.0,
    address: Address = "",
) -> None:
    """Make the runs of a sweep file, several at a time.

    curvfed sweep my-sweep.toml --scale smoke
    curvfed sweep wire-precision --data ~/data

    SWEEP is the path of a .toml file, which docs/sweeps.md describes, or the name of
    a shipped sweep: flatland-by-design or wire-precision. Completed runs are
    skipped, interrupted ones are resumed, and failed ones are repeated.
    Exit status: 0 all completed, 1 some failed, 2 wrong usage, 130 interrupted by
    Ctrl-C or SIGTERM.
    """
    # These imports take seconds, and help shows at once.
    from curvfed.deployments.sweep.plan import data_places, find, read_plan
    from curvfed.deployments.sweep.results import FILE, default_results
    from curvfed.deployments.sweep.runner import run_sweep
    from curvfed.server_app.report import check_page

    console = Console(soft_wrap=True)
    plan = read_plan(find(name), scale)
    check_page(plan)
    folder = (results or default_results()).resolve()
    resources = Resources(cpus, gpus, address)
    failed = run_sweep(plan, folder, data_places(data), resources, console)
    console.print(f"all runs in one table: {folder / FILE}", highlight=False)
    raise typer.Exit(int(failed > 0))


def report(
    name: Sweep,
    scale: Scale = "",
    results: ResultsFolder = None,
    to: Annotated[
        Path, typer.Option(parser=expanded, metavar="DIR", help="Folder to write to.")
    ] = Path("report"),
    against: Annotated[
        str, typer.Option(metavar="METHOD", help="Compare the other methods with this one.")
    ] = "",
    formats: Annotated[
        str,
        typer.Option(
            help="Some of md, html, tex, csv, pdf (figures), separated by commas; default: all."
        ),
    ] = "",
) -> None:
    """Write tables and figures of a sweep from its existing runs.

    curvfed report my-sweep.toml --scale smoke --to pages --against flatland

    SWEEP is the name of a shipped sweep, or the path of a .toml file. Exit status:
    0, or 2 for wrong usage.
    """
    names = formats.split(",") if formats else list(FORMATS)
    unknown = [name for name in names if name not in FORMATS]
    if unknown:
        raise UsageError(
            f"--formats: {unknown[0]!r}; allowed are {', '.join(FORMATS)}", key="formats"
        )
    # These imports take seconds, and help shows at once.
    from curvfed.deployments.sweep.plan import find, read_plan
    from curvfed.deployments.sweep.results import Results, default_results
    from curvfed.server_app.report import make_page, write_page

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
    files = write_page(page, to, plan.path.stem, names)
    for line in (*page.notes, *files):
        console.print(escape(str(line)), highlight=False)

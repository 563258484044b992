"""`curvfed sweep`: the runs of a sweep file, several at a time.

Completed runs are skipped, interrupted ones are resumed from their last saved round, and failed
ones are repeated.
"""

import typer
from rich.console import Console

from curvfed.deployments.parameters import Address, Cpus, Data, Gpus, Results, Scale, Sweep
from curvfed.deployments.resources import Resources


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

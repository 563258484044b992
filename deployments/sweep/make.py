"""Make the runs of a sweep file, several at a time.

Runs that have completed are skipped, interrupted ones are resumed from their last whole round, and
failed ones are made anew.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec

from rich.console import Console
from rich.markup import escape

from curvfed.deployments.pairs import UsageError, Value
from curvfed.deployments.resources import Resources
from curvfed.deployments.shipped import SWEEPS, nearest, shipped
from curvfed.deployments.sweep.plan import read_plan
from curvfed.deployments.sweep.progress import Progress
from curvfed.deployments.sweep.results import FILE, Results
from curvfed.deployments.sweep.runner import carry_out, held
from curvfed.server_app.report import Plan, check_page
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.run_keys import home


def default_results() -> Path:
    """Folder of the runs of all sweeps, which share equal runs."""
    return home() / "sweeps"


def sweep(
    plan: Plan, folder: Path, places: dict[str, Value], resources: Resources, console: Console
) -> int:
    """Make the missing runs of a sweep; the number of runs that failed.

    Raises
    ------
    UsageError
    KeyboardInterrupt
        After all that is done has been kept.
    """
    with held(folder):
        results = Results(folder)
        done = results.finished(plan.runs)
        todo = [run for run in plan.runs if run.name not in done]
        with Progress(console, plan.title, len(plan.runs), len(done)) as progress:
            if todo:
                carry_out(todo, results, places, resources, progress)
        return progress.failed


def find(name: str) -> Path:
    """The file of a sweep, by its path or by the name of a shipped sweep, such as
    `wire-precision`.

    Raises
    ------
    UsageError
        If it is neither.
    """
    if name.endswith(".toml"):
        return Path(name)
    try:
        return shipped(SWEEPS)[name]
    except KeyError:
        raise UsageError(
            f"{name!r} is neither a shipped sweep nor the path of a .toml file;"
            f" {nearest(SWEEPS, name)}"
        ) from None


P = ParamSpec("P")


def exit_status(work: Callable[Concatenate[Console, P], int]) -> Callable[P, int]:
    """Give a command's function a console; wrong usage is printed there and exits with 2, an
    interrupt with 130."""

    def main(*args: P.args, **options: P.kwargs) -> int:
        console = Console(soft_wrap=True)
        try:
            return work(console, *args, **options)
        except (UsageError, ConfigError) as error:
            console.print(f"[red]error:[/red] {escape(str(error))}")
            return 2
        except KeyboardInterrupt:
            console.print("Interrupted. What is done is kept; the same command goes on.")
            return 130

    return main


@exit_status
def main(
    console: Console,
    name: str,
    scale: str,
    results: Path | None,
    data: Path | None,
    cpus: int,
    gpus: float,
    address: str,
) -> int:
    """Make the missing runs; the exit status, 0 all completed, 1 some failed, 2 wrong usage, 130
    interrupted."""
    resources = Resources(cpus, gpus, address)
    plan = read_plan(find(name), scale)
    check_page(plan)
    folder = (results or default_results()).resolve()
    failed = sweep(plan, folder, data_places(data), resources, console)
    console.print(f"all runs in one table: {folder / FILE}", highlight=False)
    return int(failed > 0)


def data_places(data: Path | None) -> dict[str, Value]:
    """The key `data-dir`, if the command line gives it.

    Raises
    ------
    UsageError
        If it is no folder.
    """
    if data is None:
        return {}
    if not data.is_dir():
        raise UsageError(f"--data: {data} is no folder")
    return {"data-dir": str(data.resolve())}

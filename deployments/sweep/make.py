"""Make the runs of a sweep file, several at a time.

Completed runs are skipped, interrupted ones are resumed from their last saved round, and failed
ones are repeated.
"""

from pathlib import Path

from rich.console import Console

from curvfed.deployments.arguments import UsageError, Value
from curvfed.deployments.package_files import SWEEPS, name_hint, package_files
from curvfed.deployments.resources import Resources
from curvfed.deployments.sweep.plan import read_plan
from curvfed.deployments.sweep.progress import Progress
from curvfed.deployments.sweep.results import FILE, Results
from curvfed.deployments.sweep.runner import locked, make_runs
from curvfed.server_app.report import Plan, check_page
from curvfed.strategies.base.run_keys import home


def default_results() -> Path:
    """The folder of the runs of all sweeps; equal runs are shared."""
    return home() / "sweeps"


def sweep(
    plan: Plan, folder: Path, places: dict[str, Value], resources: Resources, console: Console
) -> int:
    """Make the missing runs of a sweep, and return the number of failed runs.

    Raises
    ------
    UsageError
    KeyboardInterrupt
        The completed runs are saved.
    """
    try:
        with locked(folder):
            results = Results(folder)
            finished = results.finished(plan.runs)
            missing = [run for run in plan.runs if run.name not in finished]
            with Progress(console, plan.title, len(plan.runs), len(finished)) as progress:
                if missing:
                    make_runs(missing, results, places, resources, progress)
            return progress.failed
    except KeyboardInterrupt:
        console.print("Interrupted. Completed runs are saved; the same command continues.")
        raise


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
        return package_files(SWEEPS)[name]
    except KeyError:
        raise UsageError(
            f"{name!r} is neither a shipped sweep nor the path of a .toml file;"
            f" {name_hint(SWEEPS, name)}",
            key="sweep",
        ) from None


def main(
    name: str,
    scale: str,
    results: Path | None,
    data: Path | None,
    resources: Resources,
) -> int:
    """Make the missing runs; the exit status, 0 all completed, 1 some failed.

    Raises
    ------
    UsageError, ConfigError
    """
    console = Console(soft_wrap=True)
    plan = read_plan(find(name), scale)
    check_page(plan)
    folder = (results or default_results()).resolve()
    failed = sweep(plan, folder, data_places(data), resources, console)
    console.print(f"all runs in one table: {folder / FILE}", highlight=False)
    return int(failed > 0)


def data_places(data: Path | None) -> dict[str, Value]:
    """The key `data-dir` of the command line.

    Raises
    ------
    UsageError
        If it is no folder.
    """
    if data is None:
        return {}
    if not data.is_dir():
        raise UsageError(f"--data: {data} is no folder", key="data-folder")
    return {"data-dir": str(data.resolve())}

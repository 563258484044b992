"""Make the runs of a sweep file, several at a time.

    curvfed sweep FILE.toml [--scale smoke] [--data FOLDER] [--results FOLDER]

Runs that have completed are skipped, those that were cut off go on from their last whole round, and those that failed
are made anew. Exit status: 0 all completed, 1 some failed, 2 wrong usage, 130 interrupted by Ctrl-C or SIGTERM.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from curvfed.deployments.pairs import UsageError, Value
from curvfed.deployments.report.page import check
from curvfed.deployments.sweep.plan import Plan, read_plan
from curvfed.deployments.sweep.progress import Progress
from curvfed.deployments.sweep.results import FILE, Results
from curvfed.deployments.sweep.runner import Resources, carry_out, held
from curvfed.strategies.config import home


def default_results() -> Path:
    """Folder of the runs of all sweeps, which share what is equal."""
    return home() / "sweeps"


def sweep(plan: Plan, folder: Path, places: dict[str, Value], resources: Resources, console: Console) -> int:
    """Make what is missing of a sweep; how many of its runs failed.

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


def add_places(parser: argparse.ArgumentParser) -> None:
    """The options that say where a sweep's data and results are."""
    parser.add_argument("file", type=Path, help="the sweep, a .toml file")
    parser.add_argument("--scale", default="", help="which of the sizes that the file has, such as smoke or paper")
    parser.add_argument("--results", type=expanded, help=f"folder of the runs, {default_results()} by default")


def add_resources(parser: argparse.ArgumentParser) -> None:
    """The options that say what every run is given."""
    parser.add_argument("--cpus", type=int, default=1, help="cores and threads for each run, 1 by default")
    parser.add_argument("--gpus", type=float, default=0.0, help="share of a GPU for each run, none by default")
    parser.add_argument("--address", default="", help="of a Ray cluster that is there; this machine if left out")


def resources_of(options: argparse.Namespace) -> Resources:
    """What the command line says that every run is given.

    Raises
    ------
    UsageError
    """
    if options.cpus < 1:
        raise UsageError(f"--cpus {options.cpus}: allowed is 1 or more")
    if not (0 <= options.gpus <= 1 or (options.gpus > 1 and options.gpus.is_integer())):
        raise UsageError(f"--gpus {options.gpus:g}: allowed is a share from 0 to 1, or a whole number")
    return Resources(options.cpus, options.gpus, options.address)


def expanded(text: str) -> Path:
    """A path whose ~ is a home, for argparse."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as the command line says, and return the exit status."""
    parser = argparse.ArgumentParser(prog="curvfed sweep", description=__doc__.split("\n")[0])
    add_places(parser)
    parser.add_argument("--data", type=expanded, help="folder of the public data sets")
    add_resources(parser)
    options = parser.parse_args(arguments)
    console = Console(soft_wrap=True)
    try:
        resources = resources_of(options)
        plan = read_plan(options.file, options.scale)
        check(plan)
        folder = (options.results or default_results()).resolve()
        places = data_places(options.data)
        failed = sweep(plan, folder, places, resources, console)
    except UsageError as error:
        console.print(f"[red]error:[/red] {escape(str(error))}")
        return 2
    except KeyboardInterrupt:
        console.print("Interrupted. What is done is kept; the same command goes on.")
        return 130
    console.print(f"all runs in one table: {folder / FILE}", highlight=False)
    return int(failed > 0)


def data_places(data: Path | None) -> dict[str, Value]:
    """`data-dir` as a key, if the command line has it.

    Raises
    ------
    UsageError
        If it is no folder.
    """
    if data is None:
        return {}
    if not data.expanduser().is_dir():
        raise UsageError(f"--data: {data} is no folder")
    return {"data-dir": str(data.expanduser().resolve())}


if __name__ == "__main__":
    sys.exit(main())

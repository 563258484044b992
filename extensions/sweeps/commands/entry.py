"""`curvfed sweep`: the runs of a sweep file, several at a time; `curvfed report`: a table and
figures of the existing ones; `curvfed compare`: choose configurations by validation, then compare
methods on fresh seeds, in sweeps, so that the same command continues an interrupted comparison."""

import hashlib
import itertools
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Annotated

import typer

from curvfed.deployments.application import Address, complete_pair, completed_values, expanded
from curvfed.deployments.arguments import UsageError
from curvfed.deployments.package_files import package_files
from curvfed.deployments.resources import Resources
from curvfed.deployments.start import collector_off
from curvfed.deployments.terminal import open_console
from curvfed.extensions.sweeps import SHIPPED
from curvfed.extensions.sweeps.commands.pages import FORMATS
from curvfed.strategies.base.run_keys import home

Sweep = Annotated[
    str, typer.Argument(metavar="SWEEP", autocompletion=lambda: list(package_files(SHIPPED)))
]
Cpus = Annotated[int, typer.Option(min=1, metavar="C", help="Cores and threads for each run.")]
Gpus = Annotated[float, typer.Option(metavar="F", help="Share of a GPU for each run.")]
Scale = Annotated[
    str,
    typer.Option(help="One of the scales of the sweep file."),
]
Data = Annotated[
    Path | None,
    typer.Option(parser=expanded, metavar="DIR", help="Folder of the public data sets."),
]
ResultsFolder = Annotated[
    Path | None,
    typer.Option(
        parser=expanded, metavar="DIR", help="Folder of the runs, ~/curvfed/sweeps by default."
    ),
]


def sweep(
    name: Sweep,
    scale: Scale = "",
    results: ResultsFolder = None,
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
    Exit status: 0 all completed, 1 some failed or the machine did, such as a full
    disk, 2 wrong usage, 130 interrupted by Ctrl-C or SIGTERM.
    """
    # These imports take seconds, and help shows at once.
    with collector_off():
        from curvfed.extensions.sweeps.commands.sweep import data_places, find, read_plan
        from curvfed.extensions.sweeps.commands.sweep.results import FILE, default_results
        from curvfed.extensions.sweeps.commands.sweep.runner import executor_of, run_sweep

    console = open_console(soft_wrap=True)
    plan = read_plan(find(name), scale)
    folder = (results or default_results()).resolve()
    resources = Resources(cpus, gpus, address)
    places = data_places(data)
    with executor_of(resources, console) as executor:
        failed = run_sweep(plan, folder, places, executor, console)
    console.print(f"all runs in one table: {folder / FILE}")
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
    """Write a table, curves and boxes of a sweep from its existing runs.

    curvfed report my-sweep.toml --scale smoke --to pages --against flatland

    SWEEP is the name of a shipped sweep, or the path of a .toml file. The table has
    the scores of each configuration, the curves are scores by round, and a box shows
    the clients of a configuration. Exit status: 0, or 2 for wrong usage.
    """
    names = formats.split(",") if formats else list(FORMATS)
    unknown = [name for name in names if name not in FORMATS]
    if unknown:
        raise UsageError(
            f"--formats: {unknown[0]!r}; allowed are {', '.join(FORMATS)}", key="formats"
        )
    # These imports take seconds, and help shows at once.
    with collector_off():
        from curvfed.extensions.sweeps.commands.pages.sweep_page import make_page, write_page
        from curvfed.extensions.sweeps.commands.sweep import find, read_plan
        from curvfed.extensions.sweeps.commands.sweep.results import Results, default_results

    console = open_console(soft_wrap=True)
    plan = read_plan(find(name), scale)
    methods = list(dict.fromkeys(str(run.value("method")) for run in plan.runs))
    if against and against not in methods:
        raise UsageError(
            f"--against: {name} has no run of {against!r}; it has {', '.join(methods)}",
            key="against",
        )
    folder = (results or default_results()).resolve()
    runs = Results(folder).select(plan.runs)
    if not any(run.row for run in runs):
        raise UsageError(f"no run of {name} is in {folder}; curvfed sweep makes them", key="no-run")
    _make_folder(to)
    page = make_page(plan, runs, to, against, "pdf" in names)
    files = write_page(page, to, plan.path.stem, names)
    for line in (*page.notes, *files):
        console.print(str(line))


def complete_comparison(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """As `complete_pair`, with the keys of a comparison; after a comma in `methods=`, names of
    methods."""
    done, comma, _ = incomplete.rpartition(",")
    if comma:
        return [f"{done},{name}" for name in completed_values("methods")]
    from curvfed.extensions.sweeps.commands.compare import OWN_KEYS  # imports Flower

    keys = [f"{key}=" for key in OWN_KEYS if "=" not in incomplete]
    return [*complete_pair(ctx, incomplete), *keys]


ComparedPairs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KEY=VALUE|PRESET|FILE.toml]...",
        autocompletion=complete_comparison,
        help="Keys of the comparison, and those of the run configuration, as for simulate.",
    ),
]
Comparisons = Annotated[
    Path | None,
    typer.Option(
        parser=expanded,
        metavar="DIR",
        help="Folder of the runs, one in ~/curvfed/comparisons by default.",
    ),
]


def compare(
    pairs: ComparedPairs = None,
    results: Comparisons = None,
    data: Data = None,
    cpus: Cpus = 1,
    gpus: Gpus = 0.0,
    address: Address = "",
) -> None:
    """Ask of a data set: is it the curvature, and should I use it? All methods are tuned by
    validation alike, then compared on fresh seeds: a curved method with itself at curvature 0,
    and with the best of its rivals, which are flat.

    curvfed compare dataset=cora data-dir=~/data
    curvfed compare dataset=graph.pt num-supernodes=4 methods=local,fedavg,flatland
    curvfed compare dataset=tree.tsv methods=links,links-inner,links-squared

    It takes the keys of a run, which apply to all methods, and keys of its own:
    - methods: names with commas between, of methods or rivals (fedavg-mean,
      fedavg-calibrated, links-inner, links-squared); auto, the usual ones for the data;
      or all. Two alone are compared with each other;
    - against: the compared flat method that is the rival of those in curved space; auto: the
      best flat one, by the seeds of tuning;
    - budget=12: number of configurations per method beside its learning rates and weight
      decays, which are swept to their edge: its own keys, networks and schedules in turn.
      Keys that you set are not tuned; a key with several values, KEY=A|B, is tuned for
      every method;
    - tuning-seeds=2: number of seeds for choosing a configuration by validation;
    - seeds=5: number of other seeds for comparing the methods; differences have
      intervals from 3 on;
    - score=personal, the clients' scores after local training; global, the score of the
      global model on the server's test data; or reconstruction, the mean average
      precision of all links; auto: personal, and global for points.

    It prints a table and the answers, and writes them as comparison.html beside the
    runs (--results or results-dir=; by default a folder in ~/curvfed/comparisons). The same command
    continues an interrupted comparison; with other seeds= it uses the runs that are
    there. See docs/sweeps.md.
    Exit status: 0 all methods compared, 1 some could not be, 2 wrong usage, 130
    interrupted by Ctrl-C or SIGTERM.
    """
    # These imports take seconds, and help shows at once.
    with collector_off():
        from curvfed.extensions.sweeps.commands.compare.plan import (
            check_plan,
            first_lines,
            identity,
        )
        from curvfed.extensions.sweeps.commands.compare.request import read_comparison
        from curvfed.extensions.sweeps.commands.compare.results import result, write_results
        from curvfed.extensions.sweeps.commands.compare.tuning import Tuning
        from curvfed.extensions.sweeps.commands.sweep import file_digest
        from curvfed.extensions.sweeps.commands.sweep.progress import Progress
        from curvfed.extensions.sweeps.commands.sweep.runner import Runner, executor_of, locked

    console = open_console(soft_wrap=True)
    resources = Resources(cpus, gpus, address)
    with collector_off():  # data of a new kind import libraries
        comparison = read_comparison(pairs or [], data)
    text = json.dumps(identity(comparison.plan), indent=1)
    digest = hashlib.sha256(text.encode()).hexdigest()
    name = f"{comparison.data}-{digest[:12]}"
    folder = (results or comparison.results or home() / "comparisons" / name).resolve()
    with locked(folder):
        earlier_seeds = check_plan(folder, comparison.plan)
        contents = cache(file_digest)
        tunings = {name: Tuning(comparison, name, contents) for name in comparison.entrants}
        for line in first_lines(comparison, [tuning.tuning_runs for tuning in tunings.values()]):
            console.print(line)
        streams = {name: tuning.stream() for name, tuning in tunings.items()}
        with (
            executor_of(resources, console) as executor,
            Progress(console, comparison.data) as progress,
        ):
            outcomes = Runner(folder, comparison.places, executor).follow(streams, progress)
        rows = [result(comparison, name, *outcomes[name]) for name in tunings]
        runs = list(itertools.chain(*(tuning.runs for tuning in tunings.values())))
        runs += itertools.chain(*(outcomes[name][1] for name in tunings))
        status = write_results(comparison, rows, runs, folder, console, earlier_seeds)
    raise typer.Exit(status)


def _make_folder(folder: Path) -> None:
    """Make the folder of the pages.

    Raises
    ------
    UsageError
        If it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}", key="unwritable") from None

"""The commands `compare`, `sweep` and `report`: many runs, and tables of them."""

from pathlib import Path
from typing import Annotated

import typer

from curvfed.deployments.arguments import UsageError
from curvfed.deployments.commands.parameters import (
    Address,
    ComparedPairs,
    Comparisons,
    Cpus,
    Data,
    Gpus,
    Results,
    Scale,
    Sweep,
    expanded,
)
from curvfed.server_app.report import FORMATS


def compare(
    pairs: ComparedPairs = None,
    results: Comparisons = None,
    data: Data = None,
    cpus: Cpus = 1,
    gpus: Gpus = 0.0,
    address: Address = "",
) -> None:
    """Find the best method for a data set: tune each by validation with an equal budget, then
    compare on fresh seeds.

    curvfed compare dataset=cora data-dir=~/data
    curvfed compare dataset=graph.pt num-supernodes=4 methods=local,fedavg,flatland budget=6

    It takes the keys of a run, which apply to all methods, and keys of its own:
    - methods: names with commas between; auto, the usual ones for the data; or all;
    - budget=12: number of configurations per method: learning rates, weight decays,
      and the method's own key. Keys that you set are not tuned;
    - tuning-seeds=2: number of seeds for choosing a configuration by validation;
    - seeds=5: number of other seeds for comparing the methods;
    - score=personal, the clients' accuracy after local training; or global, the
      accuracy of the global model on the server's test images.

    It prints a table and an answer, and writes them as comparison.html beside the
    runs (--results; by default a folder in ~/curvfed/comparisons). The same command
    continues an interrupted comparison. See docs/sweeps.md.
    Exit status: 0 all methods compared, 1 some could not be, 2 wrong usage, 130
    interrupted by Ctrl-C or SIGTERM.
    """
    from curvfed.deployments.compare.make import main
    from curvfed.deployments.resources import Resources

    raise typer.Exit(main(pairs or [], results, data, Resources(cpus, gpus, address)))


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
    from curvfed.deployments.resources import Resources
    from curvfed.deployments.sweep.make import main

    raise typer.Exit(main(name, scale, results, data, Resources(cpus, gpus, address)))


def report(
    name: Sweep,
    scale: Scale = "",
    results: Results = None,
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
    from curvfed.deployments.report import main

    main(name, scale, results, to, against, names)

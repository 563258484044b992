"""The command `curvfed`. What its subcommands do is imported when they run, so that help takes neither torch nor Flower."""

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from curvfed.deployments.cluster.command import app as cluster
from curvfed.deployments.pairs import NUM_SUPERNODES, UsageError
from curvfed.deployments.parameters import Debug, Pairs, Sweep, all_pairs, expanded
from curvfed.deployments.shipped import PRESETS, nearest, shipped

app = typer.Typer(
    name="curvfed",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="""
Federated learning in curved spaces.

curvfed simulate quick method=fedper
curvfed methods

Exit status: 0 completed, 1 failed, 2 wrong usage, 130 interrupted.
""",
)
app.add_typer(cluster, name="cluster")

Cpus = Annotated[int, typer.Option(min=1, metavar="C", help="Cores and threads for each run.")]
Gpus = Annotated[float, typer.Option(metavar="F", help="Share of a GPU for each run.")]
Address = Annotated[str, typer.Option(help="Of a Ray cluster that is there; this machine if left out.")]
Scale = Annotated[str, typer.Option(help="Which of the sizes that the sweep has: smoke (minutes, 2 cores) or paper.")]
Data = Annotated[Path | None, typer.Option(parser=expanded, metavar="DIR", help="Folder of the public data sets.")]
Results = Annotated[
    Path | None,
    typer.Option(parser=expanded, metavar="DIR", help="Folder of the runs, ~/curvfed/sweeps by default."),
]


def _show_version(wanted: bool) -> None:
    if wanted:
        print("curvfed", version("curvfed"))
        raise typer.Exit


@app.callback()
def curvfed(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """What all subcommands have."""


@app.command()
def simulate(pairs: Pairs = None, debug: Debug = False) -> None:
    """Run in this process, without SuperLink and Ray: same code, same results, quicker to start.

    curvfed simulate method=flatland dataset=cora data-dir=~/data num-supernodes=10 seed=1
    curvfed simulate quick method=fedavg

    Arguments are keys of the run configuration (docs/configuration.md has all of
    them), whose strings need no quotes; num-supernodes, the number of clients;
    names of shipped presets; and paths of .toml files. What comes later wins.

    Exit status: 0 completed, 1 failed, 2 wrong usage, such as a configuration
    that can never run or data that are not there (nothing is started, and no
    folder made), 130 interrupted by Ctrl-C or SIGTERM (the last checkpoint is
    kept, see the key resume).
    """
    from curvfed.deployments.simulate import main

    raise typer.Exit(main(all_pairs(pairs, debug)))


@app.command()
def run(
    pairs: Pairs = None,
    num_supernodes: Annotated[int, typer.Option(min=1, metavar="N", help="Number of clients.")] = NUM_SUPERNODES,
    cpus: Annotated[
        int, typer.Option(min=1, metavar="C", help="CPUs per client; their number caps how many train at once.")
    ] = 1,
    gpus: Annotated[float, typer.Option(min=0, metavar="F", help="GPUs per client; a fraction shares one.")] = 0.0,
    timeout: Annotated[float | None, typer.Option(metavar="S", help="Stop the run after S seconds.")] = None,
    debug: Debug = False,
) -> None:
    """Run through Flower: a SuperLink of its own, clients in parallel by Ray, everything stopped at the end.

    curvfed run method=flatland dataset=trees num-rounds=20 num-supernodes=10
    curvfed run flatland data-dir=~/data --gpus 0.25

    Arguments are keys of the run configuration (docs/configuration.md has all of
    them), whose strings need no quotes; num-supernodes, the number of clients;
    names of shipped presets; and paths of .toml files. What comes later wins.

    Exit status: 0 completed, 1 failed, 2 wrong usage or data that are not there,
    124 out of time, 128 + n stopped by signal n (130 for Ctrl-C).
    """
    from curvfed.deployments.run import main

    raise typer.Exit(main(all_pairs(pairs, debug), num_supernodes, cpus, gpus, timeout))


@app.command()
def check(
    pairs: Pairs = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every key, those of other methods too, and what each may be.")
    ] = False,
) -> None:
    """Show what a run would use, or what is wrong with it. Nothing is trained or downloaded.

    curvfed check method=flatland dataset=cora data-dir=~/data
    curvfed check flatland seed=1
    curvfed check --all method=hyperfed dataset=mnist

    Arguments are keys of the run configuration (docs/configuration.md has all of
    them), whose strings need no quotes; num-supernodes, the number of clients;
    names of shipped presets; and paths of .toml files. What comes later wins.

    Of every key it has the value in effect, and where this is from: set by you,
    the default, or auto, chosen by the task or the method. Below stands where the
    data lie and what a client has of them: they are loaded as the run would,
    which may take minutes the first time. Public data sets that are not there are
    not. Of a secure sum it says who must stay to its end, and of hull what every
    client would send, where the number of classes is known beforehand.

    Exit status: 0 it can run, 2 it cannot.
    """
    from curvfed.deployments.check import main

    raise typer.Exit(main(pairs or [], everything))


@app.command()
def predict(
    folder: Annotated[Path, typer.Argument(metavar="RUN")],
    data: Annotated[str, typer.Argument(metavar="DATA")],
    client: Annotated[
        int | None, typer.Option(metavar="N", help="Whose model, and of the run's own data set which part.")
    ] = None,
    state_path: Annotated[
        Path | None, typer.Option(parser=expanded, metavar="DIR", help="state-path of the node that keeps the client.")
    ] = None,
    uncalibrated: Annotated[
        bool, typer.Option("--uncalibrated", help="The classifier from before the calibration.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(parser=expanded, metavar="FILE", help="Where the CSV goes; default: the standard output."),
    ] = None,
) -> None:
    """Predict by a trained model.

    curvfed predict RUN images/ --out predictions.csv
    curvfed predict RUN graph.pt --client 3
    curvfed predict RUN cora --client 3

    RUN is a run directory. DATA is the name of the run's data set, or new data as
    the run's own:
    - of graphs, a .pt file of a graph or of a list of graphs, or a folder in the
      TU collection's layout. Of the run's data set --client says the part;
    - of images, a file, a folder of files, or one with a folder per class, which
      then also tells the accuracy. Images are brought to the run's size and
      channels and normalised as the run's were. Of the run's data set --client
      says the part, and without it these are the global test images;
    - of points in the disc, an .npz, .csv or .h5ad file as a run reads it, in the
      run's curvature. It may lack the classes: a .csv of the two coordinates
      alone, an .npz of x_train, x_test or one array, an .h5ad without the labels.
      The run's own data set stands for its global test points. There is no
      --client.

    The model is the one after the last aggregation: the shared and fixed
    parameters, with the calibrated classifier where there is one. With --client
    it is that client's own: for images the fine-tuned one where the client has
    kept one, else the shared parameters with its personal ones where any stay
    there. There is no further training.

    The CSV has a row per node, graph, image or point: its number or path, class,
    probability. Points are numbered as they come in the file, and a class that
    the run's server could not name is a "group", numbered as in the report. The
    probability is the softmax of the model's logits, for points and an SVM
    Platt's scaling of its margins. Where logits are trained as distances or
    cosines it ranks images and is no calibrated chance: hyperfed's logits are
    negative distances to the prototypes, spherefed's cosines.

    Exit status: 0 predicted, 1 it cannot be done, 2 wrong usage.
    """
    from curvfed.deployments.predict import main

    raise typer.Exit(main(folder, data, client, state_path, not uncalibrated, out))


@app.command()
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

    curvfed sweep flatland/figure-05 --scale smoke --data ~/data
    curvfed sweep my-sweep.toml

    SWEEP is the name of a shipped sweep, which `curvfed paper --list` lists, or
    the path of a .toml file.

    Runs that have completed are skipped, those that were cut off go on from their
    last whole round, and those that failed are made anew. docs/sweeps.md says
    what a sweep file has.

    Exit status: 0 all completed, 1 some failed, 2 wrong usage, 130 interrupted by
    Ctrl-C or SIGTERM.
    """
    from curvfed.deployments.sweep.make import main

    raise typer.Exit(main(name, scale, results, data, cpus, gpus, address))


@app.command()
def report(
    name: Sweep,
    scale: Scale = "",
    results: Results = None,
    to: Annotated[Path, typer.Option(parser=expanded, metavar="DIR", help="Folder to write to.")] = Path("report"),
    against: Annotated[str, typer.Option(metavar="METHOD", help="The method that the others are tested against.")] = "",
    formats: Annotated[str, typer.Option(help="Some of md, html, tex, csv, with commas; all by default.")] = "",
) -> None:
    """Write tables and figures of a sweep, of whatever runs of it there are.

    curvfed report flatland/figure-05 --scale smoke --to pages --against flatland

    SWEEP is the name of a shipped sweep, or the path of a .toml file.

    Exit status: 0, or 2 for wrong usage.
    """
    from curvfed.deployments.report.make import main

    raise typer.Exit(main(name, scale, results, to, against, formats))


@app.command()
def paper(
    scale: Scale = "smoke",
    results: Results = None,
    data: Data = None,
    to: Annotated[Path, typer.Option(parser=expanded, metavar="DIR", help="Folder of the pages.")] = Path("paper"),
    listed: Annotated[
        bool, typer.Option("--list", help="List the papers' tables and figures, and run nothing.")
    ] = False,
    cpus: Cpus = 1,
    gpus: Gpus = 0.0,
    address: Address = "",
) -> None:
    """Make the papers' tables and figures from runs of our own: all shipped sweeps at one scale, then pages of them.

    curvfed paper --data ~/data
    curvfed paper --list

    Runs that have completed are not repeated.

    Exit status: 0 all completed, 1 some failed, 2 wrong usage, 130 interrupted.
    """
    if listed:
        from curvfed.deployments.listings import show, sweeps_table

        raise typer.Exit(show(sweeps_table()))
    from curvfed.deployments.reproduce import main

    raise typer.Exit(main(scale, data, results, to, cpus, gpus, address))


@app.command()
def methods() -> None:
    """List the methods: what each is, and the tasks that it works on."""
    from curvfed.deployments.listings import methods_table, show

    raise typer.Exit(show(methods_table()))


@app.command()
def datasets() -> None:
    """List the data sets: the task of each, and where it is from."""
    from curvfed.deployments.listings import datasets_table, show

    raise typer.Exit(show(datasets_table()))


@app.command()
def presets(
    name: Annotated[
        str | None, typer.Argument(metavar="[PRESET]", autocompletion=lambda: list(shipped(PRESETS)))
    ] = None,
) -> None:
    """List the shipped presets, which stand for the keys that they set, or print PRESET.

    curvfed presets quick
    curvfed simulate quick method=fedper
    """
    from curvfed.deployments.listings import presets_table, show

    if name is None:
        raise typer.Exit(show(presets_table()))
    if name not in shipped(PRESETS):
        raise typer.BadParameter(f"{name!r} is no preset; {nearest(PRESETS, name)}")
    print(shipped(PRESETS)[name].read_text(encoding="utf-8"), end="")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says, and return the exit status; every error of the user's is told here."""
    try:
        app(arguments, prog_name="curvfed")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception as error:
        from rich.console import Console
        from rich.markup import escape

        from curvfed.deployments.cluster.errors import ClusterError, WrongUsageError
        from curvfed.strategies.base.errors import ConfigError  # takes a while to import

        if not isinstance(error, UsageError | ConfigError | ClusterError):
            raise
        Console(stderr=True).print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
        return 1 if isinstance(error, ClusterError) and not isinstance(error, WrongUsageError) else 2
    return 0

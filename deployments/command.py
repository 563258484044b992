"""The command `curvfed`. Subcommands import what they need when they run, so that help needs neither torch nor Flower."""

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from curvfed.deployments.cluster.command import app as cluster
from curvfed.deployments.pairs import NUM_SUPERNODES, UsageError
from curvfed.deployments.parameters import (
    Address,
    ComparedPairs,
    Cpus,
    Data,
    Debug,
    Gpus,
    Pairs,
    Results,
    Scale,
    Sweep,
    all_pairs,
    expanded,
)
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
    """The options of the command itself."""


@app.command()
def simulate(pairs: Pairs = None, debug: Debug = False) -> None:
    """Run in this process, without SuperLink and Ray: same code, same results, quicker to start.

    curvfed simulate method=flatland dataset=cora data-dir=~/data num-supernodes=10 seed=1

    Exit status: 0 completed, 1 failed, 2 wrong usage, such as absent data (nothing
    is started, and no folder made), 130 interrupted by Ctrl-C or SIGTERM (the last
    checkpoint is kept, see the key resume).
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

    curvfed run flatland data-dir=~/data num-supernodes=10 --gpus 0.25

    Exit status: 0 completed, 1 failed, 2 wrong usage or absent data, 124 out of
    time, 128 + n stopped by signal n (130 for Ctrl-C).
    """
    from curvfed.deployments.run import main

    raise typer.Exit(main(all_pairs(pairs, debug), num_supernodes, cpus, gpus, timeout))


@app.command()
def check(
    pairs: Pairs = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every key, those of other methods too, with the allowed values.")
    ] = False,
) -> None:
    """Show what a run would use, or what is wrong with it. Nothing is trained or downloaded.

    curvfed check method=flatland dataset=cora data-dir=~/data
    curvfed check --all method=hyperfed dataset=mnist

    For every key it shows the value in effect and its origin: set by you, default,
    or auto, chosen by the task or the method. Then it shows where the data lie and
    what a client has of them; loading may take minutes the first time. For a secure
    sum it says who must stay to the end, and for hull what every client would send.
    Exit status: 0 it can run, 2 it cannot.
    """
    from curvfed.deployments.check import main

    raise typer.Exit(main(pairs or [], everything))


@app.command()
def compare(
    pairs: ComparedPairs = None,
    results: Results = None,
    data: Data = None,
    cpus: Cpus = 1,
    gpus: Gpus = 0.0,
    address: Address = "",
) -> None:
    """Find the best method for some data: tune each by validation with an equal budget, then compare on fresh seeds.

    curvfed compare dataset=cora data-dir=~/data
    curvfed compare dataset=graph.pt num-supernodes=4 methods=local,fedavg,flatland budget=6

    It takes the keys of a run, which hold for all methods, and keys of its own:
    - methods: names with commas between; auto, the usual ones for the data; or all;
    - budget=12: how many configurations of each method are tried: learning rates,
      weight decays, and the method's own key. A key that is given is not tuned;
    - tuning-seeds=2: seeds by which a configuration is chosen, by validation alone;
    - seeds=5: other seeds, on which the methods with these configurations are compared;
    - score=personal, the clients' accuracy after local training; or global, that of
      the one model on the server's test images.

    It ends with a table and one sentence, and writes them as comparison.html beside
    the runs (--results; by default a folder in ~/curvfed/comparisons). The same
    command goes on where it was cut off. See docs/compare.md.
    Exit status: 0 all methods compared, 1 some could not be, 2 wrong usage, 130
    interrupted by Ctrl-C or SIGTERM.
    """
    from curvfed.deployments.compare.make import main

    raise typer.Exit(main(pairs or [], results, data, cpus, gpus, address))


@app.command()
def predict(
    folder: Annotated[Path, typer.Argument(metavar="RUN")],
    data: Annotated[str, typer.Argument(metavar="DATA")],
    client: Annotated[
        int | None, typer.Option(metavar="N", help="Use this client's model, and its part of the run's own data set.")
    ] = None,
    state_path: Annotated[
        Path | None, typer.Option(parser=expanded, metavar="DIR", help="state-path of the client's node.")
    ] = None,
    uncalibrated: Annotated[
        bool, typer.Option("--uncalibrated", help="Use the classifier from before the calibration.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=expanded,
            metavar="FILE",
            help="A .csv file, or an .h5ad for DATA of this kind; default: CSV to the standard output.",
        ),
    ] = None,
) -> None:
    """Predict with a trained model.

    curvfed predict RUN images/ --out predictions.csv
    curvfed predict RUN graph.pt --client 3
    curvfed predict RUN cora --client 3

    RUN is a run directory. DATA is the name of the run's data set, or new data:
    - graphs: a .pt file of a graph or of a list of graphs, or a folder in the TU
      collection's layout. With the run's data set --client names the part;
    - images: a file, a folder of files, or a folder per class, which also gives the
      accuracy. With the run's data set --client names the part; without it these are
      the global test images;
    - points in the disc: an .npz, .csv or .h5ad file, with or without classes. The
      run's data set stands for its global test points. There is no --client.

    The model is that of the last aggregation, with the calibrated classifier if
    there is one. With --client it is that client's own: its fine-tuned one if it has
    kept one, otherwise the shared parameters with its personal ones.

    The CSV has a row per node, graph, image or point: its number, path or name of the
    cell, class, probability. An .h5ad is DATA with obs["curvfed_label"],
    obs["curvfed_probability"] and obs["curvfed_unknown"]. The probability is the softmax of the logits, for an SVM Platt's
    scaling of its margins. It is no calibrated chance for hyperfed, whose logits are
    negative distances to the prototypes, and for spherefed, whose are cosines.

    Exit status: 0 predicted, 1 it cannot be done, 2 wrong usage.
    """
    from curvfed.deployments.predict import main

    raise typer.Exit(main(folder, data, client, state_path, not uncalibrated, out))


@app.command()
def adapt(
    folder: Annotated[Path, typer.Argument(metavar="RUN")],
    data: Annotated[str, typer.Argument(metavar="DATA")],
    out: Annotated[Path, typer.Option(parser=expanded, metavar="DIR", help="The folder to make.")],
    client: Annotated[int | None, typer.Option(metavar="N", help="The client's number; default: the next one.")] = None,
) -> None:
    """Join a finished run: get a client's personal part from its own data, the shared part fixed.

    curvfed adapt RUN graph.pt --out joined
    curvfed adapt RUN cora --client 8 --out joined

    RUN is a run directory, DATA a .pt file or folder of the client's own, or the run's
    data set, of which --client names a part that no client of the run had. It tells
    the client's scores, and how to predict with DIR.

    Exit status: 0 adapted, 1 it cannot be done, 2 wrong usage.
    """
    from curvfed.deployments.adapt import main

    raise typer.Exit(main(folder, data, out, client))


@app.command()
def embed(
    data: Annotated[Path, typer.Argument(metavar="FILE", parser=expanded)],
    out: Annotated[Path, typer.Option(parser=expanded, metavar="FILE", help="The .h5ad file to write.")],
    reference: Annotated[
        Path | None,
        typer.Option(
            parser=expanded, metavar="FILE", help="What --make-reference wrote, or the folder of a run of method=pca."
        ),
    ] = None,
    make_reference: Annotated[
        bool, typer.Option("--make-reference", help="Make a reference of FILE, of its cells alone.")
    ] = False,
    layer: Annotated[str, typer.Option(metavar="NAME", help="Layer of the expression; default: .raw, else X.")] = "",
) -> None:
    """Place cells with gene expression in the Poincaré disc, without pooling the sites' cells.

    curvfed embed atlas.h5ad --make-reference --out reference.h5ad
    curvfed embed site.h5ad --reference reference.h5ad --out site.embedded.h5ad

    FILE is an .h5ad of AnnData with logarithms of normalised counts. The reference
    is public: all sites use the same one, and no site's cells change it. A site's
    cells go through its genes, scaling and principal components, and take the
    coordinates of their nearest neighbours in it, in obsm["X_poincare"], curvature -1.
    The command tells missing genes, the distortion, and the share of cells outside
    the reference's range. A folder of a run of method=pca is a reference that the
    sites made together.

    Exit status: 0 embedded, 1 it cannot be done, 2 wrong usage.
    """
    if make_reference == (reference is not None):
        raise typer.BadParameter("give --reference FILE or --make-reference, one of the two")
    from curvfed.deployments.embed import main

    raise typer.Exit(main(data, reference, out, layer))


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
    the path of a .toml file, which docs/sweeps.md describes. Completed runs are
    skipped, interrupted ones are resumed, and failed ones are made anew.
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
    against: Annotated[str, typer.Option(metavar="METHOD", help="The method with which the others are compared.")] = "",
    formats: Annotated[str, typer.Option(help="Some of md, html, tex, csv, separated by commas; default: all.")] = "",
) -> None:
    """Write tables and figures of a sweep from the runs that have been made.

    curvfed report flatland/figure-05 --scale smoke --to pages --against flatland

    SWEEP is the name of a shipped sweep, or the path of a .toml file. Exit status:
    0, or 2 for wrong usage.
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

    Completed runs are not repeated. Exit status: 0 all completed, 1 some failed, 2 wrong usage, 130 interrupted.
    """
    if listed:
        from curvfed.deployments.listings import list_sweeps

        list_sweeps()
        raise typer.Exit
    from curvfed.deployments.papers.reproduce import main

    raise typer.Exit(main(scale, data, results, to, cpus, gpus, address))


@app.command()
def methods() -> None:
    """List the methods: what each is, and the tasks that it works on."""
    from curvfed.deployments.listings import list_methods

    list_methods()


@app.command()
def datasets() -> None:
    """List the data sets: the task of each, and where it is from."""
    from curvfed.deployments.listings import list_datasets

    list_datasets()


@app.command()
def presets(
    name: Annotated[
        str | None, typer.Argument(metavar="[PRESET]", autocompletion=lambda: list(shipped(PRESETS)))
    ] = None,
) -> None:
    """List the shipped presets, each of which stands for some keys, or print PRESET.

    curvfed presets quick
    """
    from curvfed.deployments.listings import list_presets

    if name is None:
        list_presets()
    elif name in shipped(PRESETS):
        print(shipped(PRESETS)[name].read_text(encoding="utf-8"), end="")
    else:
        raise typer.BadParameter(f"{name!r} is no preset; {nearest(PRESETS, name)}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit status; errors of the user are printed here."""
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

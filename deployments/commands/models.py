"""The commands `predict`, `adapt` and `embed`, which use a trained model or a reference."""

from pathlib import Path
from typing import Annotated

import typer

from curvfed.deployments.arguments import UsageError
from curvfed.deployments.commands.failures import failing
from curvfed.deployments.commands.parameters import expanded


def predict(
    folder: Annotated[Path, typer.Argument(metavar="RUN")],
    data: Annotated[str, typer.Argument(metavar="DATA")],
    client: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Use this client's model, and its part of the run's own data set."
        ),
    ] = None,
    state_path: Annotated[
        Path | None,
        typer.Option(parser=expanded, metavar="DIR", help="state-path of the client's node."),
    ] = None,
    uncalibrated: Annotated[
        bool, typer.Option("--uncalibrated", help="Use the classifier from before the calibration.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=expanded,
            metavar="FILE",
            help=("A .csv file, or an .h5ad if DATA is one; default: CSV to the standard output."),
        ),
    ] = None,
) -> None:
    """Predict with a trained model.

    curvfed predict RUN images/ --out predictions.csv
    curvfed predict RUN graph.pt --client 3
    curvfed predict RUN cora --client 3

    RUN is a run directory, or the name of one in ~/curvfed/results. DATA is the name of the run's
    data set, or new data:
    - graphs: a .pt file of a graph or of a list of graphs, or a folder in the TU
      collection's layout. With the run's data set --client names the part;
    - images: a file, a folder of files, or a folder per class, which also gives the
      accuracy. With the run's data set --client names the part; without it these are
      the global test images;
    - points in the disc: an .npz, .csv or .h5ad file, with or without classes. The
      run's data set stands for its global test points. There is no --client.

    The model is that of the last aggregation, with the calibrated classifier if
    there is one. With --client it is that client's own: its fine-tuned model if
    there is one, otherwise the shared parameters with its personal ones.

    The CSV has a row per node, graph, image or point: its number, path or name of the cell, class,
    probability. An .h5ad is DATA with obs["curvfed_label"], obs["curvfed_probability"] and
    obs["curvfed_unknown"]. The probability is the softmax of the logits, for an SVM Platt's scaling
    of its margins. It is not calibrated for hyperfed, whose logits are negative distances to the
    prototypes, and for spherefed, whose logits are cosines.

    Exit status: 0 predicted, 1 it cannot be done, 2 wrong usage.
    """
    from curvfed.deployments.predict import EXPECTED, main

    with failing(1, *EXPECTED, OSError), failing(2, UsageError):
        main(folder, data, client, state_path, not uncalibrated, out)


def adapt(
    folder: Annotated[Path, typer.Argument(metavar="RUN")],
    data: Annotated[str, typer.Argument(metavar="DATA")],
    out: Annotated[Path, typer.Option(parser=expanded, metavar="DIR", help="The folder to make.")],
    client: Annotated[
        int | None,
        typer.Option(metavar="N", help="The client's number; default: the next free number."),
    ] = None,
) -> None:
    """Join a finished run: train a client's personal part on its own data, with the shared part
    fixed.

    curvfed adapt RUN graph.pt --out joined
    curvfed adapt RUN cora --client 8 --out joined

    RUN is as for predict. DATA is a .pt file or a folder of the client's own, or the
    run's data set, of which --client names a part that no client of the run had. The
    command prints the client's scores, and how to predict with DIR.

    Exit status: 0 adapted, 1 it cannot be done, 2 wrong usage.
    """
    from curvfed.deployments.adapt import main
    from curvfed.deployments.predict import EXPECTED
    from curvfed.strategies.base.training import TrainingError

    with failing(1, *EXPECTED, TrainingError, OSError), failing(2, UsageError):
        main(folder, data, out, client)


def embed(
    data: Annotated[Path, typer.Argument(metavar="FILE", parser=expanded)],
    out: Annotated[
        Path, typer.Option(parser=expanded, metavar="FILE", help="The .h5ad file to write.")
    ],
    reference: Annotated[
        Path | None,
        typer.Option(
            parser=expanded,
            metavar="FILE",
            help="A file by --make-reference, or the folder of a run of method=pca.",
        ),
    ] = None,
    make_reference: Annotated[
        bool, typer.Option("--make-reference", help="Make a reference from the cells of FILE.")
    ] = False,
    layer: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=(
                "Layer of the expression, or raw, or X; default: the first suitable one of raw, X"
                " and the only layer."
            ),
        ),
    ] = "",
) -> None:
    """Place cells with gene expression in the Poincaré disc, without pooling the sites' cells.

    curvfed embed atlas.h5ad --make-reference --out reference.h5ad
    curvfed embed site.h5ad --reference reference.h5ad --out site.embedded.h5ad

    FILE is an .h5ad of AnnData with logarithms of normalised counts. The reference
    is public: all sites use the same one, and no site's cells change it. A site's
    cells are projected by the genes, scaling and principal components of the
    reference, and get the coordinates of their nearest neighbours in it, in
    obsm["X_poincare"], curvature -1. The command prints missing genes, the distortion,
    and the share of cells outside the reference's range. The folder of a run of
    method=pca is a reference that the sites made together.

    Exit status: 0 embedded, 1 a file cannot be written, 2 wrong usage or unfit data.
    """
    if make_reference == (reference is not None):
        raise typer.BadParameter("give --reference FILE or --make-reference, one of the two")
    from curvfed.deployments.embed import main
    from curvfed.tasks.errors import DataError

    with failing(1, OSError), failing(2, DataError):
        main(data, reference, out, layer)

"""`curvfed predict`: a trained model on data."""

from pathlib import Path
from typing import Annotated

import typer

from curvfed.deployments.application import StatePath, Uncalibrated, expanded, failing
from curvfed.deployments.arguments import UsageError
from curvfed.deployments.inputs import PredictError, check_data, check_out, run_folder
from curvfed.deployments.terminal import open_console
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.errors import DataError


def predict(
    folder: Annotated[Path, typer.Argument(metavar="RUN")],
    data: Annotated[str, typer.Argument(metavar="DATA")],
    client: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Use this client's model, and its part of the run's own data set."
        ),
    ] = None,
    state_path: StatePath = None,
    uncalibrated: Uncalibrated = False,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=expanded,
            metavar="FILE",
            help="A .csv, .tsv or .json file, or an .h5ad if DATA is one; default: CSV to the"
            " standard output.",
        ),
    ] = None,
    show: Annotated[
        str, typer.Option(help="Of links: tails, neighbours or hierarchy.", metavar="WHAT")
    ] = "tails",
    most: Annotated[
        int, typer.Option(metavar="N", help="Of links: tails or neighbours of each entity.")
    ] = 10,
    known: Annotated[
        str | None,
        typer.Option(
            metavar="LINKS",
            help="Links that are no tails to show: a file, or the name of the run's data set.",
        ),
    ] = None,
    label_key: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Of points: the column of the classes; default: points.label-key of the run.",
        ),
    ] = None,
) -> None:
    """Predict with a trained model.

    curvfed predict RUN images/ --out predictions.csv
    curvfed predict RUN graph.pt --client 3
    curvfed predict RUN cora --client 3
    curvfed predict RUN heads.tsv --known mammals

    RUN is a run directory, or the name of one in ~/curvfed/results. DATA is the name of the run's
    data set, or new data:
    - graphs: a .pt file of a graph or of a list of graphs, a folder in the TU
      collection's layout, or a folder of OGB. With the run's data set --client names the
      part;
    - images: a file, a folder of files, or a folder per class, which also gives the
      accuracy, as does a format of docs/data.md (MedMNIST, LEAF, CIFAR,
      TinyImageNet, Hugging Face). With the run's data set --client names the part;
      without it these are the global test images;
    - points in the disc: an .npz, .csv or .h5ad file, with or without classes, or a
      folder saved by Hugging Face's datasets. The run's data set stands for its global test points.
      --client does not apply;
    - links: a .tsv, .csv, .tsv.gz or .csv.gz file of heads, or of heads and relations. The run's
      data set stands for all entities. --show neighbours gives the nearest entities of each, --show
      hierarchy its distance from the origin and the nearest entity that is nearer to the origin.

    The model is that of the last aggregation, with the calibrated classifier if
    there is one. With --client it is that client's own: its fine-tuned model if
    there is one, otherwise the shared parameters with its personal ones.

    The CSV has a row per node, graph, image or point: its number, path or name of the cell, class,
    probability; for links a row per head and tail, with its rank and score. An .h5ad is DATA with
    obs["curvfed_label"], obs["curvfed_probability"] and obs["curvfed_unknown"]. The probability is
    the softmax of the logits, for an SVM Platt's scaling of its margins. It is not calibrated for
    hyperfed (its logits are negative distances to the prototypes) and for spherefed (its logits are
    cosines).

    Exit status: 0 predicted, 1 it cannot be done, 2 wrong usage or unreadable data.
    """
    with failing(1, PredictError, ConfigError, OSError), failing(2, UsageError, DataError):
        check_out(out, data)
        path = run_folder(folder)
        check_data(path, data)
    # These imports take seconds, and a wrong path is reported at once.
    from curvfed.deployments import predict as trained
    from curvfed.deployments.predict.prediction import write_prediction

    options = trained.Options(show, most, known, label_key)
    with failing(1, *trained.EXPECTED, OSError), failing(2, UsageError, DataError):
        run = trained.TrainedRun.read(path)
        prediction = trained.predict(run, data, client, state_path, not uncalibrated, options)
        write_prediction(prediction.table(), data, out)
    console = open_console(stderr=True)
    for name, value in prediction.notes.items():
        console.print(f"{name}: {value}", soft_wrap=True)

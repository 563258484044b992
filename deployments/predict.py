"""Predictions of a trained model.

    curvfed predict RUN images/ --out predictions.csv
    curvfed predict RUN graph.pt --client 3
    curvfed predict RUN cora --client 3

RUN is a run directory. DATA is the name of the run's data set, or new data as the run's own:

- of graphs, a `.pt` file of a graph or of a list of graphs, or a folder in the TU collection's layout. Of the run's data
  set --client says the part;
- of images, a file, a folder of files, or one with a folder per class, which then also tells the accuracy. Images are
  brought to the run's size and channels and normalised as the run's were. Of the run's data set --client says the part,
  and without it these are the global test images;
- of points in the disc, an `.npz`, `.csv` or `.h5ad` file as a run reads it, in the run's curvature. It may lack the
  classes: a `.csv` of the two coordinates alone, an `.npz` of x_train, x_test or one array, an `.h5ad` without the labels.
  The run's own data set stands for its global test points. There is no --client.

The model is the one after the last aggregation: the shared and fixed parameters, with the calibrated classifier where
there is one. With --client it is that client's own: for images the fine-tuned one where the client has kept one, else the
shared parameters with its personal ones where any stay there. There is no further training.

The CSV has a row per node, graph, image or point: its number or path, class, probability. Points are numbered as they come
in the file, and a class that the run's server could not name is a "group", numbered as in the report. The probability is
the softmax of the model's logits, for points and an SVM Platt's scaling of its margins. Where logits are trained as
distances or cosines it ranks images and is no calibrated chance: hyperfed's logits are negative distances to the
prototypes, spherefed's cosines. Without --out the rows go to the standard output.

Exit status: 0 predicted, 1 it cannot be done, 2 wrong usage.
"""

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from curvfed.deployments.predict_graphs import predict_graphs
from curvfed.deployments.predict_images import predict_images
from curvfed.deployments.predict_points import predict_points
from curvfed.deployments.trained_run import PredictError, Prediction, TrainedRun
from curvfed.strategies.arrays import MessageError
from curvfed.strategies.config import ConfigError
from curvfed.strategies.store import StoreError
from curvfed.tasks.errors import DataError
from curvfed.tasks.in_memory import KINDS, Raw

__all__ = ["PredictError", "Prediction", "TrainedRun", "main", "predict"]

EXPECTED = (PredictError, ConfigError, DataError, MessageError, StoreError)


def predict(
    run: TrainedRun, data: str | Raw, client: int | None = None, state_path: Path | None = None, calibrated: bool = True
) -> Prediction:
    """Predict the classes of all nodes, graphs, images or points of `data`.

    Parameters
    ----------
    run : TrainedRun
    data : str or Raw
        A path, the name of the run's data set, or data in memory.
    client : int, optional
        Whose model, and of the run's own data set which part.
    state_path : Path, optional
        See `TrainedRun.personal_state`.
    calibrated : bool
        Whether the calibrated classifier is used where there is one.

    Raises
    ------
    PredictError, ConfigError, DataError, MessageError, StoreError
        If something is absent, or data, model and personal state do not fit together.
    """
    if not isinstance(data, str | KINDS[run.facts.task]):
        given = next(task for task, kind in KINDS.items() if isinstance(data, kind))
        raise PredictError(f"the data are for the classification of {given}, those of the run of {run.facts.task}")
    if run.facts.task == "points":
        return predict_points(run, data, client)
    if client is None and (kept := run.kept_at_clients):
        raise PredictError(
            f"--client N is needed: {run.config.method} {kept}, so there is a model for every one of the clients "
            f"{run.listed}"
        )
    if run.facts.task == "images":
        return predict_images(run, data, client, state_path, calibrated)
    return predict_graphs(run, data, client, state_path)


def _write(prediction: Prediction, stream: Any) -> None:
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([prediction.noun, "class", "probability"])
    probabilities = (f"{value:.6f}" for value in prediction.probabilities.tolist())
    writer.writerows(zip(prediction.names, prediction.classes, probabilities, strict=True))


def main(arguments: Sequence[str] | None = None) -> int:
    """Predict as the command line says, and return the exit status."""
    about, _, details = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="curvfed predict",
        description=about,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory")
    parser.add_argument("data", metavar="DATA", help="a .pt file, images, points, or the run's own data set")
    parser.add_argument("--client", type=int, metavar="N", help="whose model, and of the run's own data set which part")
    parser.add_argument("--state-path", type=Path, metavar="DIR", help="state-path of the node that keeps the client")
    parser.add_argument("--uncalibrated", action="store_true", help="the classifier from before the calibration")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the CSV goes; default: the standard output")
    options = parser.parse_args(arguments)
    console = Console(stderr=True)
    try:
        run = TrainedRun.read(options.run)
        prediction = predict(run, options.data, options.client, options.state_path, not options.uncalibrated)
        if options.out is None:
            _write(prediction, sys.stdout)
        else:
            with options.out.open("w", newline="", encoding="utf-8") as file:
                _write(prediction, file)
    except (*EXPECTED, OSError) as error:
        console.print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
        return 1
    for name, value in prediction.about.items():
        console.print(f"{name}: {escape(value)}", soft_wrap=True, highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`curvfed export`: a trained model as a program."""

from pathlib import Path
from typing import Annotated

import typer

from curvfed.deployments.application import StatePath, Uncalibrated, expanded, failing
from curvfed.deployments.arguments import UsageError
from curvfed.deployments.terminal import open_console


def export(
    folder: Annotated[Path, typer.Argument(metavar="RUN")],
    out: Annotated[
        Path, typer.Option(parser=expanded, metavar="FILE", help="The .pt2 or .onnx file.")
    ],
    client: Annotated[
        int | None, typer.Option(metavar="N", help="Export this client's model.")
    ] = None,
    state_path: StatePath = None,
    uncalibrated: Uncalibrated = False,
) -> None:
    """Write a trained model as a program that needs no curvfed.

    curvfed export RUN --out model.pt2
    curvfed export RUN --out model.onnx --client 3

    RUN and the model are as for predict. A .pt2 file is loaded by torch.export.load,
    with PyTorch alone; an .onnx file, of models for images and points, by any ONNX
    runtime. The program takes raw data, any number at once: it has the scaling of
    pixels, of features and the cleaning of edges in it. Its outputs are the number of
    the class, the probabilities of all classes, and, for a one-shot method, whether a point is in
    none of them. The names of the classes are in the file's metadata (curvfed.json in a .pt2). The
    file is written only if its answers on random data are within 1e-5 of the model's. ONNX needs:
    pip install "curvfed\\[onnx]".

    Exit status: 0 exported, 1 it cannot be done, 2 wrong usage.
    """
    # These imports take seconds, and help shows at once.
    from curvfed.deployments.predict import EXPECTED, TrainedRun
    from curvfed.extensions.exports.commands.export import export as export_model

    with failing(1, *EXPECTED, OSError), failing(2, UsageError):
        run = TrainedRun.read(folder)
        metadata = export_model(run, out, client, state_path, not uncalibrated)
    console = open_console(stderr=True)
    for name in ("method", "model", "inputs", "outputs", "classes"):
        value = metadata[name]
        text = value if isinstance(value, str) else ", ".join(value)
        console.print(f"{name}: {text}", soft_wrap=True)
    console.print(f"largest error: {metadata['error']:.1g}")
    print(out)

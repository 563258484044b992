"""`curvfed adapt`: a trained model fitted to a new client's data."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from curvfed.deployments.application import expanded, failing
from curvfed.deployments.arguments import UsageError
from curvfed.deployments.terminal import open_console
from curvfed.strategies.base.figures import VALIDATION, find
from curvfed.tasks.errors import DataError

SCORES = ("score", "accuracy", VALIDATION)
"""The printed scores of the client."""


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

    RUN is as for predict. DATA is the client's own, a .pt file, a folder, or a format of
    docs/data.md (MedMNIST, LEAF, CIFAR, OGB, Hugging Face), or the run's data set; --client then
    names a part that no client of the run had. The command prints the client's scores, and how to
    predict with DIR.

    Exit status: 0 adapted, 1 it cannot be done, 2 wrong usage or unreadable data.
    """
    # These imports take seconds, and help shows at once.
    from curvfed.deployments.predict import EXPECTED, TrainedRun
    from curvfed.extensions.adapt.commands.adapt import adapt as adapt_run
    from curvfed.strategies.base.training import TrainingError

    with failing(1, *EXPECTED, TrainingError, OSError), failing(2, UsageError, DataError):
        number, scores = adapt_run(TrainedRun.read(folder), data, out, client)
    table = Table(f"client {number}", "before", "after")
    for name in SCORES:
        if name in scores:
            figure = find(name)
            table.add_row(
                figure.words, figure.text(scores[f"{name} before"]), figure.text(scores[name])
            )
    open_console(stderr=True).print(table)
    print(f"curvfed predict {out} {data} --client {number}")

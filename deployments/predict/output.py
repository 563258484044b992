"""Write predictions as CSV to a file or the standard output, or into a copy of an `.h5ad`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from curvfed.deployments.arguments import UsageError
from curvfed.deployments.output_file import check_output
from curvfed.deployments.predict.prediction import Prediction
from curvfed.deployments.predict.trained_run import PredictError
from curvfed.deployments.terminal import check_written
from curvfed.server_app.directory.tables import frame_csv
from curvfed.tasks.stored_files import write_atomically

if TYPE_CHECKING:  # pandas takes a second to import
    from pandas import DataFrame

SUFFIXES = (".csv", ".h5ad")
COLUMNS = ("curvfed_label", "curvfed_probability", "curvfed_unknown")
"""The new columns in `obs` of an `.h5ad`."""


def check(out: Path | None, data: str) -> None:
    """Refuse a file that cannot be written, before the computation.

    Raises
    ------
    UsageError
    """
    if out is None:
        return
    check_output(out, SUFFIXES, Path(data).expanduser())
    if out.suffix.lower() == ".h5ad" and Path(data).suffix.lower() != ".h5ad":
        raise UsageError(
            f'out is "{out}", a copy of the data with predictions; for DATA "{data}" allowed is'
            " .csv",
            key="out",
        )


def write(prediction: Prediction, data: str, out: Path | None) -> None:
    """Write a prediction to a `.csv` or `.h5ad` file, or as CSV to the standard output.

    An `.h5ad` is a copy of the data with three more columns in `obs`: the class, its probability,
    and whether the cell belongs to none of the classes.

    Raises
    ------
    PredictError
        If the data have other cells than the prediction.
    OSError
        If the output cannot be written.
    """
    table = prediction.table()
    if out is not None and out.suffix.lower() == ".h5ad":
        _with_columns(Path(data).expanduser(), table, out)
        return
    text = frame_csv(table, float_format="%.6f")
    if out is None:
        sys.stdout.write(text)
        check_written()
    else:
        write_atomically(out, text.encode())


def _with_columns(path: Path, table: "DataFrame", out: Path) -> None:
    from curvfed.tasks.points.expression import add_to_copy, num_cells

    count = num_cells(path)
    if count != len(table):
        raise PredictError(
            f"DATA has {count} cells, and {len(table)} were predicted, its test part alone; allowed"
            " for an .h5ad is a file that is predicted whole, and not the data set of the run",
            key="other-cells",
        )
    columns = zip(COLUMNS, ("class", "probability", "unknown"), strict=False)
    add_to_copy(
        path,
        out,
        {f"obs/{name}": table[column].to_numpy() for name, column in columns if column in table},
    )

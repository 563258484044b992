"""The file that predictions are written to: a table, or cells of AnnData; the ending of its name tells which."""

import shutil
from pathlib import Path
from typing import Any

from curvfed.deployments.predict.prediction import Prediction
from curvfed.deployments.predict.trained_run import PredictError
from curvfed.tasks.atomic_file import temporary_path, write_atomically

PREFIX = "curvfed_"
"""Of the columns that an `.h5ad` gets in obs: label, probability and unknown."""


def check_out(out: Path | None, task: str) -> None:
    """Refuse a file of another ending than those that the run's task allows.

    Raises
    ------
    PredictError
        Names the endings that are allowed.
    """
    allowed = [".csv", ".h5ad"] if task == "points" else [".csv"]
    if out is not None and out.suffix.lower() not in allowed:
        raise PredictError(f'--out is "{out}"; allowed for {task} is a file that ends in {" or ".join(allowed)}')


def write_prediction(prediction: Prediction, out: Path, data: Path) -> None:
    """Write the file whole or not at all.

    Parameters
    ----------
    prediction : Prediction
    out : Path
        A `.csv`, or an `.h5ad`, which is a copy of `data` with three more columns in obs.
    data : Path
        The file whose cells were predicted.

    Raises
    ------
    PredictError
        If an `.h5ad` is wanted, and `data` is none or has other cells than those predicted.
    """
    if out.suffix.lower() == ".csv":
        table = prediction.table().to_csv(index=False, float_format="%.6f")
        write_atomically(out, table.encode())
        return
    temporary = temporary_path(out)
    try:
        if data.suffix.lower() != ".h5ad" or not data.is_file():
            raise PredictError(f'--out is "{out}", a copy of the cells, and DATA is "{data}"; allowed is an .h5ad')
        shutil.copyfile(data, temporary)
        _add_columns(prediction, temporary)
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)


def _add_columns(prediction: Prediction, path: Path) -> None:
    """Only obs is read and written, so that the expression values may be larger than the memory."""
    import h5py
    from anndata.io import read_elem, write_elem

    with h5py.File(path, "r+") as file:
        obs: Any = read_elem(file["obs"])
        if len(obs) != len(prediction.classes):
            raise PredictError(
                f"{len(obs)} cells are in DATA and {len(prediction.classes)} were predicted, its test part alone; allowed "
                "with --out of .h5ad is a file that is predicted whole, and not the data set of the run"
            )
        obs[f"{PREFIX}label"] = prediction.classes
        obs[f"{PREFIX}probability"] = prediction.probabilities.numpy()
        obs[f"{PREFIX}unknown"] = prediction.unknown_or_not()
        write_elem(file, "obs", obs)

"""Files of points with their classes: `.npz`, `.csv`, `.tsv` and `.h5ad`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from curvfed.tasks.errors import DataError, unreadable
from curvfed.tasks.formats import format_of
from curvfed.tasks.labels import in_order
from curvfed.tasks.points.raw_points import RawPoints, check_inside, raw_points
from curvfed.tasks.points.sources import ENDINGS
from curvfed.tasks.points.tables import read_table

NPZ_KEYS = (
    "x_train (n, 2), y_train (n,) and, if wanted, x_test (t, 2), y_test (t,); or data (n, 2), label"
    " (n,)"
)


def read_points(
    path: Path, curvature: float, embedding_key: str, label_key: str, bare: bool = False
) -> RawPoints:
    """Read a file in the format given by the ending of its name, in any case.

    Parameters
    ----------
    path : Path
        An `.npz` of `NPZ_KEYS`, without pickled objects; a `.csv` or `.tsv` in UTF-8 or UTF-16,
        with or without a header; or an `.h5ad` of AnnData. The class of a table is in the column
        `label_key`; if this is the default or there is no header, also in the last of three
        columns, unless that is a coordinate. Its coordinates are in the columns "x" and "y", or in
        the two other columns that hold numbers and have a header that is not empty. Where the class
        is missing (`curvfed.tasks.class_names.MISSING`) the point's label is −1.
    curvature : float
        Negative.
        An `.npz` may say its own, positive or negative, as `curve`.
    embedding_key, label_key : str
        For an `.h5ad`: the names of the coordinates in obsm, and of the classes in obs.
    bare : bool
        Whether a file may lack classes altogether; an `.npz` then also holds a single array. All
        labels are −1.

    Raises
    ------
    DataError
        The file is absent, cannot be read or lacks something, or a point is not finite or not
        inside the disc.
    """
    other = format_of(path)
    if other is not None and other.task == "points":
        other_points: RawPoints = other.locate(path).read()
        check_inside(str(path), other_points.points, curvature)
        return other_points
    allowed = f"allowed is a file of points, {', '.join(READERS)}"
    if path.suffix.lower() not in READERS:
        raise DataError(f"{path} has no supported ending; {allowed}", key="file-format")
    if not path.is_file():
        raise DataError(f"no file {path}; {allowed}", key="no-file")
    try:
        raw = READERS[path.suffix.lower()](path, embedding_key, label_key, bare)
        if path.suffix.lower() == ".npz":
            _check_curve(path, curvature)
    except (DataError, ImportError):
        raise
    except Exception as error:  # each format has its own errors
        expected = f"{path.suffix.lower()} file of numbers and strings"
        raise unreadable(path, error, expected) from error
    check_inside(str(path), raw.points, curvature)
    return raw


def _read_npz(path: Path, embedding_key: str, label_key: str, bare: bool) -> RawPoints:
    # NumPy does not close a file that is not a complete archive, so it is opened here.
    with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        if "data" in stored and "label" in stored:
            return raw_points(str(path), stored["data"], stored["label"], ("data", "label"))
        unlabelled = [
            stored[key]
            for key in stored
            if key in ("x_train", "x_test", "data") or len(stored.files) == 1
        ]
        if bare and unlabelled and not {"y_train", "y_test"} & set(stored):
            points = np.concatenate(unlabelled)
            return raw_points(str(path), points, None, ("coordinates", "classes"))
        fields = [("x_train", "y_train")]
        if "x_test" in stored or "y_test" in stored:
            fields.append(("x_test", "y_test"))
        absent = [key for pair in fields for key in pair if key not in stored]
        if absent:
            present = ", ".join(stored) or "nothing"
            raise DataError(
                f"{path} lacks {', '.join(absent)}; it holds {present}, required are {NPZ_KEYS}",
                present,
                key="no-array",
            )
        groups = [raw_points(str(path), stored[x], stored[y], (x, y)) for x, y in fields]
    names = in_order([name for group in groups for name in group.class_names])
    # The last entry belongs to the label −1.
    places = [np.array([*map(names.index, group.class_names), -1]) for group in groups]
    labels = [place[group.labels] for place, group in zip(places, groups)]
    test = None
    if len(groups) == 2:
        test = np.repeat([False, True], [len(group.points) for group in groups])
    points = np.concatenate([group.points for group in groups])
    return RawPoints(points, np.concatenate(labels), tuple(names), test)


def _check_curve(path: Path, curvature: float) -> None:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        if "curve" not in stored:
            return
        curve = float(np.asarray(stored["curve"]).reshape(-1)[0])
    if not np.isclose(abs(curve), -curvature, rtol=1e-6, atol=0):
        raise DataError(
            f"{path} has curve {curve:g}, points.curvature is {curvature:g}; allowed is"
            f" -{abs(curve):g}",
            key="curvature",
        )


def _read_h5ad(path: Path, embedding_key: str, label_key: str, bare: bool) -> RawPoints:
    import anndata

    # "backed" leaves the expression matrix on the disk, because it may be larger than the memory.
    stored = anndata.read_h5ad(path, backed="r")
    try:
        if embedding_key not in stored.obsm:
            raise _lacks(path, "obsm", embedding_key, stored.obsm, "points.embedding-key")
        if not bare and label_key not in stored.obs:
            raise _lacks(path, "obs", label_key, stored.obs, "points.label-key")
        coordinates = stored.obsm[embedding_key]
        classes = stored.obs.get(label_key)
        names = list(map(str, stored.obs_names))
    finally:
        stored.file.close()
    fields = (f'obsm["{embedding_key}"]', f'obs["{label_key}"]')
    return raw_points(str(path), coordinates, classes, fields, names)


def _lacks(path: Path, group: str, key: str, present: Any, option: str) -> DataError:
    names = ", ".join(map(str, present)) or "none"
    hint = (
        "; cells with gene expression get coordinates by curvfed embed" if group == "obsm" else ""
    )
    return DataError(
        f'{path} has no {group}["{key}"]; {option} names it, and there are {names}{hint}',
        names,
        key="no-column",
    )


READERS: dict[str, Callable[[Path, str, str, bool], RawPoints]] = dict(
    zip(ENDINGS, (_read_npz, read_table, read_table, _read_h5ad), strict=True)
)
"""By the ending of the file's name."""

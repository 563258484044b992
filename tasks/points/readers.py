"""Files of points with their classes: `.npz`, and those of formats that extensions add."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from curvfed.tasks import plugins, shipped
from curvfed.tasks.errors import DataError, unreadable
from curvfed.tasks.format import Format
from curvfed.tasks.formats import FORMATS, POINT_ENDINGS, decide
from curvfed.tasks.points import RawPoints, check_inside, raw_points

DEFAULT_LABEL = "label"
"""The name of the column of classes, if none is given."""

BY_ENDING = {
    ending: form
    for form in FORMATS
    if form.reader and form.tasks == ("points",)
    for ending in form.endings
}
"""The formats of points that extensions add, by the end of a file's name."""

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
        An `.npz` of `NPZ_KEYS`, without pickled objects, or a format of the group
        `curvfed.formats`. Where the class is missing (`curvfed.tasks.class_names.MISSING`) the
        point's label is −1.
    curvature : float
        Negative.
        An `.npz` may say its own, positive or negative, as `curve`.
    embedding_key, label_key : str
        The names of the coordinates and of the classes, in formats that have such names.
    bare : bool
        Whether a file may lack classes altogether; an `.npz` then also holds a single array. All
        labels are −1.

    Raises
    ------
    DataError
        The file is absent, cannot be read or lacks something, or a point is not finite or not
        inside the disc.
    """
    decision = decide(path)
    absent = plugins.absent_hint(*shipped.DATA)
    allowed = f"allowed is a file of points, {', '.join(POINT_ENDINGS)}{absent}"
    suffix = path.suffix.lower()
    form: Format | None = decision.form
    if not (decision.form.reader and decision.tasks == ("points",)):
        if suffix not in POINT_ENDINGS:
            raise DataError(f"{path} has no supported ending; {allowed}", key="file-format")
        if not path.is_file():
            raise DataError(f"no file {path}; {allowed}", key="no-file")
        # A file that its contents do not make points: the reader by its ending says what it lacks.
        form = BY_ENDING.get(suffix)
    if form is not None:
        chosen = replace(decision, form=form)
        located = chosen.locate(embedding_key=embedding_key, label_key=label_key, bare=bare)
        other_points: RawPoints = located.read()
        check_inside(str(path), other_points.points, curvature, other_points.lines)
        return other_points
    try:
        raw = _read_npz(path, bare)
        _check_curve(path, curvature)
    except DataError:
        raise
    except Exception as error:  # NumPy's readers have several
        raise unreadable(path, error, f"{suffix} file of numbers and strings") from error
    check_inside(str(path), raw.points, curvature)
    return replace(raw, notes=repeated(raw))


def repeated(raw: RawPoints) -> tuple[str, ...]:
    """A note about rows that repeat an earlier one."""
    rows = np.column_stack([raw.points, raw.labels])
    number = len(rows) - len(np.unique(rows, axis=0))
    if not number:
        return ()
    return (
        f"{number:,} of {len(rows):,} rows are repeated: each has the point and class of an earlier"
        " row, and one may train and the other be tested",
    )


def _read_npz(path: Path, bare: bool) -> RawPoints:
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
                f"{path} lacks {', '.join(absent)}; it holds {present}, required are {NPZ_KEYS}"
                f"{plugins.absent_hint(*shipped.DATA)}",
                present,
                key="no-array",
            )
        groups = [raw_points(str(path), stored[x], stored[y], (x, y)) for x, y in fields]
    # The last entry belongs to the label −1.
    classes = [np.array([*group.class_names, ""])[group.labels] for group in groups]
    points = np.concatenate([group.points for group in groups])
    raw = raw_points(str(path), points, np.concatenate(classes), ("coordinates", "classes"))
    sizes = [len(group.points) for group in groups]
    return replace(raw, test=np.repeat([False, True], sizes) if len(groups) == 2 else None)


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

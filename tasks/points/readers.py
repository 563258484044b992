"""Files of points with their classes: `.npz`, `.csv` and `.h5ad`."""

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from curvfed.tasks.errors import DataError
from curvfed.tasks.points.client_points import Booleans, Floats, Integers
from curvfed.tasks.points.datasets import ENDINGS

NPZ_KEYS = "x_train (n, 2), y_train (n,) and, if wanted, x_test (t, 2), y_test (t,)"
CSV_COLUMNS = "two columns of coordinates and one of classes, separated by commas"


@dataclass(frozen=True, eq=False)
class RawPoints:
    """The points of a file or a data set.

    Attributes
    ----------
    points : (n, 2), float64
        Finite.
    labels : (n,), int64
        Indices into `class_names`.
    class_names : tuple of str
        In numerical order if all are whole numbers, else in alphabetical order.
    test : (n,), bool, or None
        The data set's own test part, if it has one.
    """

    points: Floats
    labels: Integers
    class_names: tuple[str, ...]
    test: Booleans | None

    def only(self, class_names: Sequence[str]) -> "RawPoints":
        """The points of these classes, renumbered. A class without points keeps its number."""
        numbers = {name: number for number, name in enumerate(in_order(class_names))}
        labels = np.array([numbers.get(name, -1) for name in self.class_names], dtype=np.int64)[self.labels]
        kept = labels >= 0
        return RawPoints(
            self.points[kept], labels[kept], tuple(numbers), self.test[kept] if self.test is not None else None
        )


def in_order(class_names: Sequence[str]) -> list[str]:
    """Each name once, sorted as numbers if all are whole numbers, else alphabetically."""
    names = sorted(set(class_names))
    return sorted(names, key=int) if all(name.removeprefix("-").isdecimal() for name in names) else names


def read_points(path: Path, curvature: float, embedding_key: str, label_key: str) -> RawPoints:
    """Read a file. The ending of its name, in any case, tells its format.

    Parameters
    ----------
    path : Path
        An `.npz` of `NPZ_KEYS`, without pickled objects; a `.csv` in UTF-8, with or without a header; or an `.h5ad` of
        AnnData. The class of a `.csv` is in the column `label_key`, or in the last of three columns. Its coordinates are in
        the columns "x" and "y", or in the two other columns that hold numbers and do not have an empty header.
    curvature : float
        Negative.
    embedding_key, label_key : str
        For an `.h5ad`: the names of the coordinates in obsm, and of the classes in obs.

    Raises
    ------
    DataError
        The file is absent, cannot be read or lacks something, or a point is not finite or not inside the disc.
    """
    allowed = f"allowed is a file of points, {', '.join(READERS)}"
    if path.suffix.lower() not in READERS:
        raise DataError(f"{path} is of no kind that is read; {allowed}")
    if not path.is_file():
        raise DataError(f"no file {path}; {allowed}")
    try:
        raw = READERS[path.suffix.lower()](path, embedding_key, label_key)
    except (DataError, ImportError):
        raise
    except Exception as error:  # every format has errors of its own
        raise DataError(
            f"{path} cannot be read ({type(error).__name__}): it is damaged, or no {path.suffix.lower()} file of numbers "
            "and strings"
        ) from error
    check_inside(str(path), raw.points, curvature)
    return raw


def check_inside(where: str, points: Floats, curvature: float) -> None:
    """Refuse points on or outside the boundary of the disc.

    Raises
    ------
    DataError
        Says how many points these are.
    """
    with np.errstate(over="ignore"):
        outside = int((-curvature * (points * points).sum(axis=1) >= 1).sum())
    if outside:
        raise DataError(
            f"{where}: {outside} of {len(points)} points lie on or outside the boundary of the disc of curvature "
            f"{curvature}; allowed is |curvature|·(x² + y²) < 1. Is points.curvature that of the embedding?"
        )


def raw_points(where: str, coordinates: object, classes: object, what: tuple[str, str]) -> RawPoints:
    """Check the points of one part, and number their classes.

    Parameters
    ----------
    where : str
        The beginning of an error's text.
    coordinates : array-like, (n, 2), of real numbers
    classes : array-like, (n,), of whole numbers or strings
    what : tuple of str
        Names of the two in the file.

    Raises
    ------
    DataError
        A wrong shape or type, or a value that is not finite.
    """
    points = np.asarray(coordinates)
    if points.shape == (0,):
        points = points.reshape(0, 2)
    if points.ndim != 2 or points.shape[1] != 2 or points.dtype.kind not in "fiu":
        raise DataError(
            f"{where}: {what[0]} is {points.dtype} of shape {points.shape}; allowed are real numbers of shape (n, 2)"
        )
    labels, class_names = numbered(where, classes, len(points), what[1])
    with np.errstate(over="ignore"):  # values beyond float64 become infinite
        points = points.astype(np.float64)
    wrong = int((~np.isfinite(points).all(axis=1)).sum())
    if wrong:
        raise DataError(f"{where}: {wrong} of {len(points)} rows of {what[0]} are NaN or infinite; allowed are numbers")
    return RawPoints(points, labels, class_names, None)


def numbered(where: str, classes: object, count: int, what: str) -> tuple[Integers, tuple[str, ...]]:
    """The class of each example as an index into the class names, and these names `in_order`.

    Parameters
    ----------
    where, what : str
        As in `raw_points`; `what` is the name of the classes.
    classes : array-like, (count,), of whole numbers or strings
    count : int
        The number of examples.

    Raises
    ------
    DataError
        A wrong shape or type, or an empty name.
    """
    labels = np.asarray(classes)
    if labels.shape != (count,):
        raise DataError(f"{where}: {what} has shape {labels.shape}; allowed is {(count,)}, a class for each")
    of_strings = labels.dtype.kind == "O" and all(isinstance(one, str) for one in labels)
    if count and labels.dtype.kind not in "iuUS" and not of_strings:
        raise DataError(f"{where}: {what} is {labels.dtype}; allowed are whole numbers or strings")
    found, inverse = np.unique(labels.astype(np.str_), return_inverse=True)
    unnamed = int((labels == "").sum()) if "" in found else 0
    if unnamed:
        raise DataError(f"{where}: {unnamed} of {count} entries of {what} are empty; allowed are names")
    names = in_order(found.tolist())
    places = np.array([names.index(name) for name in found], dtype=np.int64)
    return places[inverse.reshape(-1)], tuple(names)


def _read_npz(path: Path, embedding_key: str, label_key: str) -> RawPoints:
    # Opened here, because NumPy does not close a file that is not a whole archive.
    with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        parts = ["train", "test"] if "x_test" in stored or "y_test" in stored else ["train"]
        absent = [key for part in parts for key in (f"x_{part}", f"y_{part}") if key not in stored]
        if absent:
            there = ", ".join(stored) or "nothing"
            raise DataError(f"{path} lacks {', '.join(absent)}; it holds {there}, wanted are {NPZ_KEYS}", there)
        read = [
            raw_points(str(path), stored[f"x_{part}"], stored[f"y_{part}"], (f"x_{part}", f"y_{part}"))
            for part in parts
        ]
    names = in_order([name for part in read for name in part.class_names])
    read = [part.only(names) for part in read]
    return RawPoints(
        np.concatenate([part.points for part in read]),
        np.concatenate([part.labels for part in read]),
        tuple(names),
        np.repeat([False, True], [len(part.points) for part in read]) if len(read) == 2 else None,
    )


def _read_csv(path: Path, embedding_key: str, label_key: str) -> RawPoints:
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    rows = [(line, row) for line, row in rows if any(row)]
    if not rows:
        raise DataError(f"{path} is empty; wanted are {CSV_COLUMNS}")
    first_line, first_row = rows[0]
    width = len(first_row)
    if width < 3:
        raise DataError(f"{path}, line {first_line}: there are {width} columns; wanted are {CSV_COLUMNS}")
    for line, row in rows:
        if len(row) != width:
            raise DataError(f"{path}, line {line}: there are {len(row)} columns, in the first line {width}")
    header = [] if any(_is_number(cell) for cell in first_row) else first_row
    label = _label_column(path, header, width, label_key)
    body = rows[1:] if header else rows
    columns = _coordinate_columns(path, header, body[0], label) if body else []
    for line, row in body:
        for column in columns:
            if not _is_number(row[column]) or not math.isfinite(float(row[column])):
                raise DataError(f"{path}, line {line}: column {column + 1} is no finite number; it is a coordinate")
        if not row[label]:
            raise DataError(f"{path}, line {line}: column {label + 1} is empty; it is the class")
    points = [[float(row[column]) for column in columns] for _, row in body]
    classes = np.array([row[label] for _, row in body], dtype=np.str_)
    return raw_points(str(path), points, classes, ("coordinates", "classes"))


def _coordinate_columns(path: Path, header: list[str], first: tuple[int, list[str]], label: int) -> list[int]:
    """The columns "x" and "y"; if there are none, the two columns of numbers besides the class."""
    line, row = first
    lower = [name.lower() for name in header]
    if lower.count("x") == lower.count("y") == 1:
        return [lower.index("x"), lower.index("y")]
    # A column with an empty header is the index that pandas writes.
    named = [place for place in range(len(row)) if place != label and (not header or header[place])]
    columns = [place for place in named if _is_number(row[place])]
    if len(columns) != 2:
        raise DataError(
            f"{path}, line {line}: beside the class, column {label + 1}, {len(columns)} columns are numbers; wanted are "
            f"{CSV_COLUMNS}"
        )
    return columns


def _label_column(path: Path, header: list[str], width: int, label_key: str) -> int:
    """The column of that name; if there is none, the last of three columns. Of more columns the class would be a guess."""
    if label_key in header:
        return header.index(label_key)
    named = [name for name in header if name] if header else [""] * width
    if len(named) == 3:
        return width - 1
    there = ", ".join(named[:20])
    columns = f"; its columns are {there}" if header else ""
    raise DataError(
        f'{path} has {len(named)} columns and none is named "{label_key}" (points.label-key){columns}', there
    )


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_h5ad(path: Path, embedding_key: str, label_key: str) -> RawPoints:
    import anndata

    # "backed" leaves the expression matrix on the disk, because it may be larger than the memory.
    stored = anndata.read_h5ad(path, backed="r")
    try:
        if embedding_key not in stored.obsm:
            raise _lacks(path, "obsm", embedding_key, stored.obsm, "points.embedding-key")
        if label_key not in stored.obs:
            raise _lacks(path, "obs", label_key, stored.obs, "points.label-key")
        coordinates, classes = np.asarray(stored.obsm[embedding_key]), stored.obs[label_key]
    finally:
        stored.file.close()
    unlabelled = int(classes.isna().sum())
    if unlabelled:
        raise DataError(f'{path}: {unlabelled} of {len(classes)} rows have no class in obs["{label_key}"]')
    return raw_points(str(path), coordinates, classes, (f'obsm["{embedding_key}"]', f'obs["{label_key}"]'))


def _lacks(path: Path, part: str, key: str, there: Any, option: str) -> DataError:
    names = ", ".join(map(str, there)) or "none"
    return DataError(f'{path} has no {part}["{key}"]; {option} names it, and there are {names}', names)


READERS: dict[str, Callable[[Path, str, str], RawPoints]] = dict(
    zip(ENDINGS, (_read_npz, _read_csv, _read_h5ad), strict=True)
)
"""By the ending of the file's name."""

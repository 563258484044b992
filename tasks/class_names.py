"""The classes of examples: their names, missing labels, lists of names as text, and labels as
numbers."""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

from curvfed.geometry.arrays import Integers
from curvfed.tasks.errors import DataError

MISSING = frozenset(
    (
        "",
        "#N/A",
        "#N/A N/A",
        "#NA",
        "-1.#IND",
        "-1.#QNAN",
        "-NaN",
        "-nan",
        "1.#IND",
        "1.#QNAN",
        "<NA>",
        "N/A",
        "NA",
        "NULL",
        "NaN",
        "NaT",
        "None",
        "n/a",
        "nan",
        "null",
    )
)
"""Markers of missing labels in R, spreadsheets and databases; pandas reads all of them as
missing."""


SHOWN = 6
"""The number of names that a text quotes from a list."""


def names_listed(names: Sequence[str]) -> str:
    """The first names, with escapes for characters that cannot be printed."""
    listed = ", ".join(name if name.isprintable() else ascii(name) for name in names[:SHOWN])
    if len(names) <= SHOWN:
        return listed
    return f"{listed} and {len(names) - SHOWN} more"


def normalised(name: str) -> str:
    """A name in composed Unicode (NFC), with single blanks between its words."""
    return " ".join(unicodedata.normalize("NFC", name).split())


def class_name(label: object) -> str:
    """The class name of a label, independent of the type and format of the label.

    Parameters
    ----------
    label : str, bytes, int, bool, float, or a marker of a missing label

    Returns
    -------
    str
        "" if the label is missing. A whole number has no decimals.

    Raises
    ------
    ValueError
        If the label has another type, or is a float that is not a whole number.

    Examples
    --------
    >>> [class_name(label) for label in ("T  cell ", 1.0, "1.0", True, "NA", float("nan"))]
    ['T cell', '1', '1', 'True', '', '']
    """
    name = normalised(label.decode() if isinstance(label, bytes) else str(label))
    if name in MISSING:
        return ""
    if not isinstance(label, str | bytes | int | float):
        raise ValueError("neither a name nor a number")
    is_whole = re.fullmatch(r"-?\d{1,15}\.0*", name, re.ASCII)
    if isinstance(label, float) and not is_whole:
        raise ValueError("not a whole number")
    return str(int(float(name))) if is_whole else name


def alike(name: str) -> str:
    """A common form of names that may mean one class: letters, digits, + and the minus of a
    marker."""
    words = re.findall(r"[^\W_]+|\+|-(?!\w)", unicodedata.normalize("NFKC", name).casefold())
    return "".join(word.removesuffix("s") if len(word) > 3 else word for word in words)


def names_in(text: str) -> list[str]:
    """The names in a row of CSV: a name with a comma stands in quotes.

    Raises
    ------
    ValueError
        If a quote is not closed.

    Examples
    --------
    >>> names_in('"CD8-positive, alpha-beta T cell", B cell')
    ['CD8-positive, alpha-beta T cell', 'B cell']
    """
    try:
        row = next(csv.reader([text], skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        raise ValueError(
            f"{text} is not a list of names: {error}; allowed are names separated by commas"
        ) from None
    return list(filter(None, map(normalised, row)))


def row_of(names: Iterable[object]) -> str:
    """The inverse of `names_in`."""
    row = io.StringIO()
    csv.writer(row, lineterminator="").writerow(names)
    return row.getvalue()


def titles(space: str, class_names: Iterable[str]) -> list[str]:
    """The names of classes, each after the name of its data set if the clients have several.

    Examples
    --------
    >>> titles("mutag", ["0", "1"])
    ['mutag: 0', 'mutag: 1']
    """
    return [f"{space}: {name}" if space else name for name in class_names]


def names_of(labels: Iterable[int], class_names: Sequence[str]) -> list[str]:
    """The name of each label; "" for the label -1 of an unknown class."""
    names = [*class_names, ""]
    return [names[label] for label in labels]


def in_order(class_names: Sequence[str]) -> list[str]:
    """Each name once, sorted as numbers if all are whole numbers, else alphabetically."""
    names = sorted(set(class_names))
    if all(name.removeprefix("-").isdecimal() for name in names):
        return sorted(names, key=int)
    return names


def check_trained(
    where: str, class_names: Sequence[str], trained: Iterable[int], scored: Iterable[int]
) -> None:
    """Refuse a validation or test part with classes that the training part lacks.

    Parameters
    ----------
    where : str
        The beginning of the error's text.
    class_names : sequence of str
    trained, scored : iterable of int
        The labels of the parts, as indices into `class_names`; -1 for unknown classes.

    Raises
    ------
    DataError
    """
    numbers = sorted(set(scored) - set(trained) - {-1})
    if numbers:
        names = names_listed([class_names[number] for number in numbers])
        raise DataError(
            f"{where}: the test or validation part has classes that the training part lacks:"
            f" {names}; allowed there are the classes of the training part",
            names,
            key="untrained-classes",
        )


def number_labels(
    where: str, classes: object, count: int, field: str, gaps: bool = False
) -> tuple[Integers, tuple[str, ...]]:
    """The class of each example as an index into the class names, and these names `in_order`.

    Parameters
    ----------
    where, field : str
        The beginning of an error's text, and the name of the classes.
    classes : array-like, (count,) or (count, 1)
        Labels as `curvfed.tasks.class_names.class_name` reads them.
    count : int
        The number of examples.
    gaps : bool
        Whether labels may be missing. Their index is −1.

    Raises
    ------
    DataError
        A wrong shape or type, or a missing label.
    """
    labels = np.asarray(classes)
    labels = labels[:, 0] if labels.shape == (count, 1) else labels
    if labels.shape != (count,):
        hint = ": of one-hot codes take argmax(axis=1)" if labels.ndim == 2 else ""
        raise DataError(
            f"{where}: {field} has shape {labels.shape}; allowed is {(count,)}, a class for"
            f" each{hint}",
            key="labels",
        )
    items = labels.tolist()
    try:
        spelled = {label: class_name(label) for label in set(items)}
    except (ValueError, TypeError):  # a list cannot be a key
        raise DataError(
            f"{where}: {field} is {labels.dtype}; allowed are whole numbers or strings",
            key="labels",
        ) from None
    names = in_order([name for name in spelled.values() if name])
    places = {name: place for place, name in enumerate(names)}
    places[""] = -1
    numbers = np.array([places[spelled[label]] for label in items], dtype=np.int64)
    num_missing = int((numbers < 0).sum())
    if num_missing and not gaps:
        raise DataError(
            f"{where}: {num_missing} of {count} entries of {field} are empty; allowed are names",
            key="missing-labels",
        )
    return numbers, tuple(names)

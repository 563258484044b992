"""The names of classes: normalised labels, missing labels, and lists of names as text."""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence

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


PLACEHOLDERS = frozenset(
    (
        "",
        "-",
        "missing",
        "na",
        "nan",
        "nil",
        "none",
        "noclass",
        "nolabel",
        "notassigned",
        "notavailable",
        "null",
        "unannotated",
        "unassigned",
        "undefined",
        "undetermined",
        "unknown",
        "unlabeled",
        "unlabelled",
    )
)
"""Names, as returned by `alike`, that may be a class, but more often mean a missing label."""


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


def placeholders(names: Sequence[str]) -> list[str]:
    """The names that people give to examples without a class.

    Examples
    --------
    >>> placeholders(["T cell", "Unassigned", "?", "n.a."]), placeholders(["+", "-"])
    (['Unassigned', '?', 'n.a.'], [])
    """
    return [
        name for name in names if alike(name) in PLACEHOLDERS and not (name == "-" and "+" in names)
    ]


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

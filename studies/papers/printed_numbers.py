"""The numbers that the four papers print, with which figures of runs are compared.

Each paper has a file `printed/PAPER.toml`. Its [methods] translate printed names to rows of
`curvfed.strategies.methods`, or to "" if this app has no such method. Its [[tables]] have the cells
as printed, "" for a cell without a number.

Keys of the run config describe a cell: the keys of its table, its column, its row's method and its
row; later ones override earlier ones. Two further keys are `num-supernodes`, the number of clients,
and `column`, a heading that has no key. They describe what the paper says about the cell, not every
choice of its authors. A row with `settings` needs no method's name.

`figure` is the key of summary.json with which the cell is compared, "" for none, and `scale` the
factor from that figure to the printed number. A row's values override those of its column, and
these those of the table.
"""

import itertools
import re
import tomllib
from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

# Dotted keys, as the run configuration has them; no public function makes them.
from curvfed.strategies.base.keys import dotted
from studies.papers import PAPERS

FOLDER = Path(__file__).parent / "printed"

_NUMBER = r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"
# A spread follows ± or is in brackets; the arrows in SphereFed's tables only repeat the difference
# of two cells.
_CELL = re.compile(
    rf"({_NUMBER})(?:\s*±\s*({_NUMBER})|\s*\(({_NUMBER})\))?(?:\s*\([↑↓]{_NUMBER}\))?"
)

_DOCUMENT = (("title", "methods", "tables"), ("authors", "venue", "year"))
_TABLE = (("name", "caption", "figure", "scale", "columns", "rows"), ("settings",))
_ROW = (("name", "values"), ("settings", "figure", "scale"))
_OF_FIGURE = ("figure", "scale")


@dataclass(frozen=True)
class Printed:
    """One number of a table.

    Attributes
    ----------
    paper, table, row : str
        The names of its paper, table and row.
    column : str
        The heading of its column: the settings of it.
    settings : mapping of str to value
        Dotted keys of the run config, `num-supernodes` and `column`; `method` is "" if this app
        does not have it.
    figure : str
        Dotted key of summary.json, or "".
    scale : float
        The number is this times the figure.
    value : float
        As printed.
    spread : float or None
        The number after ±, as printed; the table's caption explains it.
    """

    paper: str
    table: str
    row: str
    column: str
    settings: Mapping[str, Any]
    figure: str
    scale: float
    value: float
    spread: float | None


def title(paper: str) -> str:
    """The title of a paper.

    Raises
    ------
    ValueError
        For an unknown paper.
    """
    return str(_load(paper, FOLDER)["title"])


def tables(paper: str) -> list[str]:
    """The names of a paper's tables, in its order.

    Raises
    ------
    ValueError
        For an unknown paper, or a file of another form; names what is allowed.
    """
    return [table["name"] for table in _load(paper, FOLDER)["tables"]]


def read(paper: str, table: str) -> list[Printed]:
    """Every number of a table, by rows and columns.

    Raises
    ------
    ValueError
        As above, for an unknown table, or for a row of another form; names file, table, row and
        what is allowed.
    """
    document = _load(paper, FOLDER)
    names = tables(paper)
    if table not in names:
        raise ValueError(
            f'{paper}.toml: no table is called "{table}"; allowed is one of {", ".join(names)}'
        )
    content = document["tables"][names.index(table)]
    cells = (_cells(paper, document["methods"], content, row) for row in content["rows"])
    return list(itertools.chain.from_iterable(cells))


@cache
def _load(paper: str, folder: Path) -> dict[str, Any]:
    """A paper's file, checked but for its rows."""
    if paper not in PAPERS:
        raise ValueError(f'no paper is called "{paper}"; allowed is one of {", ".join(PAPERS)}')
    path = folder / f"{paper}.toml"
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path.name}: {error}; allowed is TOML") from None
    _check_names(document, *_DOCUMENT, path.name)
    for table in document["tables"]:
        _check_names(table, *_TABLE, f"{path.name}, {table.get('name')}")
    names = [table["name"] for table in document["tables"]]
    if len(set(names)) < len(names):
        raise ValueError(
            f"{path.name}: the tables are {', '.join(names)}; allowed is each name once"
        )
    return document


def _cells(
    paper: str, methods: Mapping[str, str], table: dict[str, Any], row: dict[str, Any]
) -> Iterator[Printed]:
    where = f'{paper}.toml, {table["name"]}, row "{row.get("name")}"'
    _check_names(row, *_ROW, where)
    name = row["name"]
    columns = table["columns"]
    values = row["values"]
    if name not in methods and "settings" not in row:
        raise ValueError(
            f"{where}: no such method; allowed is one of {', '.join(methods)}, or a row with"
            " settings"
        )
    if len(values) != len(columns):
        raise ValueError(
            f"{where}: {len(values)} values; allowed are {len(columns)}, one for each column"
        )
    method = {"method": methods[name]} if name in methods else {}
    for column, text in zip(columns, values):
        if text == "":
            continue
        of_column = dotted({key: column[key] for key in column if key not in _OF_FIGURE})
        of_row = method | dotted(row.get("settings", {}))
        parts = ChainMap(row, column, table)
        value, spread = _parse(text, where)
        yield Printed(
            paper=paper,
            table=table["name"],
            row=name,
            column=", ".join(_heading(*setting) for setting in of_column.items()),
            settings=dotted(table.get("settings", {})) | of_column | of_row,
            figure=parts["figure"],
            scale=float(parts["scale"]),
            value=value,
            spread=spread,
        )


def _heading(key: str, value: Any) -> str:
    """The words for a setting at the head of a column."""
    if key == "num-supernodes":
        return f"{value} clients"
    return str(value) if isinstance(value, str) else f"{key} = {value}"


def _parse(text: Any, where: str) -> tuple[float, float | None]:
    """Value and spread of a cell."""
    match = _CELL.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(
            f'{where}: the cell {text!r}; allowed are "" and forms such as "80.60", "80.60 ± 1.7",'
            ' "80.60 (1.7)" and "80.60 (↑1.7)"'
        )
    value, *spreads = (float(part.replace(",", "")) for part in match.groups() if part)
    return value, spreads[0] if spreads else None


def _check_names(
    table: Mapping[str, Any], needed: Collection[str], optional: Collection[str], where: str
) -> None:
    if missing := [name for name in needed if name not in table]:
        raise ValueError(f"{where}: {missing[0]} is missing")
    if unknown := [name for name in table if name not in needed and name not in optional]:
        raise ValueError(
            f'{where}: unknown "{unknown[0]}"; allowed are {", ".join((*needed, *optional))}'
        )

"""Pages of measured rows, and the machine on which they were measured."""

import os
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil
import torch

from benchmarks.measure import Row, measure
from benchmarks.tables import read_csv, table_lines, write_csv
from curvfed.tasks.stored_files import write_atomically

COLUMNS = (
    "what",
    "against",
    "ratio",
    "goal",
    "range",
    "ours, s",
    "theirs, s",
    "ours, MB",
    "theirs, MB",
)
RATIO = COLUMNS.index("ratio")
GOAL = COLUMNS.index("goal")
PART = "part"
MEASURED = "measured"
MISSED = ", missed"
VERSIONS = ("torch", "numpy", "scipy", "flwr", "ray", "geoopt", "hypll", "python-flint")

Tables = Mapping[str, Sequence[list[str]]]
"""Rows of cells by the title of their table."""
Summary = Callable[[Tables], list[str]]
"""From the rows of a page to the lines that it shows of them."""
Parts = dict[str, dict[str, list[list[str]]]]
"""Rows of cells by the title of their table and by their origin, which is date and machine."""


def machine(device: str = "cpu") -> dict[str, Any]:
    """What the figures are of."""
    cpus = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    return {
        "processor": cpus.partition("model name\t: ")[2].partition("\n")[0] or platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "system": platform.system(),
        "versions": (
            {"python": platform.python_version()} | {name: _version(name) for name in VERSIONS}
        ),
    } | ({} if device == "cpu" else {"gpu": torch.cuda.get_device_name(device)})


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


def describe_machine(figures: Mapping[str, Any]) -> str:
    """The machine in words."""
    versions = ", ".join(f"{name} {number}" for name, number in figures["versions"].items())
    processor = figures["processor"]
    if "gpu" in figures:
        processor = f"{figures['gpu']}, {processor}"
    size = f"{figures['cores']} cores, {figures['memory_gb']} GB"
    return f"{processor}, {size}, {figures['system']}; {versions}"


def write_page(
    page: Path,
    introduction: str,
    figures: Mapping[str, Any],
    columns: Sequence[str],
    tables: Tables,
    summary: Summary,
) -> None:
    """Write a page, and its rows as a CSV file of the same name beside it.

    Parameters
    ----------
    page : Path
    introduction : str
    figures : mapping
        `measured` and `machine` say when and where the rows were measured.
    columns : sequence of str
    tables : mapping of str to sequence of list of str
    summary : callable
        From rows of cells by the title of their table to the lines that the page shows of them.
    """
    origin = _origin(figures)
    parts = {title: {origin: list(rows)} for title, rows in tables.items()}
    write_parts(page, introduction, columns, parts, summary)


def _origin(figures: Mapping[str, Any]) -> str:
    return f"{figures['measured'][:10]}: {describe_machine(figures['machine'])}"


def write_parts(
    page: Path, introduction: str, columns: Sequence[str], parts: Parts, summary: Summary
) -> None:
    """Write a page, and its rows as a CSV file of the same name beside it; the page names the
    origin of most rows."""
    rows = [
        [title, *cells, origin]
        for title, by_origin in parts.items()
        for origin, part in by_origin.items()
        for cells in part
    ]
    write_csv(page.with_suffix(".csv"), (PART, *columns, MEASURED), rows)
    numbers = Counter(row[-1] for row in rows)
    origin, number = max(numbers.items(), key=lambda item: item[1], default=("", 0))
    place = f"Measured on {origin}."
    if number < len(rows):
        others = len(rows) - number
        place += f" {others} of {len(rows)} rows are of another day or machine, as the file says."
    tables = {
        title: [cells for part in by_origin.values() for cells in part]
        for title, by_origin in parts.items()
    }
    lines = [introduction, place, "", *summary(tables)]
    write_atomically(page, ("\n".join(lines).rstrip("\n") + "\n").encode())


def read_parts(page: Path) -> Parts:
    """The rows of the CSV file beside a page that `write_parts` wrote."""
    parts: Parts = {}
    for title, *row, origin in read_csv(page.with_suffix(".csv")):
        parts.setdefault(title, {}).setdefault(origin, []).append(row)
    return parts


def goal_lines(tables: Tables) -> list[str]:
    """The numbers of goals that the rows of a page meet and miss, and the rows that miss one."""
    rows = [row for part in tables.values() for row in part]
    goals = [row for row in rows if row[GOAL].startswith("≤")]
    short = [row for row in goals if MISSED in row[GOAL]]
    failed = [row for row in rows if row[RATIO].startswith("failed")]
    met = len(goals) - len(short)
    lines = [
        f"{len(rows)} rows: {met} goals are met, {len(short)} missed; {len(failed)} rows failed."
    ]
    if short or failed:
        lines += ["", "## Missed goals", "", *missed_lines([*short, *failed])]
    return lines


def missed_lines(rows: Sequence[list[str]]) -> list[str]:
    """The table of rows that miss their goals."""
    shown = [
        [cell.replace(MISSED, "") if column == GOAL else cell for column, cell in enumerate(row)]
        for row in rows
    ]
    return table_lines(COLUMNS[: GOAL + 2], [row[: GOAL + 2] for row in shown])


def update_page(
    page: Path, introduction: str, figures: Mapping[str, Any], measured: Tables, rows: Iterable[Row]
) -> tuple[int, int]:
    """Replace the rows of a page that were measured again, by their first two cells, add new ones,
    and write the goals of the others as they are now.

    Returns
    -------
    tuple of int
        How many goals the page has, and how many of them are missed.
    """
    parts = read_parts(page)
    origin = _origin(figures)
    for title, new_rows in measured.items():
        names = {tuple(cells[:2]) for cells in new_rows}
        kept = {
            part_origin: [cells for cells in part if tuple(cells[:2]) not in names]
            for part_origin, part in parts.get(title, {}).items()
        }
        parts[title] = {part_origin: part for part_origin, part in kept.items() if part}
        parts[title].setdefault(origin, []).extend(new_rows)
    every_row = [cells for part in parts.values() for rows in part.values() for cells in rows]
    known = {(row.what, row.against): row for row in rows}
    for cells in every_row:
        row = known.get((cells[0], cells[1]))
        if row is not None and not cells[RATIO].startswith("failed"):
            cells[GOAL] = goal_words(row.goal, row.buys, float(cells[RATIO]))
    write_parts(page, introduction, COLUMNS, parts, goal_lines)
    goals = [cells[GOAL] for cells in every_row if cells[GOAL].startswith("≤")]
    return len(goals), sum(MISSED in goal for goal in goals)


def figures_of(topic: str, row: Row, quick: bool) -> dict[str, Any]:
    """A row's words and figures, or its error."""
    words: dict[str, Any] = {"part": topic, "what": row.what, "against": row.against}
    words |= {"goal": row.goal, "buys": row.buys}
    try:
        ratio = measure(row, quick)
    except Exception as error:
        return words | {"error": f"{type(error).__name__}: {error}"}
    met = None if row.goal is None else ratio.ratio <= row.goal
    return words | asdict(ratio) | {"ratio": ratio.ratio, "met": met}


def cells(figures: Mapping[str, Any]) -> list[str]:
    """A row of the table."""
    words = [figures["what"], figures["against"]]
    if "error" in figures:
        empty = [""] * (len(COLUMNS) - 3)
        return [*words, f"failed: {figures['error']}", *empty]
    goal = goal_words(figures["goal"], figures["buys"], figures["ratio"])
    names = ("ratio", "low", "high", "ours", "theirs")
    ratio, low, high, ours, theirs = (f"{figures[name]:.3g}" for name in names)
    memory = [_megabytes(figures[name]) for name in ("ours_bytes", "theirs_bytes")]
    return [*words, ratio, goal, f"{low}–{high}", ours, theirs, *memory]


def goal_words(goal: float | None, buys: str, ratio: float) -> str:
    """A goal and whether it is met; where it is missed, or none is set, what the time buys."""
    if goal is None:
        return buys
    if ratio <= goal:
        return f"≤ {goal:g}, met"
    return f"≤ {goal:g}{MISSED}" + (f": {buys}" if buys else "")


def _megabytes(size: int | None) -> str:
    if size is None:
        return ""
    return f"{size / 1e6:.0f}" if size >= 1e6 else "< 1"


def duration(seconds: float) -> str:
    """In seconds, or in milliseconds below a tenth of one."""
    return f"{seconds:.3g} s" if seconds >= 0.1 else f"{1e3 * seconds:.3g} ms"

"""Pages of tables, and the machine on which they were measured."""

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil
import torch

from benchmarks.measure import Row, measure
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
MEASURED = "Measured on "
VERSIONS = ("torch", "numpy", "scipy", "flwr", "ray", "geoopt", "hypll", "python-flint")

Tables = Mapping[str, Sequence[list[str]]]
"""Rows of cells by the title of their table."""
Parts = dict[str, dict[str, list[list[str]]]]
"""Rows of cells by the title of their table and by their origin, a line with date and machine."""


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
) -> None:
    """Write a page: introduction, date and machine of the figures, and the tables, rows of cells by
    title."""
    origin = f"{MEASURED}{_origin(figures)}"
    parts = {title: {origin: list(rows)} for title, rows in tables.items()}
    write_parts(page, introduction, origin, columns, parts)


def _origin(figures: Mapping[str, Any]) -> str:
    return f"{figures['measured'][:10]}: {describe_machine(figures['machine'])}."


def write_parts(
    page: Path, introduction: str, origin: str, columns: Sequence[str], tables: Parts
) -> None:
    """Write a page whose tables have parts of different origins; `origin` is that of most rows."""
    lines = [introduction, origin]
    for title, parts in tables.items():
        lines += ["", f"## {title}"]
        for part_origin, rows in parts.items():
            if part_origin != origin:
                lines += ["", part_origin]
            lines += ["", *table_lines(columns, rows)]
    write_atomically(page, ("\n".join(lines) + "\n").encode())


def read_parts(page: Path) -> tuple[str, Parts]:
    """The origin of most rows of a page that `write_parts` wrote, and its tables."""
    tables: Parts = {}
    page_origin = title = ""
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            title = line.removeprefix("## ")
            origin = page_origin
        elif line.startswith(MEASURED):
            origin = line
            page_origin = page_origin or line
        elif line.startswith("| ") and not line.startswith(("| what |", "| --- |")):
            rows = tables.setdefault(title, {}).setdefault(origin, [])
            rows.append(line.removeprefix("| ").removesuffix(" |").split(" | "))
    return page_origin, tables


def update_page(
    page: Path, introduction: str, figures: Mapping[str, Any], measured: Tables, rows: Iterable[Row]
) -> tuple[int, int]:
    """Replace the rows of a page that were measured again, by their first two cells, and write the
    goals of the others as they are now.

    Returns
    -------
    tuple of int
        How many goals the page has, and how many of them are missed.
    """
    page_origin, tables = read_parts(page)
    origin = f"{MEASURED}{_origin(figures)}"
    for title, new_rows in measured.items():
        names = {tuple(cells[:2]) for cells in new_rows}
        kept = {
            part_origin: [cells for cells in part if tuple(cells[:2]) not in names]
            for part_origin, part in tables.get(title, {}).items()
        }
        tables[title] = {part_origin: part for part_origin, part in kept.items() if part}
        tables[title].setdefault(origin, []).extend(new_rows)
    every_row = [cells for parts in tables.values() for part in parts.values() for cells in part]
    known = {(row.what, row.against): row for row in rows}
    for cells in every_row:
        row = known.get((cells[0], cells[1]))
        if row is not None and not cells[RATIO].startswith("failed"):
            cells[RATIO + 1] = goal_words(row.goal, row.buys, float(cells[RATIO]))
    write_parts(page, introduction, page_origin, COLUMNS, tables)
    goals = [cells[RATIO + 1] for cells in every_row if cells[RATIO + 1].startswith("≤")]
    return len(goals), sum("**missed**" in goal for goal in goals)


def table_lines(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table in Markdown."""
    rule = ["---"] * len(columns)
    return [f"| {' | '.join(row)} |" for row in (columns, rule, *rows)]


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
    return f"≤ {goal:g}, **missed**" + (f": {buys}" if buys else "")


def _megabytes(size: int | None) -> str:
    if size is None:
        return ""
    return f"{size / 1e6:.0f}" if size >= 1e6 else "< 1"


def duration(seconds: float) -> str:
    """In seconds, or in milliseconds below a tenth of one."""
    return f"{seconds:.3g} s" if seconds >= 0.1 else f"{1e3 * seconds:.3g} ms"

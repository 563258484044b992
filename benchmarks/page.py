"""Pages of tables, and the machine on which they were measured."""

import os
import platform
from collections.abc import Mapping, Sequence
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
VERSIONS = ("torch", "numpy", "scipy", "flwr", "ray", "geoopt", "hypll", "python-flint")


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
    tables: Mapping[str, Sequence[Sequence[str]]],
) -> None:
    """Write a page: introduction, date and machine of the figures, and the tables, rows of cells by
    title."""
    measured_on = f"{figures['measured'][:10]}: {describe_machine(figures['machine'])}"
    lines = [introduction, f"Measured on {measured_on}."]
    for title, rows in tables.items():
        lines += ["", f"## {title}", "", *table_lines(columns, rows)]
    write_atomically(page, ("\n".join(lines) + "\n").encode())


def table_lines(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table in Markdown."""
    rule = ["---"] * len(columns)
    return [f"| {' | '.join(row)} |" for row in (columns, rule, *rows)]


def figures_of(topic: str, row: Row, quick: bool) -> dict[str, Any]:
    """A row's words and figures, or its error."""
    words = {"part": topic, "what": row.what, "against": row.against, "goal": row.goal}
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
    goal = ""
    if figures["goal"] is not None:
        goal = f"≤ {figures['goal']:g}, {'met' if figures['met'] else '**missed**'}"
    names = ("ratio", "low", "high", "ours", "theirs")
    ratio, low, high, ours, theirs = (f"{figures[name]:.3g}" for name in names)
    memory = [_megabytes(figures[name]) for name in ("ours_bytes", "theirs_bytes")]
    return [*words, ratio, goal, f"{low}–{high}", ours, theirs, *memory]


def _megabytes(size: int | None) -> str:
    if size is None:
        return ""
    return f"{size / 1e6:.0f}" if size >= 1e6 else "< 1"


def duration(seconds: float) -> str:
    """In seconds, or in milliseconds below a tenth of one."""
    return f"{seconds:.3g} s" if seconds >= 0.1 else f"{1e3 * seconds:.3g} ms"

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

HEADS = (
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


def told_machine(of: Mapping[str, Any]) -> str:
    """The machine in words."""
    versions = ", ".join(f"{name} {number}" for name, number in of["versions"].items())
    processor = f"{of['gpu']}, {of['processor']}" if "gpu" in of else of["processor"]
    return f"{processor}, {of['cores']} cores, {of['memory_gb']} GB, {of['system']}; {versions}"


def write_page(
    page: Path,
    about: str,
    figures: Mapping[str, Any],
    heads: Sequence[str],
    tables: Mapping[str, Sequence[Sequence[str]]],
) -> None:
    """Write a page: what it is about, date and machine of the figures, and the tables, rows of cells
    by title."""
    lines = [about, f"Measured on {figures['measured'][:10]}: {told_machine(figures['machine'])}."]
    for title, rows in tables.items():
        lines += ["", f"## {title}", ""]
        lines += [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows)]
    write_atomically(page, ("\n".join(lines) + "\n").encode())


def figures_of(topic: str, row: Row, quick: bool) -> dict[str, Any]:
    """A row's words and figures, or its error."""
    words = {"part": topic, "what": row.what, "against": row.against, "goal": row.goal}
    try:
        found = measure(row, quick)
    except Exception as error:
        return words | {"error": f"{type(error).__name__}: {error}"}
    met = None if row.goal is None else found.ratio <= row.goal
    return words | asdict(found) | {"ratio": found.ratio, "met": met}


def cells(one: Mapping[str, Any]) -> list[str]:
    """A row of the table."""
    if "error" in one:
        return [one["what"], one["against"], f"failed: {one['error']}", *[""] * (len(HEADS) - 3)]
    goal = (
        "" if one["goal"] is None else f"≤ {one['goal']:g}, {'met' if one['met'] else '**missed**'}"
    )
    ratio, low, high, ours, theirs = (
        f"{one[key]:.3g}" for key in ("ratio", "low", "high", "ours", "theirs")
    )
    memory = [
        "" if (size := one[key]) is None else f"{size / 1e6:.0f}" if size >= 1e6 else "< 1"
        for key in ("ours_bytes", "theirs_bytes")
    ]
    return [one["what"], one["against"], ratio, goal, f"{low}–{high}", ours, theirs, *memory]


def duration(seconds: float) -> str:
    """In seconds, or in milliseconds below a tenth of one."""
    return f"{seconds:.3g} s" if seconds >= 0.1 else f"{1e3 * seconds:.3g} ms"

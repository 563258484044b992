"""Tables of a page, between two marks, and the machine that they are of."""

import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
import torch

from curvfed.tasks.atomic_file import write_atomically

BEGIN, END = "<!-- measured -->", "<!-- end of what was measured -->"
VERSIONS = ("torch", "numpy", "scipy", "flwr", "ray", "geoopt", "hypll", "python-flint")


def machine(device: str = "cpu") -> dict[str, Any]:
    """What the figures are of."""
    cpus = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    return {
        "processor": cpus.partition("model name\t: ")[2].partition("\n")[0] or platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "system": platform.system(),
        "versions": {"python": platform.python_version()} | {name: version(name) for name in VERSIONS},
    } | ({} if device == "cpu" else {"gpu": torch.cuda.get_device_name(device)})


def around(page: Path) -> tuple[str, str]:
    """What stands before and after the tables; a ValueError says why a page cannot have any."""
    try:
        before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    except OSError as error:
        raise ValueError(f"{page} cannot be read: {error.strerror}") from None
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{page} has no lines {BEGIN} and {END} to put the table between")
    return before, after


def write_tables(page: Path, told: Mapping[str, Any], heads: Sequence[str], tables: Mapping[str, Any]) -> None:
    """Replace the tables of a page, rows of cells by title; `told` has the date and the machine of all figures."""
    before, after = around(page)
    of = told["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in of["versions"].items())
    processor = f"{of['gpu']}, {of['processor']}" if "gpu" in of else of["processor"]
    where = f"{processor}, {of['cores']} cores, {of['memory_gb']} GB, {of['system']}; {versions}"
    lines = [f"Measured on {told['measured'][:10]}: {where}."]
    for title, rows in tables.items():
        lines += ["", f"**{title}**", ""]
        lines += [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows)]
    write_atomically(page, "\n".join([before + BEGIN, *lines, "", END + after]).encode())


def duration(seconds: float) -> str:
    """In seconds, or in milliseconds below a tenth of one."""
    return f"{seconds:.3g} s" if seconds >= 0.1 else f"{1e3 * seconds:.3g} ms"

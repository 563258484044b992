"""How time and memory grow with clients, parameters, nodes, edges, points and bins.

    python -m benchmarks.growth [--to docs/cost] [--only NAME ...] [--largest FRACTION] [--cap SECONDS]

Into the folder go `growth.json` with the points, and for everything that grows one figure, as PNG and SVG; the page
beside it, `<folder>.md`, is written whole, its words from `benchmarks/growth/curves.py`. With `--only` the other curves
keep the points that the folder has of them, if it is of the same machine and versions; without a name after it nothing is
measured, and figures and page are made anew. One thread; sizes that would not fit the time of a curve, or the memory, by
what the smaller ones took, are left out, and the page says which.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
import torch
from rich.console import Console
from threadpoolctl import threadpool_limits

from benchmarks.growth.curves import CURVES, GROWS, chosen, up_to
from benchmarks.growth.figures import draw
from benchmarks.growth.fit import exponent
from benchmarks.growth.measure import Measured, Point, measure, told
from benchmarks.growth.page import page
from curvfed.tasks.atomic_file import write_atomically

CAP = 60.0
"""Seconds for a curve."""
FILE = "growth.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write points and figures after every curve, and the page at the end."""
    options = _parser().parse_args(arguments)
    console, folder = Console(), options.to
    folder.mkdir(parents=True, exist_ok=True)
    here = machine()
    there, found = _read(folder / FILE)
    if options.only and there != here:
        there, found = here, {}
    torch.set_num_threads(1)
    with threadpool_limits(1):
        for curve in chosen(options.only):
            console.print(f"measuring {curve.name}", markup=False, highlight=False)
            found[curve.name] = measure(curve, up_to(curve.sizes, options.largest), options.cap)
            _write(folder / FILE, there, found)
            console.print(told(found[curve.name]), markup=False, highlight=False)
    for grows in GROWS:
        draw(grows, found, folder / grows)
    write_atomically(folder.parent / f"{folder.name}.md", page(found, there, folder.name).encode())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth")
    parser.add_argument(
        "--to", type=Path, default=Path("docs/cost"), help="folder of points and figures; the page is beside"
    )
    names = [*GROWS, *(curve.name for curve in CURVES)]
    parser.add_argument("--only", nargs="*", choices=names, default=list(GROWS), metavar="NAME", help=", ".join(names))
    parser.add_argument("--largest", type=float, default=1.0, help="share of the largest size that sizes may have")
    parser.add_argument("--cap", type=float, default=CAP, help="seconds for a curve")
    return parser


def machine() -> dict[str, Any]:
    """What it is measured on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "system": platform.system(),
        "versions": {name: version(name) for name in ("flwr", "numpy", "python-flint", "scipy", "torch")}
        | {"python": platform.python_version()},
    }


def _write(path: Path, where: dict[str, Any], found: dict[str, Measured]) -> None:
    figures = {}
    for name, one in found.items():
        sizes, values = ([getattr(point, key) for point in one.points] for key in ("size", "seconds"))
        memory = [point.bytes for point in one.points]
        figures[name] = asdict(one) | {
            "exponent": exponent(sizes, values),
            "exponent_bytes": exponent(sizes, memory, memory=True),
        }
    head = {"measured": datetime.now(UTC).isoformat(timespec="seconds"), "machine": where, "threads": 1}
    write_atomically(path, (json.dumps(head | {"curves": figures}, indent=1) + "\n").encode())


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Measured]]:
    """The machine and the points that are there already, of curves that there still are."""
    try:
        told = json.loads(path.read_text())
        return told["machine"], {
            curve.name: Measured(
                [Point(**point) for point in one["points"]], one["left_out"], one["reason"], one["cap"]
            )
            for curve in CURVES
            if (one := told["curves"].get(curve.name))
        }
    except (OSError, ValueError, KeyError, TypeError):  # absent, or of another version
        return {}, {}


if __name__ == "__main__":
    sys.exit(main())

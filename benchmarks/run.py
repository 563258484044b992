"""All benchmarks: ratios against the limit, the flat twin, a peer or a budget, each pair measured in turn in one run.

    python -m benchmarks.run [--data FOLDER] [--only PART ...] [--device cuda] [--out FILE.json] [--page docs/benchmarks.md]

With a folder of data sets on Cora and MNIST, else on the built-in trees and digits. One thread, unless a row says
otherwise; ours over theirs by medians of interleaved repeats, with the smallest and the largest ratio of a pair. What
each row is, and what it showed where: docs/benchmarks.md.
"""

import argparse
import json
import logging
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks import (
    decode,
    graphs,
    hulls,
    losses,
    many_clients,
    networks,
    operations,
    secure_sum,
    server,
    spread,
    steps,
    whole,
    wire,
)
from benchmarks.page import PageError, around, megabytes, write_table
from benchmarks.row import Place, Row, Rows
from benchmarks.timing import Ratio
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.device import pick_device
from curvfed.tasks.atomic_file import write_atomically

PARTS: dict[str, Rows] = {
    "steps": steps.rows,
    "networks": networks.rows,
    "operations": operations.rows,
    "losses": losses.rows,
    "graphs": graphs.rows,
    "prototypes": spread.rows,
    "server": server.rows,
    "wire": wire.rows,
    "hulls": hulls.rows,
    "decode": decode.rows,
    "secure-sum": secure_sum.rows,
    "whole": whole.rows,
    "many-clients": many_clients.rows,
}
"""Rows by the name of their part, in the order that they are measured in."""

VERSIONS = ("torch", "numpy", "scipy", "flwr", "ray", "geoopt", "hypll")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, tell each row as it comes, and write the figures; 1 if a row failed, else 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run")
    parser.add_argument("--data", type=Path, help="folder of the public data sets; without it the built-in ones")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts to measure")
    parser.add_argument("--out", type=Path, help="where to write the figures as JSON")
    parser.add_argument("--page", type=Path, help="page whose table is to be replaced, such as docs/benchmarks.md")
    parser.add_argument("--device", default="cpu", help="of steps and networks: cpu, cuda or cuda:N")
    options = parser.parse_args(arguments)
    try:
        device = str(pick_device(options.device))
        if options.page:
            around(options.page)  # before the minutes that the figures take
    except (ConfigError, PageError) as error:
        parser.error(str(error))
    if options.data and not options.data.is_dir():
        parser.error(f"--data: {options.data} is no folder")
    logging.getLogger("curvfed").addHandler(logging.NullHandler())
    torch.set_num_threads(1)
    place, console = Place(options.data, device), Console()
    figures: list[dict[str, Any]] = []
    failed = 0
    table = Table("part", "what", "against", "ratio", "goal", "range", "ours, s", "theirs, s", "ours, MB", "theirs, MB")
    for part, row in _chosen(options.only, place):
        console.print(f"measuring {part}: {row.what}", markup=False, highlight=False)
        try:
            found = row.measure()
        except Exception as error:
            failed += 1
            console.print(f"failed: {type(error).__name__}: {error}", markup=False, soft_wrap=True)
            figures.append({"part": part, **_words(row), "error": f"{type(error).__name__}: {error}"})
            continue
        figures.append({"part": part, **_words(row), **asdict(found), "ratio": found.ratio, "met": row.is_met(found)})
        table.add_row(part, *_cells(row, found))
        _save(options.out, figures, [], device)  # at once: an interrupt loses the row that is under way alone
    Console(width=max(console.width, 160)).print(table)  # ten columns
    errors = [asdict(one) for one in operations.errors(place)] if "operations" in options.only else []
    _save(options.out, figures, errors, device)
    if options.page:
        write_table(options.page, figures, errors, _told(_machine(device)))
    goals = [one for one in figures if one.get("met") is not None]
    console.print(
        f"{sum(one['met'] for one in goals)} of {len(goals)} goals met" + (f", {failed} failed" * bool(failed))
    )
    return 1 if failed else 0


def _chosen(parts: Iterable[str], place: Place) -> Iterable[tuple[str, Row]]:
    chosen = set(parts)
    return ((part, row) for part, rows in PARTS.items() if part in chosen for row in rows(place))


def _words(row: Row) -> dict[str, Any]:
    return {"what": row.what, "against": row.against, "kind": row.kind, "goal": row.goal}


def _cells(row: Row, found: Ratio) -> list[str]:
    goal = "" if row.goal is None else f"≤ {row.goal:g} {'met' if row.is_met(found) else 'missed'}"
    memory = [megabytes(found.ours_bytes), megabytes(found.theirs_bytes)]
    spread = f"{found.low:.3g}–{found.high:.3g}"
    return [
        row.what,
        row.against,
        f"{found.ratio:.3g}",
        goal,
        spread,
        f"{found.ours:.3g}",
        f"{found.theirs:.3g}",
        *memory,
    ]


def _save(path: Path | None, figures: list[dict[str, Any]], errors: list[dict[str, Any]], device: str) -> None:
    if path:
        content = _machine(device) | {"rows": figures, "errors": errors}
        write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())


def _machine(device: str) -> dict[str, Any]:
    """What the figures are of."""
    gpu = {} if device == "cpu" else {"gpu": torch.cuda.get_device_name(device)}
    return {
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"processor": _processor(), "cores": os.cpu_count(), "system": platform.system()} | gpu,
        "versions": {"python": platform.python_version()} | {name: version(name) for name in VERSIONS},
    }


def _told(machine: dict[str, Any]) -> str:
    of = machine["machine"]
    processor = ", ".join(of[key] for key in ("gpu", "processor") if key in of)
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    return f"Measured on {machine['measured'][:10]}: {processor}, {of['cores']} cores, {of['system']}; {versions}."


def _processor() -> str:
    """Its name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    sys.exit(main())

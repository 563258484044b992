"""Measure rows, each ours against a limit, the flat twin, a peer or a budget.

    python -m benchmarks [--data FOLDER] [--only WORD ...] [--device cuda] [--out FILE.json]
        [--page docs/measured/speed.md | --update docs/measured/speed.md]

With a folder of data sets on Cora and MNIST, else on the built-in trees and digits. `--only`
selects topics, or rows by a part of their names. A page has its rows as a CSV file beside it;
`--update` replaces the measured ones and keeps the others. docs/speed.md explains the rows.
"""

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.measure import Place
from benchmarks.page import COLUMNS, cells, figures_of, goal_lines, machine, update_page, write_page
from benchmarks.rows import TOPICS, chosen
from curvfed.strategies.config.device import pick_device
from curvfed.tasks.stored_files import write_atomically

INTRODUCTION = """\
# Speed: every row

    make bench DATA=folder ARGS="--page docs/measured/speed.md"

writes this page and [every row](speed.csv); `--update` in place of `--page` replaces the rows that `--only` names.
[Speed](../speed.md) explains the rows.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, tell each row as it comes, and write the figures; 1 if a row failed, else 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument(
        "--data", type=Path, help="folder of the public data sets; without it the built-in ones"
    )
    words = f"a part of a row's name, or a topic: {', '.join(TOPICS)}"
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help=words)
    parser.add_argument("--out", type=Path, help="where to write the figures as JSON")
    parser.add_argument("--page", type=Path, help="page to write, such as docs/measured/speed.md")
    parser.add_argument("--update", type=Path, help="page whose measured rows are replaced")
    parser.add_argument(
        "--device", default="cpu", help="of steps and networks: cpu, cuda or cuda:N"
    )
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, once: whether every row works"
    )
    parser.add_argument("--before", type=Path, help="an older checkout, for rows against it")
    options = parser.parse_args(arguments)
    try:
        device = str(pick_device(options.device))
    except ValueError as error:
        parser.error(str(error))
    if options.page and not options.page.parent.is_dir():
        parser.error(f"--page: there is no folder {options.page.parent}")
    if options.data and not options.data.is_dir():
        parser.error(f"--data: {options.data} is no folder")
    if options.update and not options.update.with_suffix(".csv").is_file():
        parser.error(f"--update: there is no {options.update.with_suffix('.csv')}")
    place = Place(options.data, device, options.quick, options.before)
    rows = chosen(options.only, place)
    if not rows:
        parser.error(f"--only: no row has {' or '.join(options.only)} in its name")
    logging.getLogger("curvfed").addHandler(logging.NullHandler())
    console = Console()
    figures = list[dict[str, Any]]()
    content = {
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(device),
        "rows": figures,
    }
    for number, (topic, row) in enumerate(rows, 1):
        console.print(
            f"[{number}/{len(rows)}] {topic}: {row.what} / {row.against}",
            markup=False,
            highlight=False,
        )
        row_figures = figures_of(topic, row, options.quick)
        figures.append(row_figures)
        console.print(
            "    " + "  ".join(filter(None, cells(row_figures)[2:])),
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
        if options.out:  # at once: an interrupt loses only the row that is being measured
            write_atomically(options.out, (json.dumps(content, indent=1) + "\n").encode())
    titles = dict.fromkeys(row["part"] for row in figures)
    measured = {title: [cells(row) for row in figures if row["part"] == title] for title in titles}
    if options.page:
        write_page(options.page, INTRODUCTION, content, COLUMNS, measured, goal_lines)
    if options.update:
        every_row = [row for _, row in chosen([], place)]
        number, missed = update_page(options.update, INTRODUCTION, content, measured, every_row)
        console.print(f"{missed} of {number} goals of the page are missed")
    goals = [row["met"] for row in figures if row.get("met") is not None]
    failed = sum("error" in row for row in figures)
    console.print(
        f"{sum(goals)} of {len(goals)} goals met" + (f", {failed} failed" if failed else "")
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

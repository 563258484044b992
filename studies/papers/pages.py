"""A page for each paper: the pages of its sweeps, then the paper's tables with our numbers beside;
and a page of contents."""

import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

# See comparison.py: the runs of a sweep and their rows in `results.sqlite`.
from curvfed.extensions.sweeps.commands.sweep.results import Results
from studies.papers import PAPERS, printed_numbers
from studies.papers.comparison import compare, markdown, write_csv
from studies.papers.figures.page import Study, make_page, read_study, write_study

SWEEPS = Path(__file__).parent / "sweeps"

VERSIONS = {"python": "Python", "flwr": "Flower", "torch": "torch", "numpy": "NumPy"}
"""The versions on the page of contents, by their names in summary.json."""


class Sweep(NamedTuple):
    """A sweep file of a paper at one scale."""

    paper: str
    plan: Study

    @property
    def printed_table(self) -> str:
        """The paper's table that this sweep repeats, whose numbers we have; empty for none."""
        for table in printed_numbers.tables(self.paper):
            kind, number = table.split()[:2]
            if number.isdigit() and self.plan.path.stem == f"{kind.lower()}-{int(number):02}":
                return table
        return ""


def sweep_files() -> dict[str, Path]:
    """The sweep files of all papers, by names such as `flatland/table-01`."""
    paths = [path for paper in PAPERS for path in sorted((SWEEPS / paper).glob("*.toml"))]
    return {f"{path.parent.name}/{path.stem}": path for path in paths}


def read_sweeps(paths: Iterable[Path], scale: str) -> list[Sweep]:
    """Read sweep files of papers."""
    return [Sweep(path.parent.name, read_study(path, scale)) for path in paths]


def write_pages(sweeps: Sequence[Sweep], results: Path, folder: Path, command: str) -> None:
    """Write the pages, with figures and tables beside them."""
    every = Results(results).rows()
    rows = {row["run"]: row for row in every if row["status"] == "completed"}
    for paper in PAPERS:
        parts = [f"# {paper}: {printed_numbers.title(paper)}\n\n[All results](README.md)\n"]
        for sweep in sweeps:
            if sweep.paper == paper:
                parts.append(_report(sweep, results, folder))
                parts.append(_beside_the_paper(sweep, rows, folder))
        text = "\n".join(filter(None, parts))
        (folder / f"{paper}.md").write_text(text, encoding="utf-8")
    (folder / "README.md").write_text(contents(sweeps, rows, command), encoding="utf-8")


def _report(sweep: Sweep, results: Path, folder: Path) -> str:
    """The page of a sweep, below a heading of the second level."""
    plan = sweep.plan
    runs = Results(results).select(plan)
    if not any(run.row for run in runs):
        return f"## {plan.title}\n\nNo run has been made.\n"
    with tempfile.TemporaryDirectory() as place:
        write_study(make_page(plan, runs, Path(place)), Path(place), plan.path.stem)
        page = Path(place, f"{plan.path.stem}.md").read_text(encoding="utf-8")
        for file in sorted(Path(place).iterdir()):
            if file.suffix != ".md":
                kind = "tables" if file.suffix == ".csv" else "figures"
                target = folder / kind / sweep.paper / file.name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read_bytes())
    page = re.sub(r"(?m)^# ", "## ", page)
    return page.replace(f"]({plan.path.stem}-", f"](figures/{sweep.paper}/{plan.path.stem}-")


def _beside_the_paper(sweep: Sweep, rows: Mapping[str, Mapping[str, Any]], folder: Path) -> str:
    """The paper's table with our numbers; empty if we have none of them."""
    if not (table := sweep.printed_table):
        return ""
    pairs = compare(printed_numbers.read(sweep.paper, table), sweep.plan, rows)
    if text := markdown(pairs):
        write_csv(pairs, folder / "tables" / sweep.paper / f"{sweep.plan.path.stem}-paper.csv")
    return text


def contents(sweeps: Sequence[Sweep], rows: Mapping[str, Mapping[str, Any]], command: str) -> str:
    """Write the first page: what was run, by which command, and where each table and figure is."""
    names = {run.name for sweep in sweeps for run in sweep.plan.runs}
    completed = [rows[name] for name in sorted(names) if name in rows]
    minutes = sum(row.get("seconds") or 0.0 for row in completed) / 60
    ran = f"{len(completed)} of {len(names)} runs completed"
    if completed:
        ran += f", in {minutes:.0f} minutes of run time"
    lines = [
        "# The papers' tables and figures, from our own runs\n",
        f"Made by `{command}`.\n",
        ". ".join([ran, *_versions(completed)]) + ".",
    ]
    for paper in PAPERS:
        lines.append(f"\n**[{paper}]({paper}.md)**: {printed_numbers.title(paper)}\n")
        for sweep in sweeps:
            if sweep.paper == paper:
                link = f"{paper}.md#{_anchor(sweep.plan.title)}"
                lines.append(f"* [{sweep.plan.title}]({link}): {sweep.plan.source}")
    return "\n".join(lines) + "\n"


def _versions(completed: Sequence[Mapping[str, Any]]) -> list[str]:
    """The versions of the libraries that the runs used."""
    lines = []
    for name, word in VERSIONS.items():
        key = f"versions.{name}"
        versions = {str(row[key]) for row in completed if row.get(key)}
        if versions:
            lines.append(f"{word} {' and '.join(sorted(versions))}")
    return [", ".join(lines)] if lines else []


def _anchor(title: str) -> str:
    """The fragment that GitHub gives a heading."""
    allowed = [letter for letter in title.lower() if letter.isalnum() or letter in " -_"]
    return "".join(allowed).replace(" ", "-")

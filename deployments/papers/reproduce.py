"""The command `curvfed paper`: runs of all shipped sweeps at one scale, then pages with the papers'
tables and figures.

Runs that have completed are not repeated.
"""

from pathlib import Path

from rich.console import Console

from curvfed.deployments import papers
from curvfed.deployments.report.page import (
    SweepPage,
    check,
    make_folder,
    make_page,
    markdown_page,
    write_csv,
)
from curvfed.deployments.report.render import HERE
from curvfed.deployments.report.selection import select
from curvfed.deployments.resources import Resources
from curvfed.deployments.shipped import SWEEPS, shipped
from curvfed.deployments.sweep.make import data_places, default_results, exit_status, sweep
from curvfed.deployments.sweep.plan import Plan, read_plan
from curvfed.deployments.sweep.results import Results
from curvfed.server_app.report.templates import render
from curvfed.tasks.stored_files import write_atomically

VERSIONS = {"python": "Python", "flwr": "Flower", "torch": "torch", "numpy": "NumPy"}
"""The versions on the page of contents, by their names in summary.json."""


def read_all(scale: str) -> dict[str, list[Plan]]:
    """Read the sweeps of every paper, by the papers' names."""
    files = shipped(SWEEPS)
    return {
        paper: [
            read_plan(path, scale) for name, path in files.items() if name.startswith(f"{paper}/")
        ]
        for paper in papers.PAPERS
    }


def together(plans: dict[str, list[Plan]], scale: str) -> Plan:
    """Combine all sweeps into one that has each run once: tables and figures share many."""
    runs = {run.name: run for group in plans.values() for plan in group for run in plan.runs}
    return Plan(Path("sweeps"), scale, f"all sweeps, {scale}", "", "", tuple(runs.values()))


def write_pages(
    plans: dict[str, list[Plan]], results: Results, folder: Path, command: str
) -> list[SweepPage]:
    """Write a page per paper, its figures and tables beside it, and a page of contents."""
    pages: dict[str, list[SweepPage]] = {}
    for paper, group in plans.items():
        pages[paper] = [
            make_page(plan, select(plan, results), folder / "figures" / paper) for plan in group
        ]
        title = f"# {paper}: {papers.title(paper)}\n\n[All results](README.md)\n\n"
        text = title + "\n".join(markdown_page(page, folder, level=2) for page in pages[paper])
        write_atomically(folder / f"{paper}.md", text.encode())
        for page in pages[paper]:
            write_csv(page, folder / "tables" / paper)
    write_atomically(folder / "README.md", contents(pages, command).encode())
    return [page for group in pages.values() for page in group]


def contents(pages: dict[str, list[SweepPage]], command: str) -> str:
    """Write the first page: what was run, by which command, and where each table and figure is."""
    runs = {
        run.planned.name: run for group in pages.values() for page in group for run in page.runs
    }
    done = [run for run in runs.values() if run.is_completed]
    versions = {
        word: sorted(
            {str(run.row[f"versions.{name}"]) for run in done if run.row.get(f"versions.{name}")}
        )
        for name, word in VERSIONS.items()
    }
    return render(
        "contents.md",
        HERE,
        pages=pages,
        command=command,
        titles={paper: papers.title(paper) for paper in pages},
        runs=runs,
        done=done,
        minutes=sum(run.figure("seconds") or 0.0 for run in done) / 60,
        anchor=_anchor,
        versions=[f"{word} {' and '.join(found)}" for word, found in versions.items() if found],
    )


def _anchor(title: str) -> str:
    """The fragment that GitHub gives a heading."""
    return "".join(
        letter for letter in title.lower() if letter.isalnum() or letter in " -_"
    ).replace(" ", "-")


@exit_status
def main(
    console: Console,
    scale: str,
    data: Path | None,
    results: Path | None,
    to: Path,
    cpus: int,
    gpus: float,
    address: str,
) -> int:
    """Make all runs, then the pages; the exit status, 0 all completed, 1 some failed, 2 wrong
    usage, 130 interrupted."""
    plans = read_all(scale)
    for plan in (plan for group in plans.values() for plan in group):
        check(plan)
    folder = (results or default_results()).resolve()
    resources = Resources(cpus, gpus, address)
    make_folder(to)
    failed = sweep(together(plans, scale), folder, data_places(data), resources, console)
    pages = write_pages(plans, Results(folder), to, f"curvfed paper --scale {scale} --data FOLDER")
    tables = sum(len(page.tables) for page in pages)
    figures = sum(len(page.drawn) for page in pages)
    console.print(f"{tables} tables and {figures} figures: {to / 'README.md'}", highlight=False)
    return int(failed > 0)

"""The papers' tables and figures from runs of our own: all shipped sweeps at one scale, then pages of them.

Runs that have completed are not repeated.
"""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from curvfed.deployments import papers
from curvfed.deployments.report.page import Part, check, make_folder, make_part, markdown_part, write_csv
from curvfed.deployments.report.selection import Run, select
from curvfed.deployments.shipped import SWEEPS, shipped
from curvfed.deployments.sweep.make import data_places, default_results, exit_status, sweep
from curvfed.deployments.sweep.plan import Plan, read_plan
from curvfed.deployments.sweep.results import Results
from curvfed.deployments.sweep.runner import Resources
from curvfed.tasks.atomic_file import write_atomically


def read_all(scale: str) -> dict[str, list[Plan]]:
    """The sweeps of every paper, by the papers' names."""
    files = shipped(SWEEPS)
    return {
        paper: [read_plan(path, scale) for name, path in files.items() if name.startswith(f"{paper}/")]
        for paper in papers.PAPERS
    }


def together(plans: dict[str, list[Plan]], scale: str) -> Plan:
    """All runs of all sweeps as one, each once: tables and figures share many."""
    runs = {run.name: run for group in plans.values() for plan in group for run in plan.runs}
    return Plan(Path("sweeps"), scale, f"all sweeps, {scale}", "", "", tuple(runs.values()))


def write_pages(plans: dict[str, list[Plan]], results: Results, folder: Path, command: str) -> list[Part]:
    """A page per paper, its figures and tables beside it, and a page of contents."""
    parts: dict[str, list[Part]] = {}
    for paper, group in plans.items():
        parts[paper] = [make_part(plan, select(plan, results), folder / "figures" / paper) for plan in group]
        title = f"# {paper}: {papers.title(paper)}\n\n[All results](README.md)\n\n"
        text = title + "\n".join(markdown_part(part, folder, level=2) for part in parts[paper])
        write_atomically(folder / f"{paper}.md", text.encode())
        for part in parts[paper]:
            list(write_csv(part, folder / "tables" / paper))
    write_atomically(folder / "README.md", contents(parts, command).encode())
    return [part for group in parts.values() for part in group]


def contents(parts: dict[str, list[Part]], command: str) -> str:
    """The first page: what was run, by what, and where each table and figure is."""
    runs = {run.planned.name: run for group in parts.values() for part in group for run in part.runs}
    done = [run for run in runs.values() if run.is_completed]
    lines = ["# The papers' tables and figures, from our own runs", "", f"Made by `{command}`.", ""]
    lines += [f"{len(done)} of {len(runs)} runs completed{_spent(done)}. {_versions(done)}", ""]
    for paper, group in parts.items():
        lines += [f"**[{paper}]({paper}.md)**: {papers.title(paper)}", ""]
        lines += [f"* [{part.plan.title}]({paper}.md#{_anchor(part.plan.title)}): {part.plan.source}" for part in group]
        lines += [""]
    return "\n".join(lines).rstrip() + "\n"


def _spent(done: Sequence[Run]) -> str:
    seconds = sum(run.figure("seconds") or 0.0 for run in done)
    return f", {seconds / 60:.0f} minutes in all if one after the other" if done else ""


def _versions(done: Sequence[Run]) -> str:
    """The versions that the runs were made with, all of them where they differ."""
    words = {
        "versions.python": "Python",
        "versions.flwr": "Flower",
        "versions.torch": "torch",
        "versions.numpy": "NumPy",
    }
    found = {word: sorted({str(run.row[key]) for run in done if run.row.get(key)}) for key, word in words.items()}
    told = [f"{word} {' and '.join(versions)}" for word, versions in found.items() if versions]
    return f"{', '.join(told)}." if told else ""


def _anchor(title: str) -> str:
    """The fragment that GitHub gives a heading."""
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -_")
    return kept.replace(" ", "-")


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
    """Make all runs, then the pages; the exit status, 0 all completed, 1 some failed, 2 wrong usage, 130 interrupted."""
    plans = read_all(scale)
    for plan in (plan for group in plans.values() for plan in group):
        check(plan)
    folder, resources = (results or default_results()).resolve(), Resources(cpus, gpus, address)
    make_folder(to)
    failed = sweep(together(plans, scale), folder, data_places(data), resources, console)
    parts = write_pages(plans, Results(folder), to, f"curvfed paper --scale {scale} --data FOLDER")
    tables, figures = sum(len(part.sheets) for part in parts), sum(len(part.drawn) for part in parts)
    console.print(f"{tables} tables and {figures} figures: {to / 'README.md'}", highlight=False)
    return int(failed > 0)

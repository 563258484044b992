"""A page for each paper, with the pictures and the main rows of each of its tables and figures, all
rows as CSV files; and a page of contents."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

# See comparison.py: the runs of a sweep and their rows in `results.sqlite`.
from curvfed.extensions.sweeps.commands.pages.study import Planned
from curvfed.extensions.sweeps.commands.sweep.results import Results
from curvfed.server_app.report.page import Cell, Page, Table
from curvfed.strategies.methods import METHODS
from studies.papers import PAPERS, printed_numbers
from studies.papers.comparison import Pair, compare, differences, match, write_csv
from studies.papers.figures.page import Study, make_page, read_study
from studies.papers.figures.table import Beside
from studies.papers.printed_numbers import Printed

SWEEPS = Path(__file__).parent / "sweeps"

LEGEND = """\
A part names the paper's table or figure, and the scale if not smoke; the
[sweep files](../../studies/papers/sweeps) have all settings, and differences from the paper. Tables show
main rows, and link to CSV files with all. Cells: mean ± standard deviation over seeds. Bold: the best of a column, or
of a row where rows are data sets. ↑ ↓: above or below the paper's method by a paired t-test, p < 0.05, uncorrected. In
brackets: the paper's number; two numbers differ if apart by more than both spreads.
"""
NOTES = {
    "spherefed": "At smoke scale: digits and two convolutions, so no number compares with the"
    " paper's. `spherefed` is scored with its calibrated classifier, unless a column says otherwise.",
    "hyperfed": "At smoke scale: digits, 3,000 images of MNIST and two convolutions, so no number"
    " compares with the paper's. SphereFed's global accuracy is with the calibrated classifier.",
    "hull": "CP and CE: Poincaré and Euclidean SVM on all"
    " points; CH: on hulls of all points; FLP, the global accuracy, and FLE: on the summed hulls.",
}
"""By paper, what holds for all of its page."""
USUAL_SCALE = "smoke"
SHORT = 6
"""Rows of a table that is shown whole."""
SHORT_OF_DATA = 4
"""The same for a table with neither FedAvg nor the paper's method, such as counts of data sets."""
BEST = 2
"""Best rows of a longer table that are shown."""

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
        parts = [_part(sweep, results, rows, folder) for sweep in sweeps if sweep.paper == paper]
        (folder / f"{paper}.md").write_text(page_of(paper, parts), encoding="utf-8")
    (folder / "README.md").write_text(contents(sweeps, rows, command), encoding="utf-8")


def page_of(paper: str, parts: Iterable[str]) -> str:
    """The page of a paper from the parts of its sweeps."""
    head = f"# {paper}: {printed_numbers.title(paper)}\n"
    note = " ".join(filter(None, ["[How to read this](README.md).", NOTES.get(paper)]))
    return "\n".join([head, f"{note}\n", *parts])


def _part(sweep: Sweep, results: Path, rows: Mapping[str, Mapping[str, Any]], folder: Path) -> str:
    """The part of a sweep, whose figures and tables are written into the folder."""
    plan = sweep.plan
    runs = Results(results).select(plan.runs)
    if not any(run.row for run in runs):
        return f"## {plan.title}\n\nNo run has been made.\n"
    printed = printed_numbers.read(sweep.paper, sweep.printed_table) if sweep.printed_table else []
    figures = folder / "figures" / sweep.paper
    tables = folder / "tables" / sweep.paper
    for place in (figures, tables):
        place.mkdir(parents=True, exist_ok=True)
    page = make_page(plan, runs, figures, beside(printed))
    for name, text in zip(csv_names(plan), page.csv, strict=True):
        (tables / name).write_text(text, encoding="utf-8")
    pairs = compare(printed, plan, rows)
    if any(pair.ours for pair in pairs):
        write_csv(pairs, tables / paper_csv(plan))
    return part_of(sweep, page, pairs)


def csv_names(plan: Study) -> list[str]:
    """The names of the CSV files of a sweep's tables."""
    stem = plan.path.stem
    if len(plan.tables) < 2:
        return [f"{stem}.csv"] * len(plan.tables)
    return [f"{stem}-{number}.csv" for number in range(1, len(plan.tables) + 1)]


def paper_csv(plan: Study) -> str:
    """The name of the CSV file of the paper's numbers with ours."""
    return f"{plan.path.stem}-paper.csv"


def beside(printed: Sequence[Printed]) -> Beside:
    """The paper's number in brackets for a cell of a table."""

    def number_of(run: Planned, keys: Sequence[str], figure: str) -> str:
        place = match(printed, run, keys, figure)
        if place is None:
            return ""
        number = printed[place]
        return str(Pair(number, None)) if number.scale == 100 else f"({number.value:g})"

    return number_of


def part_of(sweep: Sweep, page: Page, pairs: Sequence[Pair]) -> str:
    """The part of a sweep: its brief, notes, pictures, the main rows of its tables, links to all
    rows, and what differs from the paper."""
    plan = sweep.plan
    place = plan.source.removeprefix(f"{sweep.paper}, ")
    scale = "" if plan.scale == USUAL_SCALE else f", scale {plan.scale}"
    lines = [f"## {plan.title}", "", " ".join([f"{place}{scale}.", *page.words])]
    lines += ["", *(f"* {note}" for note in page.notes)] if page.notes else []
    for picture in page.pictures:
        file = f"figures/{sweep.paper}/{picture.files[0].name}"
        lines += ["", f"![{picture.caption.removesuffix('.')}]({file})"]
    folder = f"tables/{sweep.paper}"
    ending = differences(pairs)
    more = []
    for number, (name, table) in enumerate(zip(csv_names(plan), page.tables, strict=True)):
        link = f"[{table.title or 'All rows'}]({folder}/{name})"
        if number:
            more.append(f"Also: {link}.")
        else:
            lines += ["", f"{link}. {table.legend}", "", *_table_lines(table, sweep.paper)]
    if ending:
        more.append(f"[The paper's numbers]({folder}/{paper_csv(plan)}): {ending}")
    lines += ["", " ".join(more)] if more else []
    return "\n".join(lines) + "\n"


def _table_lines(table: Table, paper: str) -> list[str]:
    """The main rows of a table."""
    columns = [*table.heads, *table.columns]
    rule = [*["---"] * len(table.heads), *["---:"] * len(table.columns)]
    lines = [f"| {' | '.join(row)} |" for row in (columns, rule)]
    for names, cells in main_rows(table, paper):
        shown = [f"`{name}`" if name in METHODS else name for name in names]
        lines.append(f"| {' | '.join([*shown, *map(_cell_text, cells)])} |")
    return lines


def _cell_text(cell: Cell) -> str:
    text = f"**{cell.text}**" if cell.is_best else cell.text
    return f"{text} {cell.hint}".strip()


def main_rows(table: Table, paper: str) -> list[tuple[Sequence[str], Sequence[Cell]]]:
    """The rows with a figure of ours: all of a short table, else FedAvg, the paper's method and the
    best ones, or the first, the last and the best of a table that has neither."""
    made = [row for row in table.rows if any(cell.text for cell in row[1])]
    wanted = [next((row for row in made if method in row[0]), None) for method in ("fedavg", paper)]
    has_methods = wanted != [None, None]
    if len(made) <= (SHORT if has_methods else SHORT_OF_DATA):
        return made
    if not has_methods:
        wanted = [made[0], made[-1]]
    best = [row for row in made if any(cell.is_best for cell in row[1]) and row not in wanted]
    wanted += best[:BEST]
    return [row for row in made if row in wanted]


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
    lines += ["", LEGEND]
    for paper in PAPERS:
        number = sum(sweep.paper == paper for sweep in sweeps)
        if number:
            lines.append(f"* [{paper}]({paper}.md): {number} tables and figures")
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

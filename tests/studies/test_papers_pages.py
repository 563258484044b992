"""The papers' pages: main rows with both numbers, all rows as CSV, and what differs."""

import csv

import pytest

from curvfed.extensions.sweeps.commands.pages.selection import Run
from curvfed.server_app.report.page import Cell, Table
from studies.papers import PAPERS, pages, printed_numbers
from studies.papers.comparison import compare
from studies.papers.figures.page import make_page, read_study
from studies.papers.pages import Sweep, beside, main_rows, page_of, part_of, sweep_files

FIGURE = "best_validation.personal_accuracy_mean"
SWEEP = """
title = "Nodes"
source = "flatland, Table 1"
brief = "What is shown."
about = "All settings."
[scales.smoke.settings]
method = ["local", "fedavg", "fedprox", "fedper", "gcfl", "fedgnn", "flatland"]
dataset = "cora"
num-supernodes = 10
seed = [0, 1]
[[tables]]
title = "Accuracy"
rows = "method"
columns = ["dataset", "num-supernodes"]
figures = "best_validation.personal_accuracy_mean"
names = {cora = "Cora"}
[[tables]]
title = "Again"
rows = "method"
figures = "best_validation.personal_accuracy_mean"
"""
SCORES = {
    "local": 0.5,
    "fedavg": 0.692,
    "fedprox": 0.6,
    "fedper": 0.9,
    "gcfl": 0.7,
    "fedgnn": 0.7,
    "flatland": 0.8046,
}


@pytest.fixture
def part(tmp_path):
    """The part of a sweep of FlatLand's Table 1, all of whose runs have completed."""
    file = tmp_path / "table-01.toml"
    file.write_text(SWEEP)
    plan = read_study(file, "smoke")
    sweep = Sweep("flatland", plan)
    rows = {run.name: {FIGURE: SCORES[run.value("method")]} for run in plan.runs}
    complete = {"status": "completed", "error": ""}
    runs = [Run(run, rows[run.name] | complete, tmp_path) for run in plan.runs]
    printed = printed_numbers.read("flatland", sweep.printed_table)
    page = make_page(plan, runs, tmp_path, beside(printed))
    return part_of(sweep, page, compare(printed, plan, rows))


def test_a_part_has_its_brief_main_rows_with_both_numbers_and_links_to_all(part):
    assert part.startswith("## Nodes\n\nTable 1. What is shown.\n\n[Accuracy](")
    assert "[Accuracy](tables/flatland/table-01-1.csv). Cells: " in part
    assert ", 2 seeds.\n\n| method | Cora, 10 clients |\n| --- | ---: |\n" in part
    rows = [line for line in part.splitlines() if line.startswith("| `")]
    assert rows == [
        "| `fedavg` | 69.2 ± 0.0 (69.2 ± 0.7) |",
        "| `fedper` | **90.0 ± 0.0** (79.3 ± 0.0) |",
        "| `flatland` | 80.5 ± 0.0 (80.5 ± 0.3) |",
    ]
    assert "Also: [Again](tables/flatland/table-01-2.csv)." in part
    ending = "[The paper's numbers](tables/flatland/table-01-paper.csv): 3 of 7 numbers differ;"
    assert ending in part
    assert "Local (E), cora, 10 clients: 50.0 ± 0.0 (79.9 ± 0.2);" in part


def test_a_table_without_methods_shows_the_first_the_last_and_the_best():
    scores = ["1", "2", "9", "3", "4", "5", "6", "7", ""]
    rows = [([str(number)], [Cell(score, score == "9")]) for number, score in enumerate(scores)]
    table = Table("", ["dimension"], ["score"], rows)
    assert [names for names, _ in main_rows(table, "hyperfed")] == [["0"], ["2"], ["7"]]
    short = Table("", ["dimension"], ["score"], rows[:4])
    assert main_rows(short, "hyperfed") == rows[:4]


def test_every_sweep_has_a_brief_and_the_page_of_its_paper_its_part():
    for name, path in sweep_files().items():
        scale = "mnist" if path.stem == "table-03-controls" else "smoke"
        plan = read_study(path, scale)
        page = (pages.SWEEPS.parents[2] / "docs" / "results" / f"{path.parent.name}.md").read_text()
        assert plan.brief, name
        assert f"\n## {plan.title}\n\n" in page
        assert f". {plan.brief}\n" in page or f", scale {scale}. {plan.brief}\n" in page
        for table in pages.csv_names(plan):
            assert f"(tables/{path.parent.name}/{table})" in page


@pytest.mark.parametrize("paper", PAPERS)
def test_a_page_names_its_paper_and_how_to_read_it(paper):
    text = page_of(paper, ["## A part\n"])
    assert text.startswith(
        f"# {paper}: {printed_numbers.title(paper)}\n\n[How to read this](README.md)."
    )
    assert text.endswith("\n\n## A part\n")


def test_the_tables_of_the_committed_page_are_those_of_its_files():
    """The main rows of FlatLand's Table 1 have the means of the CSV file."""
    folder = pages.SWEEPS.parents[2] / "docs" / "results"
    text = (folder / "flatland.md").read_text(encoding="utf-8")
    with (folder / "tables" / "flatland" / "table-01-1.csv").open(newline="") as file:
        rows = {(row["method"], row["num-supernodes"]): row for row in csv.DictReader(file)}
    for method in ("fedavg", "fed-pub", "flatland"):
        row = rows[method, "10"]
        shown = f"{float(row['mean']):.1f} ± {float(row['std']):.1f}"
        printed = f"({float(row['paper']):.1f} ± {float(row['paper_std']):.1f})"
        part = text.split("\n## Nodes of homophilous graphs\n")[1].split("\n## ")[0]
        (line,) = [line for line in part.splitlines() if line.startswith(f"| `{method}` |")]
        assert shown in line
        assert printed in line

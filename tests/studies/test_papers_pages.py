"""The papers' pages: main rows with both numbers, all rows as CSV, and what differs."""

import csv

from curvfed.server_app.report.page import Cell, Table
from studies.papers import pages
from studies.papers.figures.page import read_study
from studies.papers.pages import main_rows, sweep_files

SCALES = {"hyperfed/table-03-controls": "mnist", "flatland/figure-06": "paper"}
"""The scales of the committed pages, by sweep, where it is not smoke."""


def test_a_table_without_methods_shows_the_first_the_last_and_the_best():
    scores = ["1", "2", "9", "3", "4", "5", "6", "7", ""]
    rows = [([str(number)], [Cell(score, score == "9")]) for number, score in enumerate(scores)]
    table = Table("", ["dimension"], ["score"], rows)
    assert [names for names, _ in main_rows(table, "hyperfed")] == [["0"], ["2"], ["7"]]
    short = Table("", ["dimension"], ["score"], rows[:4])
    assert main_rows(short, "hyperfed") == rows[:4]


def test_every_sweep_has_a_brief_and_the_page_of_its_paper_its_part():
    for name, path in sweep_files().items():
        scale = SCALES.get(name, "smoke")
        plan = read_study(path, scale)
        page = (pages.SWEEPS.parents[2] / "docs" / "results" / f"{path.parent.name}.md").read_text()
        assert plan.brief, name
        assert f"\n## {plan.title}\n\n" in page
        assert f". {plan.brief}\n" in page or f", scale {scale}. {plan.brief}\n" in page
        for table in pages.csv_names(plan):
            assert f"(tables/{path.parent.name}/{table})" in page


def test_the_tables_of_the_committed_page_are_those_of_its_files():
    """The main rows of FlatLand's Table 1 have the means of the CSV files, and the paper's."""
    folder = pages.SWEEPS.parents[2] / "docs" / "results"
    tables = folder / "tables" / "flatland"
    text = (folder / "flatland.md").read_text(encoding="utf-8")
    part = text.split("\n## Nodes of homophilous graphs\n")[1].split("\n## ")[0]
    with (tables / "table-01-1.csv").open(newline="") as file:
        keys = ("method", "dataset", "num-supernodes")
        ours = {tuple(row[key] for key in keys): row for row in csv.DictReader(file)}
    with (tables / "table-01-paper.csv").open(newline="") as file:
        theirs = {(row["row"], row["column"]): row for row in csv.DictReader(file)}
    for method, name in (("fedavg", "FedAvg"), ("flatland", "FlatLand (Ours)")):
        (line,) = [line for line in part.splitlines() if line.startswith(f"| `{method}` |")]
        for dataset in ("cora", "citeseer"):
            row = ours[method, dataset, "10"]
            assert f"{float(row['mean']):.1f} ± {float(row['std']):.1f}" in line
            printed = theirs[name, f"{dataset}, 10 clients"]
            assert f"({float(printed['paper']):.1f} ± {float(printed['paper_std']):.1f})" in line

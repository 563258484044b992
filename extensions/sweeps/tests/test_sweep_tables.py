"""The table of a sweep against an independent calculation: means, spreads, the best, differences."""

import csv
import io
import itertools
import re
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from report_page import HOSTILE, Page
from rich.console import Console
from scipy import stats

from curvfed.deployments.commands.command import main
from curvfed.extensions.sweeps.commands.compare.printed import print_table
from curvfed.extensions.sweeps.commands.pages.selection import Run, varying_keys
from curvfed.extensions.sweeps.commands.pages.study import Planned, data_keys
from curvfed.extensions.sweeps.commands.pages.sweep_table import (
    SweepTable,
    as_text,
    csv_text,
    make_table,
)
from curvfed.extensions.sweeps.commands.pages.texts import latex, markdown
from curvfed.extensions.sweeps.commands.sweep import read_plan
from curvfed.extensions.sweeps.commands.sweep.results import Results
from curvfed.server_app.report.page import Cell, Table
from curvfed.strategies.config.run_config import defaults

METHODS = ("local", "fedavg", "flatland")
CLIENTS = (10, 20)
SEEDS = (0, 1, 2, 3)
FIGURE = "best_validation.personal_accuracy_mean"
Values = dict[tuple[str, int, int], Any]


def run_of(settings: dict[str, Any], **figures: Any) -> Run:
    """A completed run."""
    row = {"status": "completed", "error": ""} | figures
    return Run(Planned(settings, "run"), row, Path("nowhere"))


def runs_of(values: Values, **extra: Any) -> list[Run]:
    """Runs on Cora with figures by method, clients and seed; None is a failed one."""
    runs = []
    for method, clients, seed in itertools.product(METHODS, CLIENTS, SEEDS):
        settings = {"method": method, "dataset": "cora", "num-supernodes": clients, "seed": seed}
        value = values.get((method, clients, seed))
        run = run_of(settings | extra, **{FIGURE: value})
        if value is None:
            is_made = (method, clients, seed) in values
            row = {"status": "failed", "error": "out of memory"} if is_made else {}
            run = Run(run.planned, row, run.folder)
        runs.append(run)
    return runs


@pytest.fixture
def values() -> Values:
    generator = np.random.default_rng(7)
    level = {"local": 0.70, "fedavg": 0.72, "flatland": 0.80}
    return {
        (method, clients, seed): level[method] + 0.02 * generator.normal()
        for method, clients, seed in itertools.product(METHODS, CLIENTS, SEEDS)
    }


def rows_of(table: SweepTable) -> dict[tuple[str, int], dict[str, str]]:
    """The rows of a table's CSV with the personal accuracy."""
    return {
        (row["method"], int(row["num-supernodes"])): row
        for row in csv.DictReader(io.StringIO(csv_text(table.cells, table.keys)))
        if row["figure"] == FIGURE
    }


def cells_of(table: SweepTable) -> dict[tuple[str, ...], list[str]]:
    """The texts of the cells by the names of their row."""
    return {tuple(names): [cell.text for cell in cells] for names, cells in as_text(table).rows}


def test_means_spreads_and_differences_are_numpys_and_scipys(values):
    table = rows_of(make_table(runs_of(values), "fedavg"))
    assert set(table) == set(itertools.product(METHODS, CLIENTS))
    for (method, clients), row in table.items():
        ours = 100 * np.array([values[method, clients, seed] for seed in SEEDS])
        reference = 100 * np.array([values["fedavg", clients, seed] for seed in SEEDS])
        assert float(row["mean"]) == pytest.approx(ours.mean(), abs=1e-11)
        assert float(row["std"]) == pytest.approx(ours.std(ddof=1), abs=1e-11)
        best = max(np.mean([values[name, clients, seed] for seed in SEEDS]) for name in METHODS)
        assert bool(int(row["best"])) == (np.isclose(ours.mean(), 100 * best))
        if method == "fedavg":
            assert row["p"] == row["low"] == ""
        else:
            test = stats.ttest_rel(ours, reference)
            ends = [float(row["low"]), float(row["high"])]
            assert ends == pytest.approx([*test.confidence_interval(0.95)], abs=1e-10)
            assert float(row["p"]) == pytest.approx(test.pvalue, rel=1e-9)
            assert float(row["difference"]) == pytest.approx((ours - reference).mean(), abs=1e-11)
            assert row["pairs"] == "4"
        assert row["seeds"] == "0 1 2 3"
        assert row["not_made"] == "0"
        assert row["failed"] == ""


def test_cells_have_the_difference_with_its_interval(values):
    table = make_table(runs_of(values), "fedavg")
    row = rows_of(table)["flatland", 10]
    numbers = {name: float(row[name]) for name in ("mean", "std", "difference", "low", "high")}
    text = "{mean:.1f} ± {std:.1f} (+{difference:.1f}, {low:.1f} to {high:.1f})"
    assert cells_of(table)["flatland", "10"][0] == text.format(**numbers).replace("-", "−")
    assert "with its 95% interval" in as_text(table).legend


def test_cells_of_two_seeds_have_the_difference_alone(values):
    two = {place: value for place, value in values.items() if place[2] in SEEDS[:2]}
    table = make_table(runs_of(two), "fedavg")
    row = rows_of(table)["flatland", 10]
    assert (row["low"], row["high"], row["p"], row["pairs"]) == ("", "", "", "2")
    (text,) = re.findall(r"\((.*?)\)", cells_of(table)["flatland", "10"][0])
    assert text == f"+{float(row['difference']):.1f}"
    assert "interval" not in as_text(table).legend


@pytest.mark.parametrize("key", ["links.closure", "images.pooled", "points.classes", "test-size"])
def test_runs_on_different_data_are_not_ranked_against_each_other(key):
    scores = (("a", "x", 0.9), ("b", "x", 0.8), ("a", "y", 0.1), ("b", "y", 0.2))
    runs = [
        run_of({"method": method, key: value, "seed": 0}, global_accuracy=score)
        for method, value, score in scores
    ]
    cells = make_table(runs, "").cells
    best = cells[cells["best"] & (cells["figure"] == "global_accuracy")]
    assert [*zip(best["method"], best[key], strict=True)] == [("a", "x"), ("b", "y")]


def test_data_keys_exist():
    assert set(data_keys()) <= {"num-supernodes", *defaults()}


def test_a_key_in_which_only_others_vary_pairs_them_all():
    settings = [{"method": "fedavg"}, {"method": "flatland"}]
    settings.append({"method": "flatland", "flatland.gate": False})
    runs = [
        run_of(setting | {"seed": seed}, global_accuracy=0.5 + 0.1 * number + 0.01 * seed)
        for number, setting in enumerate(settings)
        for seed in (0, 1)
    ]
    table = make_table(runs, "fedavg")
    assert table.keys == ["method", "flatland.gate"]
    accuracy = table.cells[table.cells["figure"] == "global_accuracy"]
    assert accuracy["difference"].tolist()[1:] == pytest.approx([10, 20])


def test_a_row_leaves_a_key_empty_that_its_method_does_not_read(tmp_path):
    """On the page and in its CSV; its runs with other values of the key are one row."""
    path = tmp_path / "margins.toml"
    path.write_text(
        "[settings]\n"
        'method = ["fedavg", "hyperfed"]\n'
        'dataset = "digits"\n'
        "seed = [0, 1]\n"
        "hyperfed.margin = [0.1, 0.2]\n"
    )
    runs = [
        Run(planned, {"status": "completed", "error": "", "global_accuracy": 0.5}, tmp_path)
        for planned in read_plan(path).runs
    ]
    table = make_table(runs, "fedavg")
    assert table.keys == ["method", "hyperfed.margin"]
    margins = [("fedavg", ""), ("hyperfed", "0.1"), ("hyperfed", "0.2")]
    assert list(cells_of(table)) == margins
    rows = [
        row
        for row in csv.DictReader(io.StringIO(csv_text(table.cells, table.keys)))
        if row["figure"] == "global_accuracy"
    ]
    assert [(row["method"], row["hyperfed.margin"]) for row in rows] == margins
    assert [row["seeds"] for row in rows] == ["0 1"] * 3
    assert [row["pairs"] for row in rows] == ["", "2", "2"]


def test_rows_are_the_keys_that_vary_and_do_not_follow_from_method_and_data():
    cora = {"dataset": "cora", "num-rounds": 100, "local-epochs": 1}
    trees = {"dataset": "trees", "num-rounds": 30, "local-epochs": 1}
    settings = [cora | {"method": "fedavg"}, trees | {"method": "fedavg"}]
    settings.append(cora | {"method": "flatland", "flatland.gate": False})
    settings.append(cora | {"method": "flatland"})
    runs = [run_of(setting | {"seed": seed}) for setting in settings for seed in (0, 1)]
    assert varying_keys(runs) == ["dataset", "method", "flatland.gate"]
    assert varying_keys(runs[:2]) == ["method"]


def test_columns_are_the_scores_of_the_task_and_the_bytes():
    nodes = {"best_validation.metrics.roc_auc": 0.8, FIGURE: 0.9, "personal_accuracy_mean": 0.9}
    images = {"global_accuracy": 0.7, "personal_accuracy_mean": 0.75, "bytes_up": 1e6}
    runs = [
        run_of({"method": "fedavg", "dataset": "minesweeper", "seed": 0}, **nodes),
        run_of({"method": "fedavg", "dataset": "digits", "seed": 0}, **images),
        Run(Planned({"method": "fedavg", "dataset": "trees", "seed": 0}, "run"), {}, Path("no")),
    ]
    table = make_table(runs)
    assert list(dict.fromkeys(table.cells["figure"])) == [
        "best_validation.metrics.roc_auc",
        "personal_accuracy_mean",
        "global_accuracy",
        "bytes_up",
        "bytes_down",
    ]
    assert cells_of(table)["digits",] == ["–", "75.0", "70.0", "1000.0", "–"]
    assert cells_of(table)["trees",] == [""] * 5


def test_bold_are_the_best_on_the_same_data_alone(values):
    table = make_table(runs_of(values))
    best = table.cells[table.cells["best"]]
    assert best[["num-supernodes", "method"]].values.tolist() == [
        [10, "flatland"],
        [20, "flatland"],
    ]
    alone = [run for run in runs_of(values) if run.value("method") == "local"]
    assert not make_table(alone).cells["best"].any()


def test_the_best_of_costs_is_the_least():
    runs = [
        run_of({"method": method}, bytes_up=1e6 * size, global_accuracy=size)
        for method, size in (("fedavg", 0.9), ("fedper", 0.5))
    ]
    cells: pd.DataFrame = make_table(runs).cells
    best = dict(cells[cells["best"]][["figure", "method"]].values.tolist())
    assert best == {"bytes_up": "fedper", "global_accuracy": "fedavg"}


def test_all_that_print_as_the_best_are_bold(values):
    for seed in SEEDS:
        values["local", 10, seed] = 0.90001
        values["flatland", 10, seed] = 0.9
    lines = markdown(as_text(make_table(runs_of(values)))).splitlines()
    bold = [line.split("|")[1].strip(" `") for line in lines if "**90.0 ± 0.0" in line]
    assert bold == ["local", "flatland"]


def test_failed_runs_and_missing_values_are_said(values):
    values["local", 10, 0] = None
    del values["fedavg", 20, 1]
    cells = cells_of(make_table(runs_of(values)))
    assert cells["local", "10"][0].endswith(" n = 3, 1 failed")
    assert cells["fedavg", "20"][0].endswith(" n = 3")
    assert cells["flatland", "10"][0].endswith(" n = 4")


def test_hostile_words_stay_words(values, tmp_path):
    runs = [*runs_of(values), *runs_of(values, model=HOSTILE)]
    path = tmp_path / "page.html"
    path.write_text(as_text(make_table(runs)).html)
    shown = Page(path)
    assert "script" not in shown.tags
    assert HOSTILE in shown.text


def test_the_command_writes_all_formats_and_says_what_is_missing(tmp_path, capsys):
    file = tmp_path / "it.toml"
    file.write_text(
        'title = "Two methods"\nabout = "In words."\n[settings]\nmethod = ["fedavg",'
        ' "local"]\ndataset = "trees"\nseed = [0, 1]\n'
    )
    report = ["report", str(file), "--results"]
    assert main([*report, str(tmp_path / "none"), "--to", str(tmp_path / "out")]) == 2
    assert "no run of" in capsys.readouterr().err
    plan = read_plan(file)
    results = Results(tmp_path)
    for run in plan.runs[:3]:
        results.record(run, "" if run.value("method") == "fedavg" else "out of memory")
    report.append(str(tmp_path))
    assert main([*report, "--to", str(tmp_path / "out")]) == 0
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files == {"it.md", "it.html", "it.tex", "it.csv"}
    text = (tmp_path / "out" / "it.md").read_text()
    assert "1 of 4 runs has not been made." in text
    assert "out of memory" in text
    assert "In words." in text
    assert main([*report, "--formats", "docx"]) == 2
    capsys.readouterr()
    assert main([*report, "--against", "flatland"]) == 2
    assert "has no run of 'flatland'; it has fedavg, local" in capsys.readouterr().err
    assert main([*report, "--to", str(file / "out")]) == 2
    assert "cannot be made" in capsys.readouterr().err


def test_runs_that_fail_alike_share_a_sentence(tmp_path):
    file = tmp_path / "it.toml"
    file.write_text(
        '[settings]\nmethod = ["fedavg", "local"]\ndataset = "trees"\nseed = [0, 1, 2, 3, 4]\n'
    )
    plan = read_plan(file)
    results = Results(tmp_path)
    for run in plan.runs:
        results.record(run, "" if run.value("method") == "local" else "out of memory")
    report = ["report", str(file), "--results", str(tmp_path), "--to", str(tmp_path / "out")]
    assert main([*report, "--formats", "md"]) == 0
    text = (tmp_path / "out" / "it.md").read_text()
    assert text.count("out of memory") == 1
    names = [run.name for run in plan.runs if run.value("method") == "fedavg"]
    assert f"5 of 10 runs failed: {', '.join(names[:3])} and 2 more: out of memory" in text


def test_a_column_that_is_equal_in_all_rows_is_named_once_in_every_language():
    rows = [(["0"], [Cell("8"), Cell("1")]), (["1"], [Cell("9"), Cell("1")])]
    table = Table("", ["client"], ["nodes", "graphs"], rows, "Clients.", optional=["graphs"])
    for text in (markdown(table), latex(table)):
        assert text.count("graphs") == 1
        assert "graphs: 1" in text


@pytest.mark.parametrize("width", [60, 80, 400])
def test_figures_are_whole_at_every_width_of_a_terminal(width):
    """A table that is too wide for its terminal had empty columns."""
    heads = [f"head {number} of a column" for number in range(12)]
    cells = [Cell(f"{number}.5 ± 1.2") for number in range(12)]
    table = Table("", ("method",), heads, [(["links at 0", "links.bias=true"], cells)])
    console = Console(file=StringIO(), force_terminal=True, color_system=None, width=width)
    print_table(table, console)
    printed = console.file.getvalue()
    assert all(cell.text in printed for cell in cells)
    assert all(head in printed for head in heads)
    assert max(map(len, printed.splitlines())) <= width


def test_a_narrow_list_leaves_empty_figures_out():
    table = Table(
        "", ("method",), ["score", "difference"], [(["tails", ""], [Cell("1"), Cell("–")])]
    )
    console = Console(file=StringIO(), force_terminal=True, color_system=None, width=12)
    print_table(table, console)
    assert console.file.getvalue().split() == ["tails", "score:", "1"]


def test_the_legend_has_the_fewest_test_examples_of_a_score(values):
    examples = "best_validation.metrics.personal_examples"
    runs = [run_of({"method": "local", "seed": seed}, **{FIGURE: 0.5}) for seed in SEEDS]
    assert "test example" not in as_text(make_table(runs)).legend
    for number, run in zip((1300, 40, 60, 90), runs, strict=True):
        run.row[examples] = number
    assert "A score of a run is of 40 test examples or more." in as_text(make_table(runs)).legend

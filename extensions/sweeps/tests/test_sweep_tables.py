"""Tables of sweeps against an independent calculation: means, spreads, the best, paired tests."""

import csv
import io
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_page import HOSTILE, Page
from scipy import stats

from curvfed.deployments.commands.command import main
from curvfed.extensions.sweeps.commands.pages.selection import Run
from curvfed.extensions.sweeps.commands.pages.study import Planned
from curvfed.extensions.sweeps.commands.pages.sweep_table import (
    SweepTable,
    as_text,
    csv_text,
    make_table,
)
from curvfed.extensions.sweeps.commands.sweep import read_plan
from curvfed.extensions.sweeps.commands.sweep.results import Results
from curvfed.strategies.errors import ConfigError

METHODS = ("local", "fedavg", "flatland")
CLIENTS = (10, 20)
SEEDS = (0, 1, 2, 3)
FIGURE = "best_validation.personal_accuracy_mean"
SPEC = {
    "title": "Cora",
    "rows": "method",
    "columns": "num-supernodes",
    "figures": FIGURE,
    "against": "fedavg",
}


def runs_of(values: dict[tuple[str, int, int], Any], **more: Any) -> list[Run]:
    """Runs on Cora whose figure is given by method, clients and seed; None for one that failed,
    absent ones not made."""
    runs = []
    for method, clients, seed in itertools.product(METHODS, CLIENTS, SEEDS):
        settings = {
            "method": method,
            "dataset": "cora",
            "num-supernodes": clients,
            "seed": seed,
        } | more
        row: dict[str, Any] = {}
        if (method, clients, seed) in values:
            value = values[method, clients, seed]
            failed = value is None
            row = {
                "status": "failed" if failed else "completed",
                "error": "out of memory" if failed else "",
            }
            row |= {} if failed else {FIGURE: value}
        runs.append(Run(Planned(settings, f"{method}-{clients}-{seed}"), row, Path("nowhere")))
    return runs


@pytest.fixture
def values() -> dict[tuple[str, int, int], Any]:
    generator = np.random.default_rng(7)
    level = {"local": 0.70, "fedavg": 0.72, "flatland": 0.80}
    return {
        (method, clients, seed): level[method] + 0.02 * generator.normal()
        for method, clients, seed in itertools.product(METHODS, CLIENTS, SEEDS)
    }


def read_csv(text: str) -> dict[tuple[str, int], dict[str, str]]:
    return {
        (row["method"], int(row["num-supernodes"])): row
        for row in csv.DictReader(io.StringIO(text))
    }


def test_means_spreads_and_tests_are_numpys_and_scipys(values):
    table = read_csv(csv_text(make_table(SPEC, runs_of(values), "here")))
    assert set(table) == set(itertools.product(METHODS, CLIENTS))
    for (method, clients), row in table.items():
        ours = 100 * np.array([values[method, clients, seed] for seed in SEEDS])
        other = 100 * np.array([values["fedavg", clients, seed] for seed in SEEDS])
        assert float(row["mean"]) == pytest.approx(ours.mean(), abs=1e-11)
        assert float(row["std"]) == pytest.approx(ours.std(ddof=1), abs=1e-11)
        best = max(np.mean([values[one, clients, seed] for seed in SEEDS]) for one in METHODS)
        assert bool(int(row["best"])) == (np.isclose(ours.mean(), 100 * best))
        if method == "fedavg":
            assert row["p"] == ""
        else:
            assert float(row["p"]) == pytest.approx(stats.ttest_rel(ours, other).pvalue, rel=1e-9)
            assert float(row["difference"]) == pytest.approx((ours - other).mean(), abs=1e-11)
            assert row["pairs"] == "4"
        assert (row["seeds"], row["not_made"], row["failed"]) == ("0 1 2 3", "0", "")


def best_of(table: SweepTable) -> pd.DataFrame:
    return table.cells[table.cells["best"]]


def test_bold_are_the_best_on_the_same_data_alone(values):
    across = make_table(
        SPEC | {"rows": "num-supernodes", "columns": "method"}, runs_of(values), "here"
    )
    assert best_of(across)[["num-supernodes", "method"]].values.tolist() == [
        [10, "flatland"],
        [20, "flatland"],
    ]
    assert "Bold: the best of a row, on the same data." in as_text(across).markdown
    split = make_table(
        SPEC | {"rows": ["num-supernodes", "method"], "columns": []}, runs_of(values), "here"
    )
    assert best_of(split)[["num-supernodes", "method"]].values.tolist() == [
        [10, "flatland"],
        [20, "flatland"],
    ]
    assert "Bold: the best of a column, on the same data." in as_text(split).markdown
    of_data = SPEC | {
        "rows": "num-supernodes",
        "columns": [],
        "where": {"method": "local"},
        "against": "",
    }
    assert best_of(make_table(of_data, runs_of(values), "here")).empty


def test_the_best_of_costs_is_the_least_unless_the_table_says_otherwise():
    runs = [
        Run(
            Planned({"method": method}, method),
            {"status": "completed", "bytes_up": size, "global_accuracy": size},
            Path("nowhere"),
        )
        for method, size in (("fedavg", 0.9), ("fedper", 0.5))
    ]

    def best(**more: Any) -> dict[str, str]:
        spec = {"rows": "method", "figures": ["bytes_up", "global_accuracy"]} | more
        return dict(
            best_of(make_table(spec, [*runs], "here"))[["figure", "method"]].values.tolist()
        )

    runs = [
        Run(run.planned, run.row | {"bytes_up": 1e6 * run.row["bytes_up"]}, run.folder)
        for run in runs
    ]
    assert best() == {"bytes_up": "fedper", "global_accuracy": "fedavg"}
    assert best(lowest=True) == {"bytes_up": "fedper", "global_accuracy": "fedper"}
    assert best(lowest=False) == {"bytes_up": "fedavg", "global_accuracy": "fedavg"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"colums": "seed"}, "'colums' is not known"),
        ({"rows": "methods"}, "'methods' is not a key"),
        ({"columns": ["num-supernode"]}, "'num-supernode' is not a key"),
        ({"figures": []}, "needs rows and figures"),
        ({"where": {"method": "hull"}}, "no run of the sweep has"),
        ({"where": "cora"}, "where = 'cora'; allowed is a table"),
        ({"names": ["cora"]}, "names = ['cora']; allowed is a table"),
        ({"against": "fedavgg"}, "no run of it; allowed is one of local, fedavg, flatland"),
        ({"columns": []}, "differ in num-supernodes (10, 20)"),
    ],
)
def test_a_spec_that_cannot_be_followed_is_refused_by_name(values, change, words):
    with pytest.raises(ConfigError) as refusal:
        make_table(SPEC | change, runs_of(values), "sweeps/it.toml")
    assert words in str(refusal.value)
    assert str(refusal.value).startswith("sweeps/it.toml")


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=6))
def test_the_paired_test_is_scipys_whatever_the_numbers(pairs):
    values = {("flatland", 10, seed): ours for seed, (ours, _) in enumerate(pairs)}
    values |= {("fedavg", 10, seed): theirs for seed, (_, theirs) in enumerate(pairs)}
    runs = [
        Run(
            Planned(
                {"method": method, "dataset": "cora", "num-supernodes": clients, "seed": seed},
                f"{method}-{seed}",
            ),
            {"status": "completed", FIGURE: value},
            Path("nowhere"),
        )
        for (method, clients, seed), value in values.items()
    ]
    made = make_table(SPEC, runs, "here")
    paired = made.cells.set_index("method").loc["flatland"]
    differences_ = np.array([100 * (ours - theirs) for ours, theirs in pairs])
    assert paired["difference"] == pytest.approx(differences_.mean(), abs=1e-9)
    if differences_.std() > 1e-6:
        assert paired["p"] == pytest.approx(
            stats.ttest_1samp(differences_, 0).pvalue, rel=1e-5, abs=1e-12
        )
    else:
        assert paired["p"] in (0.0, 1.0) or math.isfinite(paired["p"])


def test_hostile_words_stay_words(values, tmp_path):
    made = make_table(
        SPEC | {"title": HOSTILE, "words": HOSTILE, "names": {"local": HOSTILE}},
        runs_of(values),
        "here",
    )
    path = tmp_path / "page.html"
    path.write_text(as_text(made).html)
    shown = Page(path)
    assert "script" not in shown.tags
    assert HOSTILE in shown.text


def test_the_command_writes_all_formats_and_says_what_is_missing(tmp_path, capsys):
    file = tmp_path / "it.toml"
    file.write_text(
        'title = "Two methods"\nabout = "In words."\n[settings]\nmethod = ["fedavg",'
        ' "local"]\ndataset = "trees"\nseed = [0, 1]\n[[tables]]\nrows = "method"\nfigures ='
        ' ["global_accuracy", "bytes_up"]\n'
    )
    assert (
        main(
            [
                "report",
                str(file),
                "--results",
                str(tmp_path / "none"),
                "--to",
                str(tmp_path / "out"),
            ]
        )
        == 2
    )
    assert "no run of" in capsys.readouterr().err
    plan = read_plan(file)
    results = Results(tmp_path)
    for run in plan.runs[:3]:
        results.record(run, "" if run.value("method") == "fedavg" else "out of memory")
    assert (
        main(["report", str(file), "--results", str(tmp_path), "--to", str(tmp_path / "out")]) == 0
    )
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "it.md",
        "it.html",
        "it.tex",
        "it.csv",
    }
    text = (tmp_path / "out" / "it.md").read_text()
    assert "1 of 4 runs have not been made." in text
    assert "out of memory" in text
    assert "In words." in text
    assert main(["report", str(file), "--results", str(tmp_path), "--formats", "docx"]) == 2
    capsys.readouterr()
    assert main(["report", str(file), "--results", str(tmp_path), "--against", "flatland"]) == 2
    assert "has no run of 'flatland'; it has fedavg, local" in capsys.readouterr().err
    assert main(["report", str(file), "--results", str(tmp_path), "--to", str(file / "out")]) == 2
    assert "cannot be made" in capsys.readouterr().err


def test_differences_without_spread_have_a_sure_answer(values):
    for seed in SEEDS:
        values["local", 10, seed] = values["fedavg", 10, seed]
        values["flatland", 10, seed] = values["fedavg", 10, seed] + 0.125
    table = read_csv(csv_text(make_table(SPEC, runs_of(values), "here")))
    assert table["local", 10]["p"] == "1.0"
    assert float(table["flatland", 10]["p"]) < 1e-9


def test_all_that_print_as_the_best_are_bold(values):
    for seed in SEEDS:
        values["local", 10, seed] = 0.90001
        values["flatland", 10, seed] = 0.9
    made = make_table(SPEC, runs_of(values), "here")
    bold = [
        line.split("|")[1].strip(" `")
        for line in as_text(made).markdown.splitlines()
        if "**90.0 ± 0.0" in line
    ]
    assert bold == ["local", "flatland"]
    least = make_table(SPEC | {"lowest": True}, runs_of(values), "here")
    assert ["fedavg", 10] in best_of(least)[["method", "num-supernodes"]].values.tolist()

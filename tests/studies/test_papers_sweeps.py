"""The papers' sweeps can be planned, run and shown at each scale, whatever runs say."""

import csv
import json
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib.figure
import pytest
import tomli_w
from hull_nodes import hull_run
from tiers import only

from curvfed.extensions.sweeps.commands.pages.selection import Run
from curvfed.extensions.sweeps.commands.pages.texts import markdown
from curvfed.extensions.sweeps.commands.sweep import read_plan
from curvfed.server_app.directory import TABLES
from studies.papers.__main__ import combined_sweep
from studies.papers.comparison import compare
from studies.papers.figures.page import Study, draw_figure, read_study
from studies.papers.figures.spec import NothingToDraw, Spec
from studies.papers.figures.table import make_table
from studies.papers.pages import Sweep, sweep_files
from studies.papers.printed_numbers import read

FILES = list(sweep_files().values())
SCALES = ("smoke", "paper")
EVERY = pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
# What the papers' runs show has the same parts as what smoke runs show, and more of each.
SCALED = pytest.mark.parametrize(
    ("path", "scale"),
    only(
        [
            (path, scale)
            for path in FILES
            for scale in tomllib.loads(path.read_text()).get("scales", SCALES)
        ],
        lambda case: case[1] == "smoke",
    ),
    ids=lambda value: value if isinstance(value, str) else f"{value.parent.name}/{value.stem}",
)


PARTITIONS = range(3)
SHARES = {
    "global_accuracy": 0.6,
    "personal_accuracy_mean": 0.7,
    "best_validation.personal_accuracy_mean": 0.75,
    "best_validation.global_accuracy": 0.65,
    "best_validation.metrics.roc_auc": 0.8,
    "metrics.roc_auc": 0.78,
    "metrics.global_accuracy_last3": 0.59,
    "metrics.global_accuracy_calibrated": 0.62,
    "metrics.global_accuracy_uncalibrated": 0.58,
    "metrics.personal_accuracy_before": 0.68,
    "metrics.majority_accuracy": 0.5,
    "metrics.accuracy_fle": 0.71,
    "metrics.accuracy_cp": 0.72,
    "metrics.accuracy_ce": 0.73,
    "metrics.accuracy_ch_cp": 0.74,
    "metrics.accuracy_ch_ce": 0.76,
    "metrics.accuracy_logistic": 0.77,
    "metrics.hull_share_revealed": 0.4,
    "metrics.grouping_accuracy": 0.9,
}
OTHERS = {
    "bytes_up": 4e5,
    "bytes_down": 4e5,
    "seconds": 3.0,
    "metrics.hull_vertices_mean": 5.5,
    "metrics.hull_vertices_max": 10.0,
    "metrics.heterogeneity": 0.6,
    "metrics.mean_graphs": 188.0,
    "metrics.mean_nodes": 17.93,
    "metrics.mean_edges": 19.79,
    "metrics.mean_classes": 2.0,
    "metrics.mean_clustering": 0.238,
}
"""Figures that a summary has where its run has them; what no summary has, no table can show."""


@cache
def plan_of(path: Path, scale: str) -> Study:
    return read_study(path, scale)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory of everything: scores, classes, curvatures, hulls."""
    path = hull_run(tmp_path_factory.mktemp("runs")).path
    figures = {
        "accuracy": 0.7,
        "score": 0.7,
        "curvature": -1.0,
        "personal_accuracy_mean": 0.7,
        "global_accuracy": 0.6,
    }
    numbers = dict.fromkeys((*TABLES["rounds.csv"], *TABLES["clients.csv"]), 0.5) | figures
    rows = [{"round": number, "phase": "train"} for number in (1, 2, 3)]
    write(path / "rounds.csv", TABLES["rounds.csv"], [numbers | row for row in rows])
    write(
        path / "clients.csv",
        TABLES["clients.csv"],
        [numbers | row | {"partition": p} for row in rows for p in PARTITIONS],
    )
    names = ["ant", "bee", "cat"]
    statistics = {"class_counts": [5, 0, 9], "forman": -4.0, "num_train": 9}
    clients = [
        {"partition": p, "metric": "accuracy", "class_names": names, "statistics": statistics}
        for p in PARTITIONS
    ]
    (path / "clients.json").write_text(
        json.dumps({"clients": clients, "facts": {"class_names": names}})
    )
    (path / "summary.json").write_text(
        json.dumps({"status": "completed", "rounds": 3, "best_validation": {"round": 2}})
    )
    return path


def write(path: Path, columns: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


def runs_of(plan: Study, folder: Path = Path("nowhere")) -> list[Run]:
    """All runs of a plan as if they had completed, a little apart."""
    return [
        Run(
            planned,
            {"status": "completed", "error": ""}
            | {key: value * (1 + number / 1e4) for key, value in (SHARES | OTHERS).items()},
            folder,
        )
        for number, planned in enumerate(plan.runs)
    ]


# Files


@pytest.mark.long
@pytest.mark.parametrize("scale", SCALES)
def test_one_sweep_has_the_runs_of_all(scale, tmp_path):
    file = tmp_path / "all.toml"
    file.write_text(tomli_w.dumps(combined_sweep(FILES, scale)))
    names = {run.name for path in FILES for run in plan_of(path, scale).runs}
    assert {run.name for run in read_plan(file).runs} == names


@SCALED
def test_every_run_can_be_made_and_is_shown(path, scale):
    plan = plan_of(path, scale)
    assert plan.runs
    assert [(planned.settings, planned.refused) for planned in plan.runs if planned.refused] == []
    empty = [Run(planned, {"status": "completed"}, Path("nowhere")) for planned in plan.runs]
    for spec in plan.figures:
        with pytest.raises(NothingToDraw):
            draw_figure(spec, empty, str(path))
    runs = runs_of(plan)
    shown = {
        run.planned.name
        for spec in (*plan.tables, *plan.figures)
        for run in Spec(spec, str(path)).matching(runs)
    }
    assert shown == {run.planned.name for run in runs}


# Tables


@SCALED
def test_tables_have_a_number_for_every_run_that_they_show(path, scale):
    plan = plan_of(path, scale)
    for spec in plan.tables:
        table = make_table(spec, runs_of(plan), str(path))
        assert (table.cells["count"] > 0).any(), spec
        assert set(table.cells["figure"]) <= {*SHARES, *OTHERS}, spec
        assert not table.cells[["not_made", "failures"]].any(axis=None)
        # A method that others are tested against is in the table.
        assert "against" not in spec or table.cells["pairs"].notna().any(), spec
        assert all((markdown(table.text), table.csv))


@pytest.mark.long
@EVERY
def test_runs_at_the_papers_scale_stand_beside_its_numbers(path):
    plan = plan_of(path, "paper")
    sweep = Sweep(path.parent.name, plan)
    printed = read(sweep.paper, sweep.printed_table) if sweep.printed_table else []
    rows = {run.planned.name: run.row for run in runs_of(plan)}
    if any(number.figure for number in printed):
        assert any(pair.ours for pair in compare(printed, plan, rows))


# Figures


@pytest.mark.long
@SCALED
def test_figures_can_be_drawn(path, scale, folder):
    plan = plan_of(path, scale)
    for spec in plan.figures:
        assert spec.get("title")
        figure = draw_figure(spec, runs_of(plan, folder), str(path))
        assert isinstance(figure, matplotlib.figure.Figure)

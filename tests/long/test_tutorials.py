"""Every block of the tutorials, in its order, in an empty folder with an empty home."""

import contextlib
import csv
import json
import re
from pathlib import Path

import psutil
import pytest
from page_blocks import nothing_left, run_blocks


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def completed(run: Path) -> dict:
    summary = json.loads((run / "summary.json").read_text())
    assert summary["status"] == "completed"
    return summary


def test_a_block_that_fails_leaves_no_process(tmp_path):
    with contextlib.suppress(ZeroDivisionError), nothing_left(tmp_path):
        process = psutil.Popen(["sleep", "600"], cwd=tmp_path)
        _ = 1 / 0
    assert process.wait(5) < 0


def test_flatland_on_my_graph(tmp_path):
    printed = run_blocks("tutorial-graph.md", tmp_path)
    summary = completed(tmp_path / "runs" / "mine")
    labels = rows(tmp_path / "predictions.csv")
    assert {row["class"] for row in labels} <= {"red", "green", "blue"}
    assert summary["personal_accuracy_mean"] > 0.6
    assert summary["metrics"]["majority_accuracy"] < 0.4  # no client has nearly one class
    assert re.search(r"^Which is best\? ", printed, re.MULTILINE)


def test_images_on_two_machines(tmp_path):
    with nothing_left(tmp_path):
        run_blocks("tutorial-machines.md", tmp_path)
    summary = completed(tmp_path / "home" / "curvfed" / "results" / "digits")
    assert summary["personal_accuracy_mean"] > 0.8
    assert {row["class"] for row in rows(tmp_path / "predictions.csv")} == {
        f"digit-{label}" for label in range(10)
    }


@pytest.mark.parametrize(
    ("page", "section", "file"),
    [
        ("points.md", "", "cells.csv"),
        ("images.md", "", "pictures/digit-0/0.png"),
        ("running.md", "Predict", "joined.csv"),
        ("sweeps.md", "Table and figures", "study/study.tex"),
    ],
)
def test_the_blocks_of_a_page_are_a_script(tmp_path, page, section, file):
    run_blocks(page, tmp_path, section)
    assert (tmp_path / file).exists()
    statuses = {json.loads(path.read_text())["status"] for path in tmp_path.rglob("summary.json")}
    assert "completed" in statuses
    assert statuses <= {"completed", "adapted"}  # a client that joined

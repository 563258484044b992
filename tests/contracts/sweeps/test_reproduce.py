"""The pages of `make paper`: every sweep is on one, and no number is there that no run or paper
has."""

import re
from pathlib import Path

import pytest

from curvfed.deployments import papers
from curvfed.deployments.commands.command import main
from curvfed.deployments.papers import reproduce
from curvfed.deployments.sweep.plan import read_plan
from curvfed.deployments.sweep.results import Results

SWEEP = """
title = "Clients and labels"
source = "flatland, Table 1"
about = "In words."
[scales.smoke.settings]
method = ["fedavg", "local"]
dataset = "cora"
num-supernodes = 10
seed = [0, 1]
[[tables]]
rows = "method"
columns = "num-supernodes"
figures = "best_validation.personal_accuracy_mean"
paper = "flatland, Table 1"
"""


@pytest.fixture
def sweeps(tmp_path, monkeypatch):
    """A folder of sweeps with one file."""
    folder = tmp_path / "sweeps"
    (folder / "flatland").mkdir(parents=True)
    (folder / "flatland" / "table-01.toml").write_text(SWEEP)
    monkeypatch.setattr(
        reproduce,
        "shipped",
        lambda kind: {f"flatland/{path.stem}": path for path in sorted(folder.rglob("*.toml"))},
    )
    return folder


def record(results: Path, sweeps: Path) -> None:
    """One seed of FedAvg completed, one failed; nothing else was made."""
    runs = read_plan(sweeps / "flatland" / "table-01.toml", "smoke").runs
    made = results / runs[0].name
    made.mkdir(parents=True)
    (made / "summary.json").write_text(
        '{"status": "completed", "seconds": 90, "best_validation": {"personal_accuracy_mean": 0.5},'
        ' "versions": {"flwr": "1.39.0"}}'
    )
    Results(results).record(runs[0])
    Results(results).record(runs[1], "out of memory")


def test_pages_have_what_was_run_what_failed_and_what_the_paper_says(sweeps, tmp_path):
    record(tmp_path / "runs", sweeps)
    to = tmp_path / "pages"
    to.mkdir()
    reproduce.write_pages(
        reproduce.read_all("smoke"), Results(tmp_path / "runs"), to, "make paper DATA=folder"
    )
    page = (to / "flatland.md").read_text()
    assert "| `fedavg` | 50.0 n = 1, 1 failed (69.2 ± 0.7) |" in page
    assert "| `local` | (79.9 ± 0.2) |" in page
    assert "1 of 1 numbers differ from the paper's by more than the spreads of both" in page
    assert "2 of 4 runs have not been made." in page
    assert "out of memory" in page
    assert "In words." in page
    assert (to / "tables" / "flatland" / "table-01.csv").exists()
    contents = (to / "README.md").read_text()
    assert "1 of 4 runs completed, 2 minutes in all" in contents
    assert "Flower 1.39.0." in contents
    for name, anchor in re.findall(r"\]\((\w+\.md)#([^)]+)\)", contents):
        assert f"## {anchor.replace('-', ' ')}\n" in (to / name).read_text().lower()
    assert set(re.findall(r"\*\*\[(\w+)\]", contents)) == set(papers.PAPERS)


def test_every_run_is_made_once_and_all_that_ship_are(sweeps):
    (sweeps / "flatland" / "table-02.toml").write_text(
        SWEEP.replace("seed = [0, 1]", "seed = [1, 2]")
    )
    assert len(reproduce.together(reproduce.read_all("smoke"), "smoke").runs) == 6


def test_a_folder_that_cannot_be_made_is_named_before_anything_runs(
    sweeps, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(reproduce, "sweep", lambda *rest: pytest.fail("it ran"))
    (tmp_path / "file").write_text("")
    assert (
        main(
            ["paper", "--results", str(tmp_path / "runs"), "--to", str(tmp_path / "file" / "pages")]
        )
        == 2
    )
    assert re.search(r"pages\s+cannot\s+be\s+made: Not a directory", capsys.readouterr().out)


def test_a_table_that_cannot_be_made_is_named_before_anything_runs(
    sweeps, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(reproduce, "sweep", lambda *rest: pytest.fail("it ran"))
    (sweeps / "flatland" / "table-02.toml").write_text(SWEEP.replace("rows", "row"))
    assert (
        main(["paper", "--results", str(tmp_path / "runs"), "--to", str(tmp_path / "pages")]) == 2
    )
    assert "'row' is not known in [[tables]]" in capsys.readouterr().out

"""Early stopping: without improvement a run has one more round, its last in every respect."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from app_runs import Run, rows, run

from curvfed.server_app.directory import checkpoint

PATIENCE = 2
LAST = 4
"""No round is better than the first: after round 3 it is clear, and round 4 is the last."""

NO_PROGRESS = {
    "method": "fedavg",
    "dataset": "digits",
    "images__train_subset": 120,
    "images__test_subset": 40,
    "local_epochs": 1,
    "learning_rate": 0.0,
    "fine_tune_epochs": 0,
    "train_size": 0.5,
    "test_size": 0.25,
    "num_rounds": 9,
    "early_stopping": PATIENCE,
}


def trained_rounds(made: Run) -> list[str]:
    return [row["round"] for row in made.rounds if row["phase"] == "train"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Run:
    """A run that has stopped; left as it is."""
    return run(tmp_path_factory.mktemp("whole"), **NO_PROGRESS)


def copy_to(folder: Path, made: Run) -> None:
    """A copy of a run, to be gone on with."""
    shutil.copytree(made.path, folder / "run")


@pytest.mark.parametrize("is_masked", [False, True], ids=["open", "masked"])
def test_a_run_without_progress_ends_one_round_after_its_patience(whole, tmp_path, is_masked):
    made = run(tmp_path, secure_sum=True, **NO_PROGRESS) if is_masked else whole
    assert made.summary["status"] == "completed"
    assert made.summary["rounds"] == LAST
    assert trained_rounds(made) == ["1", "2", "3", "4"]
    assert made.summary["best_validation"]["round"] == 1
    assert made.summary["global_accuracy"] is not None


def test_a_run_without_validation_scores_warns(tmp_path, caplog, own_home):
    made = run(tmp_path, **NO_PROGRESS | {"train_size": 0.75, "num_rounds": 4})
    assert made.summary["rounds"] == 4
    assert "early-stopping = 2" in caplog.text


def test_the_last_round_has_confusion_counts_and_calibration(tmp_path):
    settings = NO_PROGRESS | {"method": "spherefed"}
    made = run(tmp_path, **settings)
    phases = [(row["round"], row["phase"]) for row in made.rounds]
    assert (str(LAST), "calibrate") in phases
    counts = sum(int(row["examples"]) for row in rows(made.path / "confusion.csv"))
    sizes = [client["statistics"]["num_test"] for client in made.described["clients"]]
    assert counts == sum(sizes)


@pytest.mark.parametrize("stopped_at", [2, 3, LAST])
def test_a_killed_run_stops_in_the_same_round_with_the_same_bits(
    whole, tmp_path, monkeypatch, stopped_at
):
    """Killed before the checkpoint of a round: of the one that decides, and of the last."""
    save = checkpoint.save

    def fail(store, state, *rest):
        if state.round == stopped_at:
            raise KeyboardInterrupt
        save(store, state, *rest)

    monkeypatch.setattr(checkpoint, "save", fail)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "killed", **NO_PROGRESS)
    monkeypatch.undo()
    resumed = run(tmp_path / "killed", resume=True, **NO_PROGRESS)
    assert resumed.figures == whole.figures


def test_a_completed_run_trains_on_without_early_stopping(whole, tmp_path):
    copy_to(tmp_path, whole)
    settings = NO_PROGRESS | {"early_stopping": 0, "num_rounds": 6, "resume": True}
    longer = run(tmp_path, **settings)
    assert longer.summary["rounds"] == 6
    alone = run(tmp_path, "whole", **NO_PROGRESS | {"early_stopping": 0, "num_rounds": 6})
    for name, array in alone.model.items():
        np.testing.assert_array_equal(longer.model[name], array)


def test_a_resumed_run_that_has_stopped_is_unchanged(whole, tmp_path):
    copy_to(tmp_path, whole)
    again = run(tmp_path, resume=True, **NO_PROGRESS)
    assert again.summary["rounds"] == LAST
    assert trained_rounds(again) == trained_rounds(whole)
    assert again.model_bytes == whole.model_bytes
    assert rows(again.path / "confusion.csv")

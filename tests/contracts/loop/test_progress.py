"""The lines about a slow phase: with the number of its round, and before the first round without."""

import json
import logging
import re
from types import SimpleNamespace

import pytest
from app_runs import QUICK
from app_runs import run as made

from curvfed.server_app import run
from curvfed.server_app.callbacks.choice import ProgressLine
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.run import Progress
from curvfed.strategies.base.figure import share
from curvfed.strategies.base.figures import FIGURES, GLOBAL_ACCURACY, PERSONAL_ACCURACY
from curvfed.strategies.wire.messages import TRAIN, Header


def test_a_phase_before_the_rounds_is_no_round(caplog, monkeypatch, own_log):
    """A one-shot run said "round 0/100" for minutes, as if its rounds did not begin."""
    monkeypatch.setattr(run, "PHASE_SILENCE", 0.0)
    own_log.propagate = True
    caplog.set_level(logging.INFO, logger="curvfed")
    progress = Progress(100)
    for number, phase in ((0, "measure"), (7, TRAIN)):
        progress.count(Header(run="one", round=number, phase=phase), 1, 3)
    first, second = caplog.records
    assert first.getMessage() == "measure: 1 of 3 answered so far"
    assert not hasattr(first, "rounds")
    assert second.getMessage() == f"round 7/100  {TRAIN}: 1 of 3 answered so far"
    assert second.rounds == (7, 100)


def test_a_line_on_a_phase_does_not_hide_the_result_of_a_round(caplog, monkeypatch, own_log):
    times = iter([0.0, 6.0, 6.0, 6.5, 6.5, 6.9])
    monkeypatch.setattr(run.time, "monotonic", lambda: next(times))
    own_log.propagate = True
    caplog.set_level(logging.INFO, logger="curvfed")
    progress = Progress(3)
    progress.count(Header(run="one", round=1, phase=TRAIN), 4, 4)
    progress.say(1, "accuracy 50.0%", silence=1.0)
    progress.say(2, "accuracy 60.0%", silence=1.0)
    assert [record.getMessage() for record in caplog.records] == [
        f"round 1/3  {TRAIN}: 4 of 4 answered so far",
        "round 1/3  accuracy 50.0%",
    ]


@pytest.mark.parametrize(
    "settings",
    [
        {**QUICK["images"], "fine_tune_epochs": 2, "calibration": "ffc"},
        {**QUICK["nodes"], "fraction_train": 0.3},
    ],
    ids=["fine-tuned and calibrated", "a client trained"],
)
def test_the_line_of_the_last_round_has_the_scores_of_the_summary(settings, tmp_path, capsys):
    done = made(tmp_path, method="fedavg", **settings)
    lines = capsys.readouterr().out.splitlines()
    (line,) = [text for text in lines if re.match(r"curvfed \| round 2/2  (global|personal)", text)]
    printed = dict(re.findall(r"(global|personal) accuracy(?:, fine-tuned)? (\S+)%", line))
    stored = {"global": done.summary[GLOBAL_ACCURACY], "personal": done.summary[PERSONAL_ACCURACY]}
    assert printed == {name: f"{100 * score:.1f}" for name, score in stored.items() if score}


def line_of(metric, row):
    """The progress line of a round with this row, in a run with this metric."""
    lines = []
    progress = SimpleNamespace(say=lambda number, text, silence: lines.append(text))
    federation = SimpleNamespace(metric=metric)
    ongoing = SimpleNamespace(federation=federation, last_round=2, progress=progress)
    costs = {"seconds": 1.0, "dropped": 0}
    ProgressLine(ongoing).stored(SimpleNamespace(number=1, row=row | costs))
    return lines


@pytest.mark.parametrize(("metric", "name"), [("accuracy", "accuracy"), ("roc_auc", "ROC-AUC")])
def test_a_metric_has_one_short_name_in_the_log_and_in_pages(metric, name, tmp_path):
    clients = {"clients": [{"partition": 0, "metric": metric}]}
    (tmp_path / "clients.json").write_text(json.dumps(clients))
    assert RunFiles(tmp_path).metric_name == name
    assert line_of(metric, {"score": 0.5}) == [f"personal {name} 50.0%  1.00 s"]


def test_a_metric_brings_its_words_for_accuracy(monkeypatch):
    row = share("odd_rank", "odd rank", short="OR", accuracy="Hits@1")
    monkeypatch.setitem(FIGURES, row.name, row)
    scores = {GLOBAL_ACCURACY: 0.25, "score": 0.5}
    assert line_of("odd_rank", scores) == ["global Hits@1 25.0%  personal OR 50.0%  1.00 s"]
    assert line_of("accuracy", scores) == ["global accuracy 25.0%  personal accuracy 50.0%  1.00 s"]

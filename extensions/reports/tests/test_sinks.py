"""Sinks have what the run directory has, every round once; none can harm a run."""

import logging
import math
import re
from pathlib import Path
from typing import Any

import pytest
from app_runs import Run, run
from errors import refuses
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from curvfed.deployments.commands.command import main
from curvfed.extensions.reports.tensorboard import TensorBoard
from curvfed.strategies.base.keys import dotted
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import flatten
from curvfed.strategies.errors import ConfigError
from curvfed.tasks import plugins

pytestmark = [
    pytest.mark.long,  # their packages take seconds to import
    # MLflow's own, of SQLAlchemy
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy"),
    pytest.mark.usefixtures("own_home"),
]

DIGITS = {
    "method": "fedavg",
    "dataset": "digits",
    "images__train_subset": 120,
    "images__test_subset": 40,
    "local_epochs": 1,
    "batch_size": 32,
    "fine_tune_epochs": 1,
    "fine_tune_every": 2,
}
HULL = {"method": "hull", "dataset": "uniform", "points__num": 300}
BOTH = "tensorboard,mlflow"
TEXTS = {"round", "phase", "weights", "aggregation_note", "reasons"}

Curves = dict[str, list[tuple[int, float]]]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder, whose store of MLflow takes seconds to make."""
    return tmp_path_factory.mktemp("results")


class Store:
    """What MLflow has of a run."""

    def __init__(self, result: Run) -> None:
        from mlflow import MlflowClient  # after our module, which keeps it from reporting its use

        self.client = MlflowClient(f"sqlite:///{result.path.parent / 'mlflow.db'}")
        experiment = self.client.get_experiment_by_name("curvfed")
        assert experiment is not None
        matches = self.client.search_runs(
            [experiment.experiment_id], f"attributes.run_name = '{result.path.name}'"
        )
        (self.run,) = matches

    @property
    def curves(self) -> Curves:
        """Every metric's history."""
        history = {
            name: self.client.get_metric_history(self.run.info.run_id, name)
            for name in self.run.data.metrics
        }
        return {
            name: [(point.step, point.value) for point in points]
            for name, points in history.items()
        }


def events(result: Run, folder: str = "tensorboard") -> tuple[Curves, dict[str, str]]:
    """Curves and texts of the event files, which must not overlap."""
    read = EventAccumulator(
        str(result.path / folder), {"scalars": 0, "tensors": 0}, purge_orphaned_data=False
    )
    read.Reload()
    tags = read.Tags()
    texts = {
        tag: read.Tensors(tag)[0].tensor_proto.string_val[0].decode() for tag in tags["tensors"]
    }
    return {
        tag: [(point.step, point.value) for point in read.Scalars(tag)] for tag in tags["scalars"]
    }, texts


def expected(result: Run, summed: bool = True) -> Curves:
    """The figures of rounds.csv and, at the last round, those of summary.json."""
    curves: Curves = {}
    for row in result.rounds:
        for column in row.keys() - TEXTS:
            if row[column]:
                curves.setdefault(f"{row['phase']}/{column}", []).append(
                    (int(row["round"]), float(row[column]))
                )
    for name, value in dotted(result.summary).items() if summed else ():
        if isinstance(value, int | float) and not name.startswith("settled."):
            curves[f"summary/{name}"] = [(result.summary["rounds"], float(value))]
    return curves


def assert_same(curves: Curves, reference: Curves) -> None:
    """Equal but for the rounding to float32 of event files."""
    assert curves.keys() == reference.keys()
    for name, curve in curves.items():
        assert [step for step, _ in curve] == [step for step, _ in reference[name]], name
        for (_, value), (_, reference_value) in zip(curve, reference[name]):
            assert math.isclose(value, reference_value, rel_tol=1e-6), name


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Warnings about sinks."""
    warnings = [
        record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING
    ]
    return [text for text in warnings if "sink" in text]


@pytest.mark.parametrize("settings", [DIGITS | {"num_rounds": 3}, HULL], ids=["rounds", "one shot"])
def test_what_they_have_is_what_the_run_directory_has(settings, results):
    result = run(results, name=settings["method"], sinks=BOTH, **settings)
    assert result.summary["status"] == "completed"
    curves, texts = events(result)
    assert_same(curves, expected(result))
    store = Store(result)
    assert_same(store.curves, expected(result))
    assert store.run.info.status == "FINISHED"
    config = (result.path / "config.toml").read_text()
    assert store.run.data.params["run-name"] == settings["method"]
    assert store.run.data.params.keys() == flatten(parse({"method": settings["method"]})).keys()
    assert all(f"\n{key.rpartition('.')[2]} = " in f"\n{config}" for key in store.run.data.params)
    assert store.run.data.tags["status"] == "completed"
    assert store.run.data.tags["versions.flwr"] == result.summary["versions"]["flwr"]
    assert f"method = {settings['method']}" in texts["configuration/text_summary"]
    assert "status = completed" in texts["summary/text_summary"]


def test_a_resumed_run_goes_on_where_it_was(results, monkeypatch):
    """Stopped when a round's rows were written and it was not yet safe: it is done again."""
    from curvfed.server_app.directory import checkpoint

    save = checkpoint.save

    def fail(store: Any, state: Any, *arguments: Any) -> None:
        if state.round == 2:
            raise KeyboardInterrupt
        save(store, state, *arguments)

    monkeypatch.setattr(checkpoint, "save", fail)
    with pytest.raises(KeyboardInterrupt):
        run(results, "stopped", sinks=BOTH, num_rounds=3, **DIGITS)
    monkeypatch.undo()
    stopped = Run(results / "stopped")
    assert [row["round"] for row in stopped.rounds if row["phase"] == "train"] == ["1", "2"]
    store = Store(stopped)
    assert store.run.info.status == "KILLED"
    assert store.run.data.tags["error"] == "interrupted"
    for curves in (store.curves, events(stopped)[0]):
        assert {
            step for name, curve in curves.items() for step, _ in curve if name.startswith("train/")
        } == {1}
    result = run(results, "stopped", sinks=BOTH, num_rounds=4, resume=True, **DIGITS)
    assert_same(events(result)[0], expected(result))
    store = Store(result)  # which holds one run of that name
    assert store.run.info.status == "FINISHED"
    rounds = {
        name: curve for name, curve in store.curves.items() if not name.startswith("summary/")
    }
    assert_same(rounds, expected(result, summed=False))
    assert store.run.data.metrics["summary/rounds"] == 4


def test_a_one_shot_run_that_is_resumed_does_not_send_its_sum_again(results):
    def stop(request, handle):
        if request.content["header"]["phase"] == "evaluate":
            raise KeyboardInterrupt
        return handle(request)

    with pytest.raises(KeyboardInterrupt):
        run(results, "hull-stopped", sinks=BOTH, intercept=stop, **HULL)
    assert "hulls/seconds" in Store(Run(results / "hull-stopped")).curves
    result = run(results, "hull-stopped", sinks=BOTH, resume=True, **HULL)
    assert_same(events(result)[0], expected(result))
    curves = Store(result).curves
    assert_same(
        {name: curve for name, curve in curves.items() if not name.startswith("summary/")},
        expected(result, False),
    )


@pytest.mark.parametrize("when", ["round", "end"])
def test_one_that_fails_costs_the_run_nothing(when, tmp_path, monkeypatch, caplog):
    calls = []

    def fail(sink: TensorBoard, number: int, *arguments: Any) -> None:
        calls.append(number)
        if number == 2:
            raise OSError("no space at https://me:secret@there")

    class Other(TensorBoard):
        """Beside it, as MLflow would be."""

        def __init__(self, directory: Any) -> None:
            super().__init__(directory)
            self._folder = directory.path / "other"

    alone = run(tmp_path, "alone", num_rounds=3, **DIGITS)
    failing = type("Failing", (TensorBoard,), {when: fail})
    sinks = plugins.of_extensions("sinks")
    monkeypatch.setitem(sinks, "mlflow", plugins.register_object(Other, "other:Other"))
    monkeypatch.setitem(sinks, "tensorboard", plugins.register_object(failing, "other:Failing"))
    rounds = 3 if when == "round" else 2
    with caplog.at_level(logging.WARNING, "curvfed"):
        result = run(tmp_path, "told", num_rounds=rounds, sinks=BOTH, **DIGITS)
    assert calls == ([1, 2] if when == "round" else [2])
    assert said(caplog) == [
        "the sink tensorboard failed, the run goes on without it: no space at https://there"
    ]
    assert_same(events(result, "other")[0], expected(result))
    if when == "round":
        assert result.figures == alone.figures


def test_one_that_does_not_open_ends_a_new_run_and_no_other(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    nowhere = {"sinks": "mlflow", "mlflow__tracking_uri": "http://127.0.0.1:9"}
    run(tmp_path, num_rounds=1, **DIGITS)
    with caplog.at_level(logging.WARNING, "curvfed"):
        result = run(tmp_path, num_rounds=2, resume=True, **nowhere, **DIGITS)
    assert result.summary["rounds"] == 2
    (word,) = said(caplog)
    assert re.match(
        r'sinks = "mlflow": mlflow does not open: .*; the run goes on without it$', word
    )
    with refuses("sink", 'sinks = "mlflow"', error=ConfigError):
        run(tmp_path, "new", num_rounds=2, **nowhere, **DIGITS)
    assert Run(tmp_path / "new").rounds == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["sinks=mlflow", "mlflow.tracking-uri=http://127.0.0.1:9"], "mlflow does not open: "),
        (["sinks=wandb", "wandb.mode=online"], "wandb does not open: No API key configured"),
    ],
)
def test_check_names_what_does_not_open(words, reason, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    assert main(["check", "method=fedavg", *words, f"results-dir={tmp_path / 'results'}"]) == 2
    assert reason in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "results").exists()

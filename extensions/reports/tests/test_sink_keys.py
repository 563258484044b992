"""Keys of sinks: what is refused before anything begins; `test_sinks.py` tests the sinks."""

from importlib.machinery import ModuleSpec

import pytest
from app_runs import Run, run

from curvfed.deployments.commands.command import main
from curvfed.extensions.reports.sinks import Feed
from curvfed.extensions.reports.trackers import MLflow
from curvfed.server_app.sinks import Sink
from curvfed.strategies.config.parse import parse
from curvfed.strategies.errors import ConfigError
from curvfed.tasks import plugins

BOTH = "tensorboard,mlflow"


@pytest.mark.parametrize("name", ["tensorboard", "mlflow"])
@pytest.mark.parametrize(
    "spec", [None, ModuleSpec("folder", None, is_package=True)], ids=["nothing", "a folder"]
)
def test_a_package_that_is_not_there_is_named_before_anything_begins(
    name, spec, own_home, tmp_path, monkeypatch
):
    installed = ModuleSpec("there", None, origin="there.py")
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda package: spec if package == name else installed
    )
    requests = []
    with pytest.raises(
        ConfigError,
        match=rf'sinks = "{BOTH}": the package {name} is not .* pip install -e .*\[{name}\]',
    ):
        run(tmp_path, intercept=lambda request, handle: requests.append(request), sinks=BOTH)
    assert requests == []
    summary = Run(tmp_path / "run").summary
    assert summary["status"] == "failed"
    assert f"[{name}]" in summary["error"]


@pytest.mark.parametrize("sinks", ["tensorboard,", "tensorboard mlflow"])
def test_a_list_of_another_form_is_refused(sinks):
    with pytest.raises(ConfigError, match=r"sinks = .*allowed is a list of tensorboard, mlflow"):
        parse({"sinks": sinks})


@pytest.mark.parametrize("sinks", ["neptune", "TensorBoard", "tensorboard,neptune"])
def test_an_unknown_name_is_refused(sinks):
    with pytest.raises(
        ConfigError, match=r"there is no sink \w+; allowed is a list of tensorboard"
    ):
        Feed.check_installed(sinks)


def test_a_sink_of_another_package_needs_no_extra(monkeypatch):
    class Mine(Sink):
        pass

    place = plugins.register_object(Mine, "mine:Mine")
    monkeypatch.setitem(plugins.of_extensions("sinks"), "mine", place)
    Feed.check_installed("mine")


def test_an_object_that_is_not_a_sink_is_refused_by_name(monkeypatch):
    for name, place, reason in (
        ("mine", plugins.register_object("text", "mine:TEXT"), "allowed is a subclass of"),
        ("gone", "not_there:SINK", "cannot be imported here"),
    ):
        monkeypatch.setitem(plugins.of_extensions("sinks"), name, place)
        with pytest.raises(ConfigError, match=f'sinks = "{name}": .*{reason}'):
            Feed.check_installed(name)


def test_an_address_with_a_password_is_refused_and_not_repeated():
    with pytest.raises(ConfigError, match="MLFLOW_TRACKING_PASSWORD") as refused:
        parse({"mlflow.tracking-uri": "https://me:secret@there"})
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("command", ["check", "simulate"])
def test_a_server_that_does_not_answer_is_named_before_anything_is_made(
    command, own_home, tmp_path, monkeypatch, capsys
):
    def silent(config):
        raise ConnectionRefusedError(f"no answer of {config.mlflow.tracking_uri}")

    installed = ModuleSpec("there", None, origin="there.py")
    monkeypatch.setattr("importlib.util.find_spec", lambda package: installed)
    monkeypatch.setattr(MLflow, "check", silent)
    words = ["method=fedavg", "sinks=mlflow", "mlflow.tracking-uri=http://mlflow.example.org"]
    assert main([command, *words, f"results-dir={tmp_path / 'results'}"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "mlflow does not open: no answer of http://mlflow.example.org" in said
    assert not (tmp_path / "results").exists()

"""Without the commands that list names, errors give the names themselves."""

import pytest
from typer.testing import CliRunner

from curvfed.deployments.commands.command import app
from curvfed.deployments.package_files import PRESETS, name_hint, package_files
from curvfed.strategies.config.parse import parse
from curvfed.strategies.methods import METHODS
from curvfed.tasks import plugins, shipped
from curvfed.tasks.errors import DataError, KeyedError
from curvfed.tasks.public_data import PublicData, find_path
from curvfed.tasks.registry import NAMED

REFUSED = [
    ({"method": "flatlands"}, METHODS),
    ({"dataset": "coral"}, NAMED),
    ({"dataset": "mine.docx"}, NAMED),
]


@pytest.fixture
def no_commands(monkeypatch):
    additions = plugins.additions
    monkeypatch.setattr(plugins, "additions", lambda kind: additions(kind) * (kind != "commands"))


def refusal_of(raw):
    with pytest.raises(KeyedError) as refusal:
        parse(raw)
    return str(refusal.value)


@pytest.mark.parametrize(("raw", "names"), REFUSED)
def test_an_unknown_name_gives_all_names(raw, names, no_commands):
    text = refusal_of(raw)
    assert "`curvfed " not in text
    assert [name for name in names if name not in text] == []


def test_an_unknown_preset_gives_all_presets(no_commands):
    hint = name_hint(PRESETS, "nothing like it")
    assert "`curvfed " not in hint
    assert [name for name in package_files(PRESETS) if name not in hint] == []


def test_an_absent_path_names_no_absent_command(no_commands, tmp_path):
    with pytest.raises(DataError) as refusal:
        find_path("./nothere", tmp_path)
    assert "`curvfed " not in str(refusal.value)


def test_absent_public_data_name_the_command_where_nothing_downloads(monkeypatch, tmp_path):
    monkeypatch.setattr(plugins, "additions", lambda kind: [])
    data = PublicData("Birds", ("birds",), ("a.npz",), "fetch({root})", "b", task="points")
    with pytest.raises(DataError) as refusal:
        data.find_or_download(tmp_path, lambda: None)
    for fact in (str(tmp_path / "birds"), "a.npz", data.command(tmp_path)):
        assert fact in str(refusal.value)
    assert data.find_or_download(tmp_path, lambda: 1) == 1


@pytest.mark.parametrize("command", ["methods", "datasets", "presets"])
def test_a_named_command_is_there(command):
    text = plugins.all_names(command, ["first", "second"])
    if command in plugins.additions("commands"):
        assert text == f"`curvfed {command}` lists all"
    else:
        assert text == "known are first, second"


def test_the_help_of_the_core_names_only_its_commands(no_commands):
    text = CliRunner().invoke(app, ["--help"]).output
    assert "curvfed simulate" in text
    assert "curvfed methods" not in text


def test_an_error_names_only_absent_extensions_that_could_know_the_name(monkeypatch):
    monkeypatch.setattr(plugins, "extension_files", dict)
    of_methods = plugins.absent_hint(shipped.METHOD_FOLDERS)
    assert "baselines" in of_methods
    assert "lists" not in of_methods
    assert "warnings" not in of_methods
    assert "graph_sets" in plugins.absent_hint(*shipped.DATA)
    assert plugins.absent_hint("documents") == plugins.absent_hint("sinks")

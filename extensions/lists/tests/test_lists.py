"""The lists of methods, data sets and presets, and what they show of one entry."""

import contextlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_runs import completed

from curvfed.deployments.commands.command import main
from curvfed.deployments.package_files import PRESETS, package_files
from curvfed.strategies.base.keys import kebab
from curvfed.strategies.config.parse import parse
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods import METHODS
from curvfed.tasks.kinds import KINDS
from curvfed.tasks.registry import NAMED, catalogue, tasks_of

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")


def test_the_lists_import_neither_torch_nor_flower():
    program = """
import sys
from curvfed.deployments.commands.command import main
for name in ("methods", "datasets", "presets"):
    assert main([name]) == 0
    assert not {"torch", "flwr"} & sys.modules.keys(), name
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_shell_completes_presets():
    assert completed("curvfed presets hull-o", 2) == ["hull-olsson"]


def test_methods_and_data_sets_are_listed(capsys):
    assert main(["methods"]) == 0
    out = capsys.readouterr().out
    for name, row in METHODS.items():
        (line,) = (line for line in out.splitlines() if line.startswith(f"│ {name} "))
        assert row.summary in line
        assert ", ".join(row.tasks) in line
    assert main(["datasets"]) == 0
    out = capsys.readouterr().out
    names = [(name, task) for name, task, _ in catalogue() if " " not in name]
    assert {name for name, _ in names} >= {"trees", "digits", "uniform"}
    for name, task in names:
        assert f"│ {name} " in out
        assert tasks_of(name) == (tuple(KINDS) if task == "any" else (task,))


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_shown_with_its_keys(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    assert main(["methods", name]) == 0
    out = capsys.readouterr().out
    row = METHODS[name]
    assert row.summary in out
    for table, keys in row.keys.items():
        for key, field in keys.model_fields.items():
            assert f"{table}.{kebab(key)} " in out
            assert str(field.description) in out
    if not row.is_one_shot:
        with contextlib.nullcontext() if "possible" in out else pytest.raises(ConfigError):
            parse({"method": name, "secure-sum": True})


def test_presets_are_listed_and_printed(capsys):
    assert main(["presets"]) == 0
    out = capsys.readouterr().out
    folders = [ROOT / "presets", *ROOT.glob("extensions/*/presets")]
    files = {}
    for folder in folders:
        for path in folder.rglob("*.toml"):
            files[str(path.relative_to(folder).with_suffix(""))] = path
    assert files == package_files(PRESETS)
    assert all(name in out for name in files)
    assert main(["presets", "quick"]) == 0
    assert capsys.readouterr().out == (ROOT / "presets" / "quick.toml").read_text()
    assert main(["presets", "qick"]) == 2
    assert "did you mean 'quick'?" in capsys.readouterr().err


def test_a_data_set_is_shown_with_its_files(tmp_path, capsys):
    assert main(["datasets", "MNIST", "--data-dir", str(tmp_path)]) == 0
    absent = capsys.readouterr().out
    assert f"{tmp_path}/MNIST/raw" in absent
    assert "no: a run downloads them" in absent
    assert f'download: python -c "{NAMED["mnist"].fetch.split("(")[0]}' in absent
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for name in NAMED["mnist"].files:
        (raw / name).write_bytes(b"")
    assert main(["datasets", "mnist", "--data-dir", str(tmp_path)]) == 0
    present = capsys.readouterr().out
    assert f"yes: {raw}" in present
    for method, row in METHODS.items():
        is_shown = re.search(rf"[ ,]{re.escape(method)}[, ]", present) is not None
        assert is_shown == ("images" in row.tasks)


def test_a_group_names_its_sets_and_an_unknown_name_is_refused(capsys):
    assert main(["datasets", "chem"]) == 0
    assert "MUTAG, BZR" in capsys.readouterr().out
    assert main(["datasets", "uniform"]) == 0
    command = re.search(r"curvfed (check method=\S+ dataset=uniform)", capsys.readouterr().out)[1]
    assert main(command.split()) == 0
    capsys.readouterr()
    assert main(["datasets", "mnits"]) == 2
    assert 'did you mean "mnist"' in capsys.readouterr().err


def test_a_narrow_terminal_leaves_words_whole(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["methods"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    for name in METHODS:
        assert any(line.startswith(f"│ {name} ") for line in lines)

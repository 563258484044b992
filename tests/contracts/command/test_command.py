"""The command `curvfed`: what it takes, what it lists, what it refuses, and how it ends."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from command_runs import completed
from graph_fixtures import user_fields
from image_fixtures import write_classes
from tiers import only

from curvfed.deployments import inprocess
from curvfed.deployments.arguments import read_pairs
from curvfed.deployments.commands.command import main
from curvfed.deployments.package_files import PRESETS, package_files
from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.strategies.config.run_config import defaults
from curvfed.strategies.methods import METHODS
from curvfed.tasks.plugins import additions

ROOT = Path(__file__).parents[3]
SMALL = ["num-rounds=2", "embedding-dim=8", "num-supernodes=2"]


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")


# Help is quick

PROGRAM = """
import sys
import click
from curvfed.deployments.commands.command import app, main
from typer.main import get_command

def helps(command, words):
    yield [*words, "--help"]
    context = click.Context(command)
    for name in command.list_commands(context) if isinstance(command, click.Group) else ():
        yield from helps(command.get_command(context, name), [*words, name])

def check_paragraphs(command):
    # The first paragraph is the summary in a list, which shows every line end.
    context = click.Context(command)
    assert "\\n" not in (command.help or "").partition("\\n\\n")[0], command.name
    for name in command.list_commands(context) if isinstance(command, click.Group) else ():
        check_paragraphs(command.get_command(context, name))

check_paragraphs(get_command(app))
for words in [*helps(get_command(app), []), ["--version"]]:
    assert main(words) == 0, words
    assert not {"torch", "flwr"} & sys.modules.keys(), words
"""


def test_help_is_in_paragraphs_and_imports_neither_torch_nor_flower():
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in ("simulate", "run", "check", "predict", *additions("commands")):
        assert f"curvfed {name}" in done.stdout


# Words


def test_presets_go_by_name_and_later_words_win(tmp_path, monkeypatch):
    every = defaults()
    monkeypatch.chdir(tmp_path)  # they are found from anywhere
    wide = read_pairs([str(package_files(PRESETS)["dimensions/16"])], every)
    assert read_pairs(["dimensions/16"], every) == wide
    assert read_pairs(["dimensions/16", "seed=7"], every) == wide | {"seed": 7}
    assert read_pairs(["method=fedper", "quick"], every)["method"] == "flatland"
    (tmp_path / "quick").mkdir()  # of no matter
    assert read_pairs(["quick", "method=fedper"], every)["method"] == "fedper"


@pytest.mark.parametrize(
    "words",
    [
        *("", "run --cpus 0", "run --num-supernodes 0", "predict", "cluster", "cluster nothing"),
        *("cluster supernode north", "simulate --nothing", "check seed=-1"),
    ],
)
def test_wrong_usage_ends_with_2(words):
    assert main(words.split()) == 2


PULLED = sorted(name for name in METHODS if name.startswith("fedp"))


@pytest.mark.parametrize(
    ("words", "place", "offered"),
    only(
        [
            ("curvfed pred", 1, ["predict"]),
            ("curvfed simulate qu", 2, ["quick"]),
            ("curvfed run num-", 2, ["num-rounds=", "num-supernodes="]),
            ("curvfed run quick method = fedp", 5, PULLED),  # bash parts words at "="
            ("curvfed check method=fedp", 2, [f"method={name}" for name in PULLED]),
            ("curvfed check dataset=cor", 2, ["dataset=cora"]),
        ],
        lambda case: " = " in case[0],
    ),
)
def test_a_shell_completes_commands_keys_presets_and_names(words, place, offered):
    assert completed(words, place) == offered


# Data errors before a folder


def bad_data(folder: Path) -> dict[str, list[str]]:
    """Arguments by what is wrong with them, and the words that must be said."""
    torch.save(user_fields() | {"x": user_fields()["x"] / 0}, folder / "nan.pt")
    write_classes(folder / "images", {"cat": 20, "dog": 20}, shape=(16, 16))
    return {
        "has NaN or infinite values": [f"dataset={folder / 'nan.pt'}"],
        "nowhere.pt": ["dataset=/nowhere.pt"],
        "no folder /no/where": ["method=fedavg", "dataset=digits", "test-data=/no/where"],
        "works on nodes": ["method=flatland", f"dataset={folder / 'images'}"],
        'device = "cuda:99": ': ["device=cuda:99"],
    }


@pytest.mark.parametrize("command", ["simulate", "run"])
def test_data_that_will_not_do_leave_no_folder_and_are_said_once(
    command, tmp_path, own_home, capfd, monkeypatch
):
    monkeypatch.setattr(
        "curvfed.deployments.commands.run.run_isolated", lambda *_: pytest.fail("it was started")
    )
    for words, pairs in bad_data(tmp_path).items():
        assert main([command, f"results-dir={tmp_path / 'results'}", *pairs]) == 2
        notes = capfd.readouterr()
        (line,) = notes.err.splitlines()
        assert line.startswith("error: ")
        assert words in line
        assert not notes.out
        assert not (tmp_path / "results").exists()
        assert not (own_home / "curvfed" / "results").exists()


# How it ends


def break_off(*_: object, **__: object) -> None:
    raise ValueError("dict contains fields not in fieldnames: 'x'")


@pytest.fixture
def broken(monkeypatch):
    """Something in the server that is not our own error."""
    monkeypatch.setattr(RunDirectory, "write_clients", break_off)


@pytest.mark.parametrize("option", [[], ["--debug"]], ids=["plain", "debug"])
def test_an_error_of_others_is_named_and_debug_shows_where(
    option, broken, tmp_path, own_home, capsys, caplog
):
    with caplog.at_level(logging.INFO, "curvfed"):
        words = ["simulate", *option, f"results-dir={tmp_path}", "run-name=one", *SMALL]
        assert main(words) == 1
    reason = "ValueError: dict contains fields not in fieldnames: 'x'"
    assert f"The run failed: {reason}\n" in capsys.readouterr().out
    if option:
        assert "in break_off" in caplog.text
        assert "debug = true" in (tmp_path / "one" / "config.toml").read_text()
        return
    (said,) = [message for message in caplog.messages if "dict contains" in message]
    assert said.endswith(f"{reason}; --debug shows where")
    assert "Traceback" not in caplog.text


def test_an_interrupt_ends_with_130(monkeypatch, tmp_path, own_home, capsys):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(inprocess.InProcessGrid, "push_messages", interrupt)
    assert main(["simulate", f"results-dir={tmp_path}", *SMALL]) == 130
    assert "resume=true" in capsys.readouterr().out

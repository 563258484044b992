"""A name is a data set's before it is a folder's; a `Path` is always a path."""

import os
from pathlib import Path

import pytest
from image_fixtures import write_classes

import curvfed
from curvfed.deployments.commands.command import main
from curvfed.strategies.errors import ConfigError

SMALL = {
    "num_supernodes": 2,
    "num_rounds": 1,
    "results_dir": "results",
    "min_client_size": 1,
    "quiet": True,
    "report": False,
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, classes in (("digits", "01"), ("pics", "ab")):
        write_classes(tmp_path / name, dict.fromkeys(classes, 12))
    return tmp_path


@pytest.mark.parametrize("name", ["digits", "pics"])
def test_a_path_object_is_a_path(here, name):
    run = curvfed.simulate("fedavg", dataset=Path(name), **SMALL)
    assert run.summary["dataset"] == f"./{name}"
    assert len(run.predict(Path(name))) == 4  # those that no client had


def test_a_folder_with_the_name_of_the_runs_data_set_is_another_one(here):
    run = curvfed.simulate("fedavg", dataset="digits", **SMALL)
    assert len(run.predict("digits")) > 100
    assert len(run.predict(Path("digits"))) == 24


def test_the_name_goes_first_and_says_so(here, capsys):
    assert main(["check", "method=fedavg", "dataset=digits", "num-supernodes=2"]) == 0
    assert "digits is a data set's name; ./digits names the" in capsys.readouterr().out


def test_a_path_whose_bytes_are_not_utf8_is_refused_before_anything_is_made(tmp_path):
    name = os.fsdecode(b"caf\xe9.csv")
    rows = [f"0.{digit},-0.{digit},{digit % 2}\n" for digit in range(1, 9)]
    (tmp_path / name).write_text("x,y,label\n" + "".join(rows))
    results = tmp_path / "results"
    for data in ({"dataset": str(tmp_path / name)}, {"data": [tmp_path / name] * 3}):
        with pytest.raises(ConfigError, match="its bytes are not UTF-8; rename it"):
            curvfed.simulate("hull", results_dir=results, quiet=True, **data)
    assert not results.exists()

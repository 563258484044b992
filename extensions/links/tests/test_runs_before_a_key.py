"""A run made before `links.trained-ends` keeps the split that it trained with."""

import pytest
from app_runs import run
from stored import write_settings

import curvfed
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.strategies.config.parse import read_settings
from curvfed.strategies.errors import ConfigError

LINE = "trained-ends = false\n"


def made_before(folder, **settings):
    """A run with the split of before, whose file lacks the key."""
    done = run(folder, num_rounds=1, **settings)
    file = done.path / "config.toml"
    lines = [
        line for line in file.read_text().splitlines(keepends=True) if not line.startswith("#")
    ]
    lines.remove(LINE)
    write_settings(file, "".join(lines))
    return done.path


def test_it_is_opened_with_its_own_split(tmp_path):
    settings = {"method": "links", "dataset": "balanced-tree"}
    path = made_before(tmp_path, links__trained_ends=False, **settings)
    assert curvfed.load(path).config["links.trained-ends"] is False
    assert RunFiles(path).config["links.trained-ends"] is False
    with pytest.raises(
        ConfigError,
        match=r"trained-ends = true, but the run began with false; allowed is .*trained-ends=false",
    ):
        run(tmp_path, num_rounds=2, resume=True, **settings)
    resumed = run(tmp_path, num_rounds=2, resume=True, links__trained_ends=False, **settings)
    assert len(resumed.rounds) > 1


def test_files_of_users_and_of_other_data_stay_as_they_are(tmp_path):
    file = tmp_path / "config.toml"
    text = "[links]\nnegatives = 5\n"
    file.write_text(text)
    assert read_settings(file) == {"links.negatives": 5}
    write_settings(file, text)
    expected = {"links.negatives": 5, "links.trained-ends": False}
    assert read_settings(file, written_by_run=True) == expected
    write_settings(file, text + "trained-ends = true\n")
    assert read_settings(file, written_by_run=True)["links.trained-ends"] is True
    write_settings(file, 'method = "fedavg"\n')
    assert read_settings(file, written_by_run=True) == {"method": "fedavg"}

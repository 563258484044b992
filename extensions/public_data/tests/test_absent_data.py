"""Public data that are absent and cannot be downloaded: found before anything is made."""

import pytest

import curvfed
from curvfed.deployments.commands.command import main
from curvfed.extensions.public_data import downloads
from curvfed.strategies.errors import ConfigError


@pytest.fixture
def keys(tmp_path):
    """Where the command looks for data, and would make its folder."""
    return [f"data-dir={tmp_path / 'data'}", f"results-dir={tmp_path / 'results'}"]


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("dataset", ["Cora", "MUTAG", "mnist", "olsson"])
@pytest.mark.parametrize("command", ["simulate", "run"])
def test_a_run_is_refused_once_and_leaves_nothing(tmp_path, capsys, keys, command, dataset):
    method = "hull" if dataset == "olsson" else "fedavg"
    assert main([command, f"method={method}", f"dataset={dataset}", *keys]) == 2
    output = capsys.readouterr()
    assert output.err.startswith(f'error: dataset = "{dataset}": the files of ')
    assert output.err.count("the download fails") == 1
    assert output.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("offline")
def test_so_is_a_run_in_python(tmp_path):
    with pytest.raises(ConfigError, match="the download fails"):
        curvfed.simulate(
            "fedavg", dataset="Cora", data_dir=tmp_path / "data", results_dir=tmp_path / "results"
        )
    assert list(tmp_path.iterdir()) == []


def test_the_download_is_tried_before_the_run(tmp_path, monkeypatch, capsys, keys):
    fetched = []
    monkeypatch.setattr(downloads, "fetch", lambda code, root, folder: fetched.append(root))
    assert main(["simulate", "dataset=Cora", *keys]) == 2
    assert fetched == [tmp_path / "data" / "planetoid"]
    assert "the download lacks some" in capsys.readouterr().err

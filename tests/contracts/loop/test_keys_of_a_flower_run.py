"""A run by Flower says which keys came by its command, and how to write dropped ones."""

import re
from types import SimpleNamespace

import pytest
from flwr.common.config import parse_config_args

import curvfed
import curvfed.server_app.app
from curvfed.deployments.arguments import read_request
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import defaults
from curvfed.strategies.errors import ConfigError


def run_of_flower(run_config, monkeypatch, capsys):
    """What a run by Flower says first, and the configuration that it serves."""
    served = []
    serve = curvfed.server_app.app.serve
    monkeypatch.setattr(curvfed.server_app.app, "serve", lambda config, grid: served.append(config))
    context = SimpleNamespace(run_config=defaults() | run_config)
    curvfed.server_app.app.main(None, context)
    monkeypatch.setattr(curvfed.server_app.app, "serve", serve)
    return capsys.readouterr().out, served[0]


def test_flower_drops_pairs_with_spaces_and_the_run_says_how_to_write_them(monkeypatch, capsys):
    dropped = parse_config_args(['method = "hyperfed" dataset = "digits"'])
    said, _ = run_of_flower(dropped, monkeypatch, capsys)
    assert said.count("no key was given: all are defaults, method=flatland") == 1
    pairs = re.search(r"--run-config '(.*?)'", said)[1]
    words = re.search(r"curvfed run (method=\S+ dataset=\S+)", said)[1].split()
    said, config = run_of_flower(parse_config_args([pairs]), monkeypatch, capsys)
    assert "no key was given" not in said
    assert (config.method, config.dataset) == ("hyperfed", "digits")
    settings = read_request(words).settings
    assert (settings["method"], settings["dataset"]) == ("hyperfed", "digits")


def test_a_key_beside_dropped_ones_does_not_hide_them(monkeypatch, capsys):
    dropped = parse_config_args(['method = "hyperfed" dataset = "digits" num-rounds=2'])
    said, config = run_of_flower(dropped, monkeypatch, capsys)
    assert config.num_rounds == 2
    assert "method=flatland and dataset=trees are the defaults; if you gave others" in said
    for given in ('method="hyperfed" num-rounds=2', 'method="hull" dataset="uniform" seed=2'):
        said, _ = run_of_flower(parse_config_args([given]), monkeypatch, capsys)
        assert "are the defaults" not in said


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"seed": 3, "run-name": "mine"}, "seed=3"),
        ({}, "none"),
        ({"method": "discriminant"}, "method=discriminant"),
    ],
)
def test_a_run_says_which_keys_differ_from_the_defaults(keys, line, tmp_path, monkeypatch, caplog):
    def stop(config, grid, directory):
        raise ConfigError("stop here", key="stop")

    monkeypatch.setattr(curvfed.server_app.app, "Run", stop)
    config = parse(keys)
    directory = SimpleNamespace(path=tmp_path)
    with caplog.at_level("INFO", "curvfed"), pytest.raises(ConfigError):
        curvfed.server_app.app.run_in(directory, config, None)
    assert f"keys that differ from the defaults: {line};" in caplog.text

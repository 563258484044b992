"""A run parses its settings once on each side, and resolves their defaults once on each side."""

import importlib

import pytest

import curvfed
from curvfed.deployments.commands.command import main
from curvfed.strategies.config.run_config import resolve_defaults

parsing = importlib.import_module("curvfed.strategies.config.parse")

SMALL = {"num-supernodes": 2, "num-rounds": 1, "embedding-dim": 8, "report": False}


def _in_python() -> None:
    keys = {key.replace("-", "_"): value for key, value in SMALL.items()}
    curvfed.simulate("fedavg", quiet=True, **keys)


def _by_command() -> None:
    assert (
        main(["simulate", "method=fedavg", *(f"{key}={str(SMALL[key]).lower()}" for key in SMALL)])
        == 0
    )


@pytest.mark.parametrize("run", [_in_python, _by_command])
def test_settings_are_parsed_twice_and_resolved_twice(run, own_home, monkeypatch):
    parsed = []
    check = parsing.check_together
    monkeypatch.setattr(parsing, "check_together", lambda run: parsed.append(run) or check(run))
    resolve_defaults.cache_clear()
    run()
    assert len(parsed) == 2
    assert resolve_defaults.cache_info().misses == 2

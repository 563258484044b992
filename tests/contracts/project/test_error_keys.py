"""Errors have stable keys: on the command line with --debug, in the summary, and in the code."""

import ast
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from curvfed.deployments.commands.command import main
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.errors import DataError, KeyedError

ROOT = Path(__file__).parents[3]
KEYED_ROOMS: tuple[str, ...] = (
    "client_app",
    "curvfed",
    "deployments",
    "geometry",
    "server_app",
    "strategies",
    "tasks",
)
"""Rooms in which every error names its kind."""

CLASSES = {
    *("AggregationError", "CalibrationError", "ClusterError", "ConfigError", "DataError"),
    *("FederationError", "HullError", "MessageError", "NothingToDraw", "PredictError"),
    *("RoundError", "SecureSumError", "StoreError", "TrainingError", "UsageError"),
    "WrongUsageError",
}


def calls(room: str) -> Iterator[tuple[str, ast.Call]]:
    """All constructions of errors, each with its place."""
    for path in sorted((ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in CLASSES:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


@pytest.mark.parametrize("room", KEYED_ROOMS)
def test_every_error_names_its_kind(room):
    for place, call in calls(room):
        keys = [word.value for word in call.keywords if word.arg == "key"]
        assert keys, f"{place}: no key"
        if isinstance(keys[0], ast.Constant):
            assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", keys[0].value), place


def test_a_key_is_area_and_kind_and_survives_another_process():
    error = pickle.loads(pickle.dumps(ConfigError("seed = -1", key="seed")))
    assert (error.key, str(error)) == ("config.seed", "seed = -1")
    assert DataError("a.csv", "a.csv", key="empty").key == "data.empty"
    assert KeyedError("?").key == "error"


def test_debug_shows_the_key(capsys):
    assert main(["check", "method=none", "--debug"]) == 2
    assert re.match(r"error \[[a-z-]+(\.[a-z-]+)?\]: ", capsys.readouterr().err)
    assert main(["check", "method=none"]) == 2
    assert capsys.readouterr().err.startswith("error: ")

"""No test waits for a time that a busy machine may need for something else: a timeout is injected,
or a minute at least."""

import ast
from pathlib import Path

TESTS = Path(__file__).parents[2]
ALONE = {"accept", "hosts", "long"}
"""Folders of tests that run alone, against hosts and connections that take their time."""

LEAST = 60


def short_waits(text: str) -> list[int]:
    """Lines of calls with a timeout, in numbers, of less than a minute."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.keyword)]
    names = {"timeout", "round_timeout"}
    return [
        call.value.lineno
        for call in calls
        if call.arg in names
        and isinstance(call.value, ast.Constant)
        and (call.value.value or LEAST) < LEAST
    ]


def test_no_test_waits_for_less_than_a_minute():
    files = [path for path in TESTS.rglob("*.py") if path.relative_to(TESTS).parts[0] not in ALONE]
    found = {
        str(path.relative_to(TESTS)): short_waits(path.read_text(encoding="utf-8"))
        for path in files
    }
    assert len(files) > 100
    assert {path: lines for path, lines in found.items() if lines} == {}

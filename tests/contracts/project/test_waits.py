"""No test waits for a time that a busy machine may need: it is injected, or a minute."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[2]
ALONE = {"hosts", "long"}
"""Folders of tests that run alone, against hosts and connections that take their time."""
WAIT = re.compile(r"\b(?:round_)?timeout=(\d+(?:\.\d*)?)\b")
LEAST = 60


def test_no_test_waits_for_less_than_a_minute():
    files = [path for path in TESTS.rglob("*.py") if path.relative_to(TESTS).parts[0] not in ALONE]
    assert len(files) > 100
    for path in files:
        for wait in WAIT.findall(path.read_text(encoding="utf-8")):
            assert float(wait) == 0 or float(wait) >= LEAST, path

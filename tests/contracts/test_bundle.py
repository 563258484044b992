"""Flower sends the app as a bundle, and leaves some files out by their names."""

from pathlib import Path

import pathspec
from flwr.common.constant import FAB_EXCLUDE_PATTERNS

ROOT = Path(__file__).parents[2]
PARTS = ("client_app", "server_app", "strategies", "tasks", "geometry")


def test_no_file_of_the_app_is_left_out():
    files = [path.relative_to(ROOT).as_posix() for part in PARTS for path in (ROOT / part).rglob("*.py")]
    assert len(files) > 50
    left_out = pathspec.PathSpec.from_lines("gitignore", FAB_EXCLUDE_PATTERNS)
    assert left_out.match_file("server_app/any_test.py")
    assert [name for name in files if left_out.match_file(name)] == []

"""`rounds.csv` with added columns: rows stay whole, and a resumed run ends in equal bytes."""

import csv

import pytest
from errors import refuses

from curvfed.server_app.directory import TABLES, append, check_table, truncate
from curvfed.strategies.errors import ConfigError

OURS = ",".join(TABLES["rounds.csv"])


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_columns_follow_in_the_order_in_which_they_come(tmp_path):
    path = tmp_path / "rounds.csv"
    append(path, [{"round": 1, "phase": "train", "reasons": 'a "b", c'}])
    assert path.read_text().splitlines()[0] == OURS
    append(path, [{"round": 2, "phase": "train", "zeta": 1.5, "loss": 0.25}])
    append(path, [{"round": 3, "alpha": "two\nlines, and more", "zeta": None}])
    append(path, [{"round": 4}])
    lines = path.read_text().splitlines()
    assert lines[0] == f"{OURS},zeta,alpha"
    assert len(lines) == 5
    rows = read(path)
    assert [row["zeta"] for row in rows] == ["", "1.5", "", ""]
    assert [row["alpha"] for row in rows] == ["", "", "two lines, and more", ""]
    assert rows[0]["reasons"] == 'a "b", c'
    assert all(None not in row and None not in row.values() for row in rows)
    check_table(path, 4)


@pytest.mark.parametrize("name", ["a,b", "a\nb", "", "1st", "a b", 'a"b', "é", "x" * 65])
def test_a_name_that_is_none_is_refused(name, tmp_path):
    path = tmp_path / "rounds.csv"
    append(path, [{"round": 1}])
    before = path.read_bytes()
    with refuses("figure-name", repr(name), error=ConfigError):
        append(path, [{"round": 2, name: 1}])
    assert path.read_bytes() == before


def test_the_same_bytes_after_a_kill(tmp_path):
    rows = [
        {"round": 1, "loss": 1.0},
        {"round": 2, "first": 1},
        {"round": 3, "first": 2, "second": 3},
        {"round": 4},
    ]
    whole = tmp_path / "whole" / "rounds.csv"
    whole.parent.mkdir()
    for row in rows:
        append(whole, [row])
    for checkpoint in range(len(rows)):
        for written in range(checkpoint, min(checkpoint + 2, len(rows)) + 1):
            path = tmp_path / f"{checkpoint}-{written}" / "rounds.csv"
            path.parent.mkdir()
            for row in rows[:written]:
                append(path, [row])
            with path.open("a") as file:
                file.write("4,tra")  # it was killed here
            check_table(path, checkpoint)
            truncate(path, checkpoint)
            for row in rows[checkpoint:]:
                append(path, [row])
            assert path.read_bytes() == whole.read_bytes()

"""The notes of `curvfed cluster status` on a run, and its connected nodes."""

import contextlib
import json
import os
import sqlite3

import pytest

from curvfed.extensions.cluster.commands import registry
from curvfed.extensions.cluster.commands.folder import ServerFolder
from curvfed.extensions.cluster.commands.status import LONGEST_NOTES, _notes, _run_rows, _shortened


@pytest.mark.parametrize(
    ("summary", "notes"),
    [
        ({"status": "failed", "error": "a node is lost", "warnings": ["few"]}, "a node is lost"),
        ({"status": "completed", "error": None, "warnings": ["few", "odd"]}, "few; odd"),
        ({"status": "completed", "warnings": []}, ""),
    ],
)
def test_a_failed_run_has_its_error_and_another_its_warnings(summary, notes, tmp_path):
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    assert _notes(tmp_path, summary["status"]) == notes


@pytest.mark.parametrize(
    ("state", "status"), [("failed", "completed"), ("running", "failed"), ("completed", "failed")]
)
def test_notes_are_not_those_of_another_run_of_the_name(state, status, tmp_path):
    summary = {"status": status, "error": "a node is lost", "warnings": ["few"]}
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    assert _notes(tmp_path, state) == ""


def test_a_run_that_was_resumed_lacks_the_notes_of_the_later_one(tmp_path):
    summary = {"status": "failed", "error": "a node is lost"}
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    run = {"elapsed": 1.0, "status-details": "N/A", "pending-at": "now"}
    runs = [
        run | {"run-id": "2", "status": "finished:failed"},
        run | {"run-id": "1", "status": "finished:stopped", "status-details": "N/Asent SIGTERM"},
        run
        | {
            "run-id": "1",
            "status": "finished:failed",
            "status-details": "ServerApp failed with exception: a disk is full",
        },
    ]
    rows = _run_rows(runs, dict.fromkeys(("1", "2"), str(tmp_path)))
    assert [row[-1] for row in rows] == ["a node is lost", "sent SIGTERM", "a disk is full"]


def test_a_run_without_files_here_has_no_notes_and_long_ones_are_cut(tmp_path):
    assert _notes(tmp_path / "elsewhere", "failed") == ""
    assert _shortened("short") == "short"
    assert len(_shortened("word " * 100)) == LONGEST_NOTES


def test_a_node_that_this_superlink_has_not_heard_is_offline(tmp_path, monkeypatch):
    folder = ServerFolder(tmp_path)
    folder.flower_home.mkdir()
    registry.note_start(folder)
    os.utime(folder.flower_home / "started", (1000, 1000))
    with contextlib.closing(sqlite3.connect(folder.database)) as connection, connection:
        connection.execute("CREATE TABLE node (node_id, online_until, heartbeat_interval)")
        rows = [(1, 1059, 30), (-2, 1061, 30), (-3, 1059, 30), (4, None, 30)]
        connection.executemany("INSERT INTO node VALUES (?, ?, ?)", rows)
    ids = [1, 2**64 - 2, 2**64 - 3, 4]
    nodes = [{"node-id": str(identity), "status": "online"} for identity in ids]
    monkeypatch.setattr(registry, "registered_nodes", lambda folder: nodes)
    heard = registry.heard_nodes(folder)
    assert [node["status"] for node in heard] == ["offline", "online", "offline", "online"]
    assert heard[0]["offline-at"] == "1970-01-01 00:16:40Z"

"""The notes of `curvfed cluster status` on a run."""

import json

import pytest

from curvfed.extensions.cluster.commands.status import LONGEST_NOTES, _notes, _shortened


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
    assert _notes(tmp_path) == notes


def test_a_run_without_files_here_has_no_notes_and_long_ones_are_cut(tmp_path):
    assert _notes(tmp_path / "elsewhere") == ""
    assert _shortened("short") == "short"
    assert len(_shortened("word " * 100)) == LONGEST_NOTES

"""A file that has changed is seen as changed, also where its size and its time are as before."""

import os
from pathlib import Path

import pytest

from curvfed.tasks import stored_files
from curvfed.tasks.examples import cache_key
from curvfed.tasks.images import layout
from curvfed.tasks.stored_files import file_stamps


def rewrite(path: Path, content: bytes) -> None:
    """Other contents of one size and time: within a tick of the clock, or by `cp -p`."""
    before = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


@pytest.mark.parametrize("limit", ["MAX_BYTES", "MAX_FILES", None])
def test_other_contents_of_one_size_and_time_are_seen(limit, tmp_path, monkeypatch):
    if limit is not None:  # as if the file were too large, or one of too many
        monkeypatch.setattr(stored_files, limit, 0)
    path = tmp_path / "a.csv"
    path.write_bytes(b"x,y,1")
    before, key = file_stamps([path]), cache_key({}, [path])
    assert file_stamps([path]) == before
    assert before[0][:2] == (str(path), 5)
    rewrite(path, b"x,y,2")
    assert file_stamps([path]) != before
    assert cache_key({}, [path]) != key


def test_what_cannot_be_read_is_left_to_its_reader(tmp_path):
    assert file_stamps([tmp_path / "none.png"]) == [(str(tmp_path / "none.png"), 0, 0, "")]
    os.mkfifo(tmp_path / "pipe.png")
    for path in (tmp_path, tmp_path / "pipe.png"):
        assert file_stamps([path])[0][3] == ""


def test_an_image_of_one_size_and_time_is_another_image(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.png").write_bytes(b"one")
    before = layout.read_layout(tmp_path).digest
    rewrite(tmp_path / "a" / "0.png", b"two")
    assert layout.read_layout(tmp_path).digest != before


def test_an_old_layout_is_read_again_once_a_file_or_folder_changes(tmp_path, monkeypatch):
    deep = tmp_path / "a" / "patient"
    deep.mkdir(parents=True)
    (deep / "0.png").write_bytes(b"one")
    monkeypatch.setattr(stored_files, "TICK_NS", -(10**18))  # as if all were long ago
    before = layout.read_layout(tmp_path)
    assert layout.read_layout(tmp_path) is before
    rewrite(deep / "0.png", b"two")
    after = layout.read_layout(tmp_path)
    assert after.digest != before.digest
    assert layout.read_layout(tmp_path) is after
    (deep / "1.png").write_bytes(b"new")
    assert len(layout.read_layout(tmp_path).samples) == 2

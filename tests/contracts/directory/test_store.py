"""Stamped arrays on disk: whole or not at all, the last two kept, for the owner's eyes alone."""

import errno
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from errors import refuses
from safetensors.numpy import load_file, save_file

from curvfed.strategies.wire.store import LostState, Store, StoreError
from curvfed.tasks.stored_files import write_atomically

ARRAYS = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "k": np.array(0.25, dtype=np.float32),
    "none": np.zeros((0, 4), dtype=np.float64),
    "turned": np.arange(6, dtype=np.float64).reshape(2, 3).T,
    "count": np.array([7], dtype=np.int64),
}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def kept(folder: Path) -> list[str]:
    """What is in the folder."""
    return sorted(entry.name for entry in folder.iterdir())


def test_what_is_saved_comes_back(tmp_path):
    store = Store(tmp_path / "a" / "b")
    metadata = {"run": 'a "name" with ü', "numbers": [1, 2.5, None], "nested": {"x": {}}}
    store.save(3, ARRAYS, metadata)
    arrays, notes = store.load(3)
    assert notes == metadata
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert (arrays[name].dtype, arrays[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(arrays[name], array)


def test_the_file_is_one_of_safetensors(tmp_path):
    """Its own library reads what is written; what others write has no digest and is refused."""
    store = Store(tmp_path)
    store.save(1, ARRAYS, {"any": 1})
    theirs = load_file(tmp_path / "00000001.safetensors")
    assert theirs.keys() == ARRAYS.keys()
    assert all(np.array_equal(theirs[name], array) for name, array in ARRAYS.items())
    contiguous = {name: np.ascontiguousarray(array) for name, array in ARRAYS.items()}
    save_file(contiguous, tmp_path / "00000002.safetensors", {"json": "[]"})
    with pytest.raises(LostState, match=r"round 2 .* do not match its digest"):
        store.load(2)


def test_files_are_for_the_owner_alone_whatever_the_umask(tmp_path):
    old = os.umask(0o000)
    try:
        store = Store(tmp_path / "new")
        for stamp in (1, 2, 3, 4):
            store.save(stamp, ARRAYS, {}, base=stamp - 1)
    finally:
        os.umask(old)
    assert mode(tmp_path / "new") == 0o700
    assert {mode(path) for path in (tmp_path / "new").iterdir()} == {0o600}


def test_the_new_stamp_and_its_base_are_kept_and_no_other(tmp_path):
    store = Store(tmp_path)
    assert store.stamps() == []
    for stamp, base, left in [
        (1, 0, [1]),
        (2, 1, [1, 2]),
        (3, 2, [2, 3]),
        (7, 2, [2, 7]),
        (8, 2, [2, 8]),
        (9, 8, [8, 9]),
    ]:
        store.save(stamp, {"w": np.full(3, stamp, np.float32)}, {"stamp": stamp}, base)
        assert store.stamps() == left
        assert all(store.load(there)[1] == {"stamp": there} for there in left)
        assert len(kept(tmp_path)) == len(left)


def test_a_straggler_removes_nothing_of_a_later_round(tmp_path):
    """A process that ends round 5 after another one ended round 6, which the server counts on."""
    late, other = Store(tmp_path), Store(tmp_path)
    late.save(4, {}, {"by": "late"}, base=0)
    other.save(6, {}, {"by": "other"}, base=4)
    late.save(5, {}, {"by": "late"}, base=4)
    Store(tmp_path).save(5, {}, {"by": "third"}, base=4)
    assert Store(tmp_path).load(6)[1] == {"by": "other"}
    other.save(7, {}, {"by": "other"}, base=6)
    assert {6, 7} <= set(Store(tmp_path).stamps())


def test_an_absent_stamp_names_the_kept_ones(tmp_path):
    store = Store(tmp_path)
    with refuses("missing", "round 5", "none", error=StoreError):
        store.load(5)
    store.save(1, ARRAYS, {})
    store.save(2, ARRAYS, {}, base=1)
    with refuses("missing", "round 5", "1, 2", error=StoreError):
        store.load(5)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.99])
def test_a_torn_file_is_unreadable_and_the_one_before_is_there(tmp_path, share):
    store = Store(tmp_path)
    store.save(1, ARRAYS, {"stamp": 1})
    store.save(2, ARRAYS, {"stamp": 2}, base=1)
    path = tmp_path / "00000002.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with refuses("damaged", "round 2", error=StoreError):
        store.load(2)
    assert store.load(1)[1] == {"stamp": 1}


def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    store = Store(tmp_path)
    store.save(1, ARRAYS, {"stamp": 1})
    store.save(2, ARRAYS, {"stamp": 2}, base=1)

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("curvfed.strategies.wire.store.os.replace", full)
    with pytest.raises(OSError, match="No space"):
        store.save(3, ARRAYS, {}, base=2)
    monkeypatch.undo()
    assert Store(tmp_path).load(2)[1] == {"stamp": 2}
    assert not [name for name in kept(tmp_path) if name.startswith(".")]
    store.save(3, ARRAYS, {"stamp": 3}, base=2)
    assert store.stamps() == [2, 3]


def test_the_only_older_state_is_not_written_over(tmp_path, monkeypatch):
    """Where the stamp that a state was computed from is absent, an older one is all there is."""
    store = Store(tmp_path)
    store.save(4, ARRAYS, {"stamp": 4})

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("curvfed.strategies.wire.store.os.writev", full)
    with pytest.raises(OSError, match="No space"):
        store.save(7, ARRAYS, {}, base=6)
    monkeypatch.undo()
    assert Store(tmp_path).load(4)[1] == {"stamp": 4}
    assert kept(tmp_path) == ["00000004.safetensors"]
    store.save(7, ARRAYS, {"stamp": 7}, base=6)
    monkeypatch.setattr("curvfed.strategies.wire.store.os.writev", full)
    with pytest.raises(OSError, match="No space"):
        store.save(8, ARRAYS, {}, base=6)
    assert Store(tmp_path).load(7)[1] == {"stamp": 7}


def test_a_file_of_earlier_versions_is_removed(tmp_path):
    (tmp_path / ".spare").write_bytes(b"a personal state")
    Store(tmp_path).save(1, ARRAYS, {})
    assert kept(tmp_path) == ["00000001.safetensors"]


def test_a_read_only_disk_is_the_error_even_if_nothing_can_be_removed_there(tmp_path, monkeypatch):
    """On a read-only file system unlink fails for an absent file too."""

    def refuse(*arguments, **keywords):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(OSError, match="Read-only") as caught:
        write_atomically(tmp_path / "file", b"new")
    assert caught.value.__context__ is None


def test_write_atomically_is_all_or_nothing(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert (path.read_bytes(), kept(tmp_path)) == (b"new", ["file"])

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("curvfed.strategies.wire.store.os.replace", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"newest")
    assert (path.read_bytes(), kept(tmp_path)) == (b"new", ["file"])


@pytest.mark.parametrize("content", [b"\0" * 4096, b"\xff" * 64, b"{}", b"\x02\0\0\0\0\0\0\0{}"])
def test_a_file_of_something_else_is_unreadable(tmp_path, content):
    (tmp_path / "00000002.safetensors").write_bytes(content)
    with refuses("damaged", "round 2", error=StoreError):
        Store(tmp_path).load(2)


def test_a_full_disk_is_named_with_the_file_and_its_size(tmp_path, monkeypatch):
    def full(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "writev", full)
    with pytest.raises(OSError, match=r"this file needs [\d,]+ bytes: .*00000001") as raised:
        Store(tmp_path / "kept").save(1, {"w": np.zeros(100)}, {})
    assert raised.value.errno == errno.ENOSPC
    assert Store(tmp_path / "kept").stamps() == []

"""What a client keeps on disk: its owner's alone, whole under `kill -9`, never another's."""

import multiprocessing
import os
import random
import re
import signal
import stat
import time
import warnings
from ctypes import c_int64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from graph_fixtures import user_fields

from curvfed.client_app.client import Client
from curvfed.client_app.description import describe
from curvfed.client_app.node import Node
from curvfed.client_app.personal import FixedFile, collect_state, restore_state
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.wire.messages import Facts
from curvfed.strategies.wire.store import Store, StoreError
from curvfed.tasks.stored_files import write_atomically

TRIES = 100
SIZE = 20_000
STATE_HINT = "give the run another run-name, or this node another state-path"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def temporaries(folder: Path) -> list[str]:
    """What writers that were killed left."""
    return [entry.name for entry in folder.iterdir() if re.fullmatch(r"\..+-\d+", entry.name)]


def arrays_of(stamp: int) -> dict[str, np.ndarray]:
    return {"w": np.full(SIZE, stamp, np.float64), "k": np.array(stamp, np.int64)}


def write(folder: Path, announced: Any) -> None:
    """Stamp after stamp, and what is fixed beside it, until somebody kills this process."""
    store, fixed = Store(folder), FixedFile(folder)
    stamp = max(store.stamps(), default=0)
    while True:
        stamp += 1
        store.save(stamp, arrays_of(stamp), {"stamp": stamp}, base=stamp - 1)
        announced.value = stamp
        fixed.write(arrays_of(7), "run")


@pytest.mark.long
def test_a_hundred_kills(tmp_path):
    """Each leaves the last stamp whole, and the one before unless its file was just becoming that of
    the next; the next writer clears up."""
    fork, chance = multiprocessing.get_context("fork"), random.Random(0)
    store, announced, torn, least = Store(tmp_path), fork.RawValue(c_int64, 0), 0, 0
    for _ in range(TRIES):
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # of forking where there are threads: this child has none
            writer = fork.Process(target=write, args=(tmp_path, announced))
            writer.start()
        # there is a stamp before the last only then
        while announced.value <= max(least, 1) and writer.is_alive():
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.01))
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        assert writer.exitcode == -signal.SIGKILL
        stamps = store.stamps()
        assert stamps[-1] - announced.value in (0, 1)
        before = stamps[-2:-1]
        assert before == [stamps[-1] - 1] or (not before and temporaries(tmp_path))
        for stamp in stamps:
            arrays, metadata = store.load(stamp)
            assert metadata == {"stamp": stamp}
            assert {name: (array == stamp).all() for name, array in arrays.items()} == {
                "w": True,
                "k": True,
            }
        assert (FixedFile(tmp_path).read("run")["w"] == 7).all()
        assert {mode(path) for path in tmp_path.iterdir()} == {0o600}
        left = temporaries(tmp_path)
        assert len(left) <= 1
        torn, least = torn + len(left), stamps[-1]
    assert torn > 0
    store.save(least + 1, arrays_of(least + 1), {}, base=least)
    FixedFile(tmp_path).write(arrays_of(7), "run")
    assert not temporaries(tmp_path)
    assert store.stamps() == [least, least + 1]


def test_a_file_that_another_process_is_writing_stays(tmp_path):
    theirs = tmp_path / f".00000002.safetensors-{os.getppid()}"
    theirs.write_bytes(b"half")
    Store(tmp_path).save(1, {}, {})
    write_atomically(tmp_path / "00000002.safetensors", b"")
    assert theirs.read_bytes() == b"half"


def test_what_is_fixed_is_its_owners_alone_whatever_the_umask(tmp_path, monkeypatch):
    seen = []
    replace = os.replace
    monkeypatch.setattr(
        os,
        "replace",
        lambda source, target: seen.append(mode(Path(source))) or replace(source, target),
    )
    old = os.umask(0)
    try:
        FixedFile(tmp_path / "client").write(arrays_of(1), "run")
        write_atomically(tmp_path / "summary.json", b"{}")
    finally:
        os.umask(old)
    assert seen == [0o600, 0o666]
    assert mode(tmp_path / "client") == 0o700
    assert mode(tmp_path / "client" / "fixed.safetensors") == 0o600


PERSONAL = {"k": torch.zeros(()), "head.weight": torch.zeros(3, 4)}


@pytest.mark.parametrize(
    "change",
    [
        {"parameter/head.weight": np.zeros((3, 5), np.float32)},
        {"parameter/head.weight": np.zeros((1, 4), np.float32)},  # would spread over the others
        {"parameter/k": np.zeros(1, np.float32)},
        {"parameter/k": None},
    ],
    ids=["wider", "one row", "a list", "absent"],
)
def test_state_of_another_model_is_refused(change):
    stored = {
        name: array
        for name, array in (collect_state(PERSONAL, None) | change).items()
        if array is not None
    }
    with pytest.raises(StoreError, match=rf"belongs to another model \(.*\): {STATE_HINT}"):
        restore_state(stored, PERSONAL, None)


def client_of(
    folder: Path, run: str = "run", partition: int = 0, method: str = "fedper", seed: int = 1
) -> Client:
    torch.save(user_fields(30, seed=seed), folder / "own.pt")
    node = {
        "partition-id": partition,
        "data-path": str(folder / "own.pt"),
        "state-path": str(folder / "state"),
    }
    return Client(RunConfig(method=method, embedding_dim=4), run, Node.read(node))


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"run": "another"}, "run"),
        ({"partition": 1}, "partition and data"),  # a node's digest is keyed by its partition too
        ({"method": "flatland"}, "method"),
        ({"seed": 2}, "data"),
        ({"partition": 1, "seed": 2}, "partition and data"),
    ],
    ids=str,
)
def test_state_of_another_run_client_method_or_data_is_refused(other, named, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    theirs = client_of(tmp_path, **other)
    facts = Facts(
        task="nodes",
        num_features=describe(theirs).num_features,
        class_names=describe(theirs).class_names,
    )
    theirs.prepare(facts, 0)
    theirs.commit(1, base=0)
    mine = client_of(tmp_path)
    mine.files.store.folder.parent.mkdir(parents=True, exist_ok=True)
    if theirs.files.store.folder != mine.files.store.folder:
        os.rename(theirs.files.store.folder, mine.files.store.folder)
    with pytest.raises(
        StoreError, match=f"round 1 in .* belongs to another {named}: {STATE_HINT}$"
    ):
        mine.prepare(facts, 1)
    mine.prepare(facts, 0)


def test_a_folder_in_the_place_of_a_stamp_is_no_stamp_and_is_named(tmp_path):
    store = Store(tmp_path)
    store.save(1, arrays_of(1), {})
    (tmp_path / "00000002.safetensors").mkdir()
    assert store.stamps() == [1]
    with pytest.raises(StoreError, match=r"00000002\.safetensors is a folder; remove it"):
        store.save(2, arrays_of(2), {}, base=1)
    assert store.stamps() == [1]

"""Weights & Biases: its file holds the figures of rounds.csv, and no more of the machine."""

import math
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from app_runs import Run, run

from curvfed.server_app.directory import checkpoint

pytestmark = pytest.mark.long  # its package takes seconds to import

BLOCK = 32768
"""Size of a block of the file, which is a LevelDB log."""

FULL = 1
LAST = 4

TREES = {"method": "fedavg", "num_rounds": 3, "sinks": "wandb", "report": False}
TEXTS = {"round", "phase", "reasons", "aggregation_note"}


def contents(path: Path) -> Iterator[bytes]:
    """The records of the file."""
    data = path.read_bytes()
    assert data.startswith(b":W&B")
    position = 7
    parts = b""
    while position < len(data):
        if BLOCK - position % BLOCK < 7:
            position += BLOCK - position % BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", data[position : position + 7])
        position += 7
        parts += data[position : position + length]
        position += length
        if kind in (FULL, LAST):
            yield parts
            parts = b""


def history(result: Run) -> tuple[dict[str, list[tuple[int, float]]], str]:
    """The curves of a run, and everything in its file as text."""
    from wandb.proto import wandb_internal_pb2

    (path,) = result.path.glob("wandb/offline-run-*/*.wandb")
    records: list[wandb_internal_pb2.Record] = []
    deadline = time.monotonic() + 120
    # another process of the package writes the file
    while not any(record.HasField("exit") for record in records):
        assert time.monotonic() < deadline
        records = [wandb_internal_pb2.Record.FromString(content) for content in contents(path)]
        time.sleep(0.05)
    curves: dict[str, list[tuple[int, float]]] = {}
    for record in records:
        for item in record.history.item:
            name = item.key or "/".join(item.nested_key)
            if not name.startswith("_"):
                step = record.history.step.num
                curves.setdefault(name, []).append((step, float(item.value_json)))
    return curves, "\n".join(map(str, records))


def expected(result: Run) -> dict[str, list[tuple[int, float]]]:
    """The figures of rounds.csv."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for row in result.rounds:
        for column in row.keys() - TEXTS:
            if row[column]:
                point = (int(row["round"]), float(row[column]))
                curves.setdefault(f"{row['phase']}/{column}", []).append(point)
    return curves


def assert_same(result: Run) -> None:
    curves, _ = history(result)
    reference = expected(result)
    assert curves.keys() == reference.keys()
    for name, points in reference.items():
        assert [step for step, _ in curves[name]] == [step for step, _ in points], name
        for (_, value), (_, reference_value) in zip(curves[name], points, strict=True):
            assert math.isclose(value, reference_value, rel_tol=1e-9), name


def test_the_file_has_every_round_once(tmp_path, own_home):
    result = run(tmp_path, **TREES)
    assert_same(result)
    _, text = history(result)
    assert "summary/status" in text
    assert "completed" in text
    assert "host:" not in text
    for about_the_machine in (str(Path.cwd()), sys.executable, '"hostname"', "cpu_count"):
        assert about_the_machine not in text


def test_a_resumed_run_has_every_round_once(tmp_path, own_home, monkeypatch):
    save = checkpoint.save

    def fail(store, state, *arguments):
        if state.round == 2:
            raise KeyboardInterrupt
        save(store, state, *arguments)

    monkeypatch.setattr(checkpoint, "save", fail)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, **TREES)
    monkeypatch.undo()
    assert_same(run(tmp_path, resume=True, **TREES))

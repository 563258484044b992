"""One flipped bit in each kind of stored file is refused, mended, or changes nothing."""

import errno
import logging
import random
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from errors import refuses
from graph_fixtures import same, user_fields

from curvfed.client_app.node import Node
from curvfed.client_app.node.keys import keyed
from curvfed.client_app.node.ledger import Ledger
from curvfed.client_app.node.policy import Policy
from curvfed.client_app.personal import FixedFile
from curvfed.deployments.commands.command import main
from curvfed.server_app.directory.array_files import read_npz, write_npz
from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.server_app.directory.run_name import check_name
from curvfed.strategies.config.parse import parse, read_settings
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.store import LostState, Store, StoreError, read
from curvfed.tasks import examples
from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.dataset import GraphDataset
from curvfed.tasks.stored_files import DamagedError

ARRAYS = {
    "w": np.arange(40, dtype=np.float32).reshape(8, 5),
    "k": np.array([-1.0]),
    "n": np.arange(3),
}


class MadeAnewError(Exception):
    """A cache that was not taken."""


@dataclass
class Stored:
    """A stored file, how it is read, and whether two contents are equal."""

    path: Path
    load: Callable[[], Any]
    equal: Callable[[Any, Any], bool] = lambda one, other: repr(one) == repr(other)


def directory(folder: Path) -> RunDirectory:
    return RunDirectory.open(parse({"results-dir": str(folder), "run-name": "run"}))


def state(folder: Path) -> Stored:
    Store(folder).save(3, ARRAYS, {"run": "a run", "partition": 4})
    return Stored(folder / "00000003.safetensors", lambda: Store(folder).load(3))


def fixed(folder: Path) -> Stored:
    FixedFile(folder).write(ARRAYS, "run")
    return Stored(folder / "fixed.safetensors", lambda: FixedFile(folder).read("run"))


def model(folder: Path) -> Stored:
    path = directory(folder).path / "model.safetensors"
    directory_of_it = RunDirectory(
        parse({"results-dir": str(folder), "run-name": "run"}), path.parent
    )
    directory_of_it.write_model(ARRAYS, {"method": "fedavg", "last_round": 3})
    return Stored(path, lambda: read(path))


def config(folder: Path) -> Stored:
    path = directory(folder).path / "config.toml"

    def load() -> dict[str, Any]:
        check_name(parse({"results-dir": str(folder), "run-name": "run", "resume": True}))
        return read_settings(path)

    return Stored(path, load)


def hulls(folder: Path) -> Stored:
    path = folder / "hulls.npz"
    write_npz(path, ARRAYS | {"names": np.array(["a", "b"]), "empty": np.zeros((0, 2))})
    return Stored(path, lambda: read_npz(path))


def cache(folder: Path) -> Stored:
    graph = GraphDataset(GraphSpec("own", folder), folder / "cache").own(_graph(folder))
    examples.load_prepared(ClientGraph, folder / "kept", 0, lambda: [graph])

    def make() -> list[ClientGraph]:
        raise MadeAnewError

    return Stored(
        folder / "kept" / "0.safetensors",
        lambda: examples.load_prepared(ClientGraph, folder / "kept", 0, make),
        same,
    )


def ledger(folder: Path) -> Stored:
    book = Ledger(folder / "ledger-00000.jsonl")
    for number in range(3):
        place = {"phase": "train", "round": 1}
        book.append("sum", run=f"run {number}", cohort=[0, 1, 2], session="5f", heads={}, **place)

    def load() -> list[Any]:
        return [
            {key: value for key, value in line.items() if key != "digest"} for line in book.lines()
        ]

    return Stored(book.path, load)


def secret(folder: Path) -> Stored:
    node = Node(partition=0, state_path=folder, rules=Policy())
    keyed("data", node)
    return Stored(folder / "digest.key", lambda: keyed("data", node))


def _graph(folder: Path) -> Path:
    path = folder / "graph.pt"
    torch.save(user_fields(), path)
    return path


NAMED = (DamagedError, StoreError, ConfigError, MadeAnewError)
"""Refusals; ValueError of an .npz file, whose text names it."""


@pytest.mark.parametrize("flips", [20, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", [state, fixed, model, config, hulls, cache, ledger, secret])
def test_one_flipped_bit_is_never_loaded_silently(kind, flips, tmp_path, caplog):
    caplog.set_level(logging.CRITICAL, "curvfed")
    stored, chance = kind(tmp_path), random.Random(kind.__name__)
    whole, content = stored.path.read_bytes(), stored.load()
    refused = 0
    for _ in range(flips):
        place, bit = chance.randrange(len(whole)), chance.randrange(8)
        stored.path.write_bytes(
            whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :]
        )
        try:
            result = stored.load()
        except NAMED:
            refused += 1
        except ValueError as error:
            assert str(stored.path) in str(error)  # noqa: PT017
            refused += 1
        else:  # the flip hit the name of the digest: all else is whole
            assert stored.equal(result, content), (place, bit)
    assert refused > 0.5 * flips
    stored.path.write_bytes(whole)
    assert stored.equal(stored.load(), content)


def test_state_of_an_older_round_under_the_name_of_a_newer_one_is_lost(tmp_path):
    store = Store(tmp_path)
    store.save(1, ARRAYS, {})
    (tmp_path / "00000002.safetensors").write_bytes(
        (tmp_path / "00000001.safetensors").read_bytes()
    )
    with refuses("damaged", "round 2", "round 1", error=LostState):
        store.load(2)
    assert store.load(1)[1] == {}


def test_a_line_of_the_ledger_that_is_damaged_stops_the_node_and_a_torn_one_does_not(tmp_path):
    stored = ledger(tmp_path)
    book, whole = Ledger(stored.path), stored.path.read_bytes()
    stored.path.write_bytes(whole[:-1] + b"\x0b")  # the end of the last line
    for act in (book.lines, lambda: book.append("run", run="next", method="hull")):
        with pytest.raises(
            ConfigError, match=r"ledger is damaged: .*ledger-00000.jsonl, line 3; restore the file"
        ):
            act()
    for cut in range(1, len(whole) - whole[:-1].rfind(b"\n") - 1):
        stored.path.write_bytes(whole[:-cut])
        book.append("run", run="next", method="hull")
        assert [line["run"] for line in book.lines()] == ["run 0", "run 1", "next"]


def test_files_without_a_digest_are_refused(tmp_path):
    (tmp_path / "ledger.jsonl").write_bytes(b'{"time": "t", "kind": "sum", "run": "old"}\n')
    with pytest.raises(ConfigError, match=r"ledger has another format than 2, .*ledger.jsonl"):
        Ledger(tmp_path / "ledger.jsonl").append("sum", run="new")
    np.savez_compressed(tmp_path / "old.npz", a=np.arange(3))
    with pytest.raises(ValueError, match=r"old.npz cannot be read: .* do not match its digest"):
        read_npz(tmp_path / "old.npz")
    (tmp_path / "digest.key").write_bytes(bytes(range(32)))
    with pytest.raises(ConfigError, match=r"digest.key"):
        keyed("data", Node(partition=0, state_path=tmp_path, rules=Policy()))


@pytest.mark.parametrize("command", ["check", "simulate", "run"])
@pytest.mark.parametrize("place", ["file", "locked"])
def test_results_that_cannot_be_written_are_refused_before_anything_starts(
    command, place, tmp_path, monkeypatch, capsys
):
    """A file in the way, and a folder where nothing can be made whatever its rights say."""

    def refuse(*arguments, **options):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    (tmp_path / "file").touch()
    (tmp_path / "locked").mkdir()
    if place == "locked":
        monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    monkeypatch.setattr(subprocess, "Popen", None)
    results = tmp_path / place / "results"
    assert main([command, "method=fedavg", "dataset=trees", f"results-dir={results}"]) == 2
    error = capsys.readouterr().err
    assert f'results-dir = "{results}"' in error
    assert "cannot be made" in error
    assert not results.exists()


@pytest.mark.parametrize("settings", [{}, {"run-name": "run"}, {"run-name": "run", "resume": True}])
def test_a_folder_that_cannot_be_entered_is_refused_before_the_run(settings, tmp_path, monkeypatch):
    config = parse({"results-dir": str(tmp_path)} | settings)

    def denied(path, **options):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "stat", denied)
    with refuses("unwritable", "results-dir = ", "Permission denied", error=ConfigError):
        check_name(config)

"""Prepared clients on disk: read by torch alone, whole or made anew, never stale."""

import logging
import os

import pytest
from graph_fixtures import same, write_user_graph

from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.dataset import GraphDataset

CLIENTS = 4


def test_what_is_kept_is_what_was_prepared(cora_dir, tmp_path):
    spec = GraphSpec("cora", cora_dir)
    prepared = GraphDataset(spec, tmp_path).client(0, CLIENTS)
    assert len(list(tmp_path.rglob("*.safetensors"))) == CLIENTS
    assert same(prepared, GraphDataset(spec, tmp_path).client(0, CLIENTS))
    assert not list(tmp_path.rglob(".*"))


@pytest.mark.parametrize("damage", ["cut", "empty", "flip", "text"])
def test_a_damaged_file_is_made_anew(cora_dir, tmp_path, damage, caplog):
    spec = GraphSpec("cora", cora_dir)
    expected = GraphDataset(spec, tmp_path).client(0, CLIENTS)
    (path,) = tmp_path.rglob("0.safetensors")
    content = path.read_bytes()
    flipped = content[:-3] + bytes([content[-3] ^ 1]) + content[-2:]
    path.write_bytes(
        {"cut": content[:-9], "empty": b"", "flip": flipped, "text": b"no tensors here"}[damage]
    )
    with caplog.at_level(logging.WARNING, "curvfed"):
        assert same(expected, GraphDataset(spec, tmp_path).client(0, CLIENTS))
        assert str(path) in caplog.text
        caplog.clear()
        assert same(expected, GraphDataset(spec, tmp_path).client(0, CLIENTS))
        assert not caplog.text


def test_a_cache_that_cannot_be_written_is_done_without(cora_dir, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING, "curvfed"):
        graph = GraphDataset(GraphSpec("cora", cora_dir), tmp_path / "file").client(0, CLIENTS)
    assert same(
        graph, GraphDataset(GraphSpec("cora", cora_dir), tmp_path / "good").client(0, CLIENTS)
    )
    assert str(tmp_path / "file") in caplog.text


def test_other_raw_files_are_not_served_from_the_cache(tmp_path):
    fields = write_user_graph(tmp_path / "own.pt")
    spec = GraphSpec(str(tmp_path / "own.pt"), tmp_path)
    before = GraphDataset(spec, tmp_path / "cache").client(0, 2)
    write_user_graph(tmp_path / "own.pt", x=fields["x"] + 1)
    os.utime(tmp_path / "own.pt", (1, 1))
    assert GraphDataset(spec, tmp_path / "cache").client(0, 2).digest != before.digest

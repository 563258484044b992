"""Prepared clients on disk: read by torch alone, whole or made anew, never stale."""

import logging
from dataclasses import replace

import pytest
from graph_fixtures import same

from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.dataset import GraphDataset

CLIENTS = 4


def test_what_is_kept_is_what_was_prepared(cora_dir, tmp_path):
    spec = GraphSpec("cora", cora_dir)
    prepared = GraphDataset(spec, tmp_path).client(0, CLIENTS)
    assert len(list(tmp_path.rglob("*.safetensors"))) == CLIENTS
    assert same(prepared, GraphDataset(spec, tmp_path).client(0, CLIENTS))
    other = GraphDataset(replace(spec, seed=1), tmp_path).client(0, CLIENTS)
    assert other.partition_digest != prepared.partition_digest
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

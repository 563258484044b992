"""Prepared clients on disk: read by torch alone, whole or made anew, never stale."""

import logging
import os

import pytest
from graph_fixtures import same, write_user_graph

from curvfed.tasks.graphs.data.clients import load_client
from curvfed.tasks.graphs.data.graph_spec import GraphSpec

CLIENTS = 4


def test_what_is_kept_is_what_was_prepared(cora_dir, tmp_path):
    spec = GraphSpec("cora", cora_dir)
    prepared = load_client(spec, 0, CLIENTS, tmp_path)
    assert len(list(tmp_path.rglob("*.safetensors"))) == CLIENTS
    assert same(prepared, load_client(spec, 0, CLIENTS, tmp_path))
    assert not list(tmp_path.rglob(".*"))


@pytest.mark.parametrize("damage", ["cut", "empty", "flip", "text"])
def test_a_damaged_file_is_made_anew(cora_dir, tmp_path, damage, caplog):
    spec = GraphSpec("cora", cora_dir)
    expected = load_client(spec, 0, CLIENTS, tmp_path)
    (path,) = tmp_path.rglob("0.safetensors")
    content = path.read_bytes()
    flipped = content[:-3] + bytes([content[-3] ^ 1]) + content[-2:]
    path.write_bytes(
        {"cut": content[:-9], "empty": b"", "flip": flipped, "text": b"no tensors here"}[damage]
    )
    with caplog.at_level(logging.WARNING, "curvfed"):
        assert same(expected, load_client(spec, 0, CLIENTS, tmp_path))
        assert str(path) in caplog.text
        caplog.clear()
        assert same(expected, load_client(spec, 0, CLIENTS, tmp_path))
        assert not caplog.text


def test_a_cache_that_cannot_be_written_is_done_without(cora_dir, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING, "curvfed"):
        graph = load_client(GraphSpec("cora", cora_dir), 0, CLIENTS, tmp_path / "file")
    assert same(graph, load_client(GraphSpec("cora", cora_dir), 0, CLIENTS, tmp_path / "good"))
    assert str(tmp_path / "file") in caplog.text


def test_other_raw_files_are_not_served_from_the_cache(tmp_path):
    fields = write_user_graph(tmp_path / "own.pt")
    spec = GraphSpec(str(tmp_path / "own.pt"), tmp_path)
    before = load_client(spec, 0, 2, tmp_path / "cache")
    write_user_graph(tmp_path / "own.pt", x=fields["x"] + 1)
    os.utime(tmp_path / "own.pt", (1, 1))
    assert load_client(spec, 0, 2, tmp_path / "cache").digest != before.digest

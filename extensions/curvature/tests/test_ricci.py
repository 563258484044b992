"""The mean Ollivier-Ricci curvature of a client: a value by hand, and the file that keeps it."""

import json
import logging
from pathlib import Path

import pytest
from graph_fixtures import graph_of

from curvfed.extensions.curvature import measures
from curvfed.extensions.curvature.measures import ollivier
from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.stored_files import UNSEALED, sealed

OLLIVIER = (3 * 3 / 4 + 1) / 4
"""Of `triangle_and_pair`: the lazy walks from two corners of a triangle differ in a quarter of
their mass, those from the two ends of a lone edge in nothing."""


@pytest.fixture
def triangle_and_pair() -> ClientGraph:
    return graph_of(6, [(0, 1), (0, 2), (1, 2), (3, 4)])


@pytest.fixture
def asked(monkeypatch) -> list[int]:
    """The number of edges of every graph whose curvature was worked out."""
    sizes, work_out = [], measures.ollivier_ricci

    def counting(edge_index, *rest):
        sizes.append(edge_index.shape[1] // 2)
        return work_out(edge_index, *rest)

    monkeypatch.setattr(measures, "ollivier_ricci", counting)
    return sizes


def test_it_is_the_mean_over_the_edges(triangle_and_pair):
    assert ollivier(triangle_and_pair) == pytest.approx(OLLIVIER)


def test_it_is_worked_out_once_and_kept_to_the_bit(triangle_and_pair, tmp_path, asked):
    folder = tmp_path / "new" / "cache"
    first = ollivier(triangle_and_pair, folder)
    assert asked == [4]
    (path,) = folder.iterdir()
    assert triangle_and_pair.digest in path.name
    assert folder.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text())[1] == first == pytest.approx(OLLIVIER)
    assert ollivier(triangle_and_pair, folder) == first
    assert asked == [4]
    path.write_bytes(sealed(f'["{UNSEALED}", -0.1234567890123456]'.encode()))
    assert ollivier(triangle_and_pair, folder) == -0.1234567890123456


def test_another_graph_has_a_file_of_its_own(triangle_and_pair, tmp_path, asked):
    ollivier(triangle_and_pair, tmp_path)
    pair = graph_of(6, [(3, 4)])
    for _ in range(2):
        assert ollivier(pair, tmp_path) == pytest.approx(1)
    assert asked == [4, 1]
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"NaN", b"1e999", b"null", b"\xff"],
    ids=lambda content: repr(content[:12]),
)
def test_what_is_damaged_is_made_anew(triangle_and_pair, tmp_path, content, asked):
    expected = ollivier(triangle_and_pair, tmp_path)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    path.write_bytes(content)
    for _ in range(2):
        assert ollivier(triangle_and_pair, tmp_path) == expected
    assert asked == [4, 4]
    assert path.read_bytes() == whole
    assert list(tmp_path.iterdir()) == [path]


def test_a_disk_that_fills_up_leaves_nothing_behind(
    triangle_and_pair, tmp_path, monkeypatch, caplog
):
    def full(source: str, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("curvfed.tasks.stored_files.os.replace", full)
    with caplog.at_level(logging.WARNING, "curvfed"):
        assert ollivier(triangle_and_pair, tmp_path) == pytest.approx(OLLIVIER)
    assert "No space left on device" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_no_flipped_bit_is_loaded_silently(triangle_and_pair, tmp_path, asked):
    expected = ollivier(triangle_and_pair, tmp_path)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert ollivier(triangle_and_pair, tmp_path) == expected
    assert len(asked) > 0.5 * len(whole)

"""The report of one-shot runs: the disc with its hulls, and files that are unfit."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hull_run import make_hull_run
from report_page import HOSTILE, Page, check_stands_alone

from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report import hull_figures, style, write_report
from curvfed.server_app.report.hull_figures import geodesic
from curvfed.server_app.report.page import Picture


def the_disc(folder: Path) -> Picture:
    with style.applied(style.PAGE_SIZE):
        picture = hull_figures.disc(RunFiles.read(folder))
    assert picture is not None
    return picture


def class_keys(picture: Picture) -> list[str]:
    return [text.get_text() for text in picture.figure.axes[0].get_legend().get_texts()]


@pytest.mark.parametrize(
    "spoil", [lambda path: path.unlink(), lambda path: path.write_bytes(b"none"), None]
)
def test_without_its_classifier_there_is_no_background(tmp_path: Path, spoil: Any) -> None:
    """Nor with that of another number of groups."""
    folder = make_hull_run(tmp_path)
    if spoil is None:
        other = make_hull_run(tmp_path / "other", classes=("a", "b"))
        (folder / "model.safetensors").write_bytes((other / "model.safetensors").read_bytes())
    else:
        spoil(folder / "model.safetensors")
    picture = the_disc(folder)
    assert "background" not in picture.caption
    assert not picture.figure.axes[0].images


def test_real_nodes_points_stay_unknown(tmp_path: Path) -> None:
    folder = make_hull_run(tmp_path, simulated=False, tested=False)
    picture = the_disc(folder)
    assert "Dots" not in picture.caption
    assert "Crosses" not in picture.caption
    assert class_keys(picture) == ["group 1", "group 2", "group 3"]


@pytest.mark.long
def test_many_hulls_are_a_small_page(tmp_path: Path) -> None:
    classes = tuple(f"class {one}" for one in range(8))
    folder = make_hull_run(
        tmp_path,
        clients=10,
        classes=classes,
        per_hull=100,
        reach=0.9,
    )
    assert len(write_report(folder).read_text()) < 700_000


def test_a_group_may_have_no_hulls(tmp_path: Path) -> None:
    names = {
        "names": np.array(["cat", "ant", "bee", ""]),
        "class_names": np.array(["ant", "bee", "cat", "dog"]),
    }
    picture = the_disc(make_hull_run(tmp_path, changes=names))
    assert class_keys(picture) == ["ant", "bee", "cat", "group 4"]


def test_names_from_other_machines_do_no_harm(tmp_path: Path) -> None:
    page = Page(
        write_report(make_hull_run(tmp_path, classes=(HOSTILE, "b" * 400, "\x00\ud800"[:1] + "c")))
    )
    check_stands_alone(page)


@pytest.mark.parametrize("kind", ["points", "segments", "equal", "far"])
def test_hulls_of_few_points(tmp_path: Path, kind: str) -> None:
    """Single points, segments, one point many times, and at the edge of what quantisation
    reaches.
    """
    rng = np.random.default_rng(1)
    hull = np.arange(6).repeat({"points": 1, "segments": 2, "equal": 1, "far": 3}[kind])
    points = rng.uniform(-0.6, 0.6, (len(hull), 2))
    if kind == "equal":
        points[:] = [0.3, 0.4]
    if kind == "far":
        points *= 0.99999 / np.hypot(*points.T)[:, None]
    changes: dict[str, Any] = {
        "points": points,
        "hull": hull,
        "client": hull // 3,
        "group": hull % 3,
    }
    changes |= {
        "bins": np.arange(len(hull)),
        "true_points": points,
        "true_hull": hull,
        "true_class": hull % 3,
    }
    folder = make_hull_run(tmp_path, changes=changes)
    patches = the_disc(folder).figure.axes[0].patches
    drawn = np.concatenate([patch.get_path().vertices for patch in patches[1:]])
    assert all(np.hypot(*(drawn - corner).T).min() < 1e-3 for corner in points)


def torn(path: Path) -> None:
    """Bytes within the archive that are not those that were written."""
    data = bytearray(path.read_bytes())
    for at in range(60, len(data) - 400, 40):
        data[at] ^= 255
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-40]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"not an archive"),
        torn,
    ],
)
def test_an_unfit_file_is_left_out(tmp_path: Path, spoil: Any) -> None:
    folder = make_hull_run(tmp_path, model=False)
    spoil(folder / "hulls.npz")
    run = RunFiles.read(folder)
    assert run.absent == ["rounds.csv", "clients.csv", "hulls.npz"]
    assert run.hulls is None


def test_polylines_look_like_geodesics() -> None:
    """Their points lie on the geodesic: distances add up. What lies between is nearly straight."""

    def distance(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        gaps = (1 - np.square(one).sum(axis=-1)) * (1 - np.square(other).sum(axis=-1))
        return 2 * np.arcsinh(np.sqrt(np.square(one - other).sum(axis=-1) / gaps))

    rng = np.random.default_rng(2)
    for radius in (0.01, 0.6, 0.99, 0.9999):
        for _ in range(20):
            turns = 2 * np.pi * rng.random(2)
            start, end = (
                radius
                * np.stack([np.cos(turns), np.sin(turns)], axis=1)
                * rng.uniform(0.5, 1, (2, 1))
            )
            line = geodesic(start, end, 2 / 340)
            assert (line[[0, -1]] == [start, end]).all()
            whole = distance(start, end)
            np.testing.assert_allclose(
                distance(start, line) + distance(line, end), whole, rtol=1e-6, atol=1e-9
            )
            fine = geodesic(start, end, 2e-4)
            assert max(off_line(point, line) for point in fine) < 0.3 * 2 / 340
            assert len(line) < 60


def off_line(point: np.ndarray, line: np.ndarray) -> float:
    return min(off_segment(point, start, end) for start, end in itertools.pairwise(line))


def off_segment(point: np.ndarray, start: np.ndarray, end: np.ndarray) -> float:
    along = end - start
    share = np.clip((point - start) @ along / max(float(along @ along), 1e-300), 0, 1)
    return float(np.hypot(*(start + share * along - point)))

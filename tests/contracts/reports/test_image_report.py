"""The report of runs on images: pictures of the global model, of personal ones and of the
aggregation."""

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_run import make_image_run
from report_page import Page

from curvfed.server_app.directory.global_test_file import GlobalTest
from curvfed.server_app.directory.npz import write_npz
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report import (
    class_scores,
    model_figures,
    write_report,
)
from curvfed.server_app.report.model_figures import MOST_FEATURES, project

ENTRY = b"PK\x01\x02"
"""What the entry of an archive's directory begins with."""

ALONE = (
    b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (0,), }"
    + b" " * 59
    + b"\n"
)
"""An array that is no archive of arrays."""

ANIMALS = ("ant", "bee", "cat")


def report(folder: Path) -> Page:
    return Page(write_report(folder))


def small(root: Path, **changes: Any) -> Path:
    """A run of few clients, rounds and images."""
    return make_image_run(
        root, **({"clients": 3, "rounds": 4, "classes": ANIMALS, "images": 90, "dim": 5} | changes)
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has everything. Read only."""
    root = tmp_path_factory.mktemp("whole")
    return make_image_run(
        root, "spherefed", space="sphere", clients=5, calibrated=True, fine_tuned=(10, 20)
    )


def rewrite(folder: Path, **changes: Any) -> None:
    """Change arrays of `global_test.npz`; None leaves one out."""
    with np.load(folder / "global_test.npz") as told:
        arrays = {name: told[name] for name in told} | changes
    write_npz(
        folder / "global_test.npz",
        {name: array for name, array in arrays.items() if array is not None},
    )


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-40]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"not an archive"),
        lambda path: overwrite(path, b"features.npy", 20, b"\xff" * 40),
        lambda path: overwrite(path, ENTRY, 8, b"\x01"),  # says that it is encrypted
        # says that it is compressed in an unknown way
        lambda path: overwrite(path, ENTRY, 10, b"\x09"),
        lambda path: path.write_bytes(ALONE),
        lambda path: rewrite(path.parent, labels=np.array(["one"] * 90)),
        lambda path: rewrite(path.parent, labels=np.zeros(90, [("a", int), ("b", int)])),
        lambda path: rewrite(path.parent, space=None),
        lambda path: rewrite(path.parent, space=np.array("torus")),
        lambda path: rewrite(path.parent, labels=np.zeros(3, int)),
        lambda path: rewrite(path.parent, labels=np.full(90, -1)),
        lambda path: rewrite(path.parent, predicted=np.full(90, -2)),
        lambda path: rewrite(path.parent, labels=np.zeros(0, int), predicted=np.zeros(0, int)),
        lambda path: rewrite(path.parent, features=np.zeros((91, 5))),
        lambda path: rewrite(path.parent, features=np.zeros(90)),
        lambda path: rewrite(path.parent, prototypes=np.zeros((3, 4))),
        lambda path: rewrite(path.parent, images=np.zeros((2, 4, 4, 1), np.uint8)),
        lambda path: rewrite(
            path.parent, images=np.zeros((1, 4, 4, 1), np.uint8), image_labels=np.array([9])
        ),
    ],
)
def test_an_unfit_file_of_predictions_is_left_out(tmp_path: Path, spoil: Any) -> None:
    folder = small(tmp_path, rounds=2)
    spoil(folder / "global_test.npz")
    run = RunFiles.read(folder)
    assert run.absent == ["global_test.npz"]
    assert class_scores.confusion(run) is model_figures.features(run) is None


def overwrite(path: Path, mark: bytes, at: int, data: bytes) -> None:
    """Write over what is so many bytes after a mark's beginning."""
    content = path.read_bytes()
    start = content.index(mark) + at
    path.write_bytes(content[:start] + data + content[start + len(data) :])


@pytest.mark.parametrize("seed", range(6))
def test_no_damage_breaks_the_reader(whole: Path, tmp_path: Path, seed: int) -> None:
    rng, content = np.random.default_rng(seed), bytearray((whole / "global_test.npz").read_bytes())
    for at in rng.integers(0, len(content), 1 + seed):
        content[at] ^= int(rng.integers(1, 256))
    (tmp_path / "global_test.npz").write_bytes(content)
    with contextlib.suppress(ValueError):
        GlobalTest.read(tmp_path / "global_test.npz")


def given(
    features: Any, space: str = "flat", prototypes: Any = None, labels: Any = None
) -> GlobalTest:
    features = np.asarray(features, dtype=np.float64)
    labels = np.zeros(len(features), int) if labels is None else np.asarray(labels)
    return GlobalTest(
        labels,
        labels,
        features,
        None if prototypes is None else np.asarray(prototypes, float),
        space,
    )


def stretched(rng: np.random.Generator, count: int = 300) -> np.ndarray:
    """Points (count, 5) whose spread is far greater along two directions than along others, and
    unequal along these."""
    return (
        rng.normal(size=(count, 5)) * [9, 4, 1, 1, 0.5] @ np.linalg.qr(rng.normal(size=(5, 5)))[0]
        + 3
    )


def test_flat_features_are_drawn_by_principal_components() -> None:
    features = stretched(np.random.default_rng(0))
    view = project(given(features, prototypes=np.eye(5)))
    assert view is not None
    left, sizes, _ = np.linalg.svd(features - features.mean(axis=0))
    expected = left[:, :2] * sizes[:2]
    expected *= np.sign((expected * view.points).sum(axis=0))
    np.testing.assert_allclose(view.points, expected, atol=1e-9)
    assert (
        f"with {100 * np.square(sizes[:2]).sum() / np.square(sizes).sum():.1f}% of their squares"
        in view.how
    )
    assert view.prototypes.shape == (0, 2)
    assert not view.disc


def test_features_on_the_sphere_count_by_their_direction() -> None:
    rng = np.random.default_rng(1)
    features, lengths = stretched(rng), rng.uniform(0.1, 50, (300, 1))
    prototypes = rng.normal(size=(4, 5))
    view, other = (
        project(given(f, "sphere", w))
        for f, w in ((features, prototypes), (lengths * features, 7 * prototypes))
    )
    assert view is not None
    assert other is not None
    np.testing.assert_allclose(view.points, other.points, atol=1e-9)
    np.testing.assert_allclose(view.prototypes, other.prototypes, atol=1e-9)
    # Prototypes go where features in their place would.
    both = np.concatenate([features, prototypes])
    unit = both / np.linalg.norm(both, axis=1, keepdims=True)
    basis = np.linalg.lstsq(unit[:300] - unit[:300].mean(axis=0), view.points, rcond=None)[0]
    np.testing.assert_allclose(
        (unit[300:] - unit[:300].mean(axis=0)) @ basis, view.prototypes, atol=1e-9
    )


def test_in_two_dimensions_the_disc_itself_is_drawn() -> None:
    rng = np.random.default_rng(2)
    features, prototypes = rng.normal(size=(50, 2)), 0.9 * np.array([[1, 0], [0, 1]])
    features[0] = 0
    view = project(given(features, "poincare", prototypes))
    assert view is not None
    assert view.disc
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    np.testing.assert_allclose(
        view.points, np.tanh(lengths) * features / np.where(lengths, lengths, 1), atol=1e-14
    )
    np.testing.assert_allclose(view.prototypes, prototypes, atol=1e-14)
    line = project(given(features[:, :1], "poincare", [[0.5], [-0.5]]))
    assert line is not None
    np.testing.assert_allclose(line.points[:, 0], np.tanh(features[:, 0]), atol=1e-14)
    np.testing.assert_allclose(line.prototypes, [[0.5, 0], [-0.5, 0]], atol=1e-14)
    assert not line.points[:, 1].any()


def test_the_origin_stays_the_centre_of_the_disc() -> None:
    features = stretched(np.random.default_rng(4)) / 50
    features[7] = 0
    view = project(given(features, "poincare"))
    assert view is not None
    np.testing.assert_allclose(view.points[7], 0, atol=1e-15)
    lengths = np.linalg.norm(features, axis=1)
    assert (np.arctanh(np.linalg.norm(view.points, axis=1)) <= lengths + 1e-12).all()


@pytest.mark.parametrize("space", ["flat", "sphere", "poincare"])
def test_features_at_their_edges(space: str) -> None:
    rng = np.random.default_rng(6)
    for features in (
        np.zeros((4, 3)),
        np.ones((4, 3)),
        rng.normal(size=(5, 1)),
        rng.normal(size=(2, 7)),
        1e30 * rng.normal(size=(9, 4)),
        np.eye(6),
    ):
        view = project(given(features, space, labels=np.arange(len(features)) % 2))
        assert view is not None
        assert view.points.shape == (len(features), 2)
        assert np.isfinite(view.points).all()
        assert not view.disc or (np.linalg.norm(view.points, axis=1) < 1).all()
    features = rng.normal(size=(6, 4))
    features[1, 2], features[4] = np.nan, np.inf
    view = project(given(features, space, np.full((2, 4), np.nan)))
    assert view is not None
    assert view.kept.tolist() == [0, 2, 3, 5]
    assert len(view.prototypes) == 0
    assert project(given(features[:2], space)) is None
    assert project(given(np.empty((5, 0)), space)) is None
    assert project(given(features[:0], space, labels=[0])) is None
    many = project(given(rng.normal(size=(MOST_FEATURES + 5, 3)), space))
    assert many is not None
    assert len(many.points) == MOST_FEATURES

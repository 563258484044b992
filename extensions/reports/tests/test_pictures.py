"""What pictures draw of features and hulls: principal components, directions, the disc, geodesics."""

from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from curvfed.extensions.reports import model_figures, shapes
from curvfed.extensions.reports.array_files import GlobalTest
from curvfed.extensions.reports.hull_figures import geodesic
from curvfed.extensions.reports.model_figures import project
from curvfed.extensions.reports.svg_files import svg_file
from curvfed.server_app.directory.array_files import write_npz
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report import charts, style


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": np.array(["one"] * 50)},
        {"labels": np.full(50, -1)},
        {"space": None},
        {"space": np.array("torus")},
        {"features": np.zeros((51, 5))},
        {"prototypes": np.zeros((3, 4))},
        {"images": np.zeros((1, 4, 4, 1), np.uint8), "image_labels": np.array([99])},
    ],
)
def test_arrays_that_do_not_fit_are_left_out(copies, changes):
    archive = copies["images"] / "global_test.npz"
    with np.load(archive) as stored:
        arrays = dict(stored) | changes
    write_npz(archive, {name: array for name, array in arrays.items() if array is not None})
    run = RunFiles(copies["images"])
    assert model_figures.features(run) is None
    assert run.absent == ["global_test.npz"]


def test_a_caption_names_the_servers_images_only_beside_their_score(copies):
    run = RunFiles(copies["images"])
    picture = model_figures.accuracy(run)
    assert picture is not None
    assert "the server's test images" in picture.caption
    rounds = {**run.rounds, "global_accuracy": [""] * len(run.rounds["round"])}
    run.__dict__["rounds"] = rounds
    picture = model_figures.accuracy(run)
    assert picture is not None
    assert picture.caption == "The mean over the clients on their own test images."


@pytest.mark.parametrize(("left_out", "words"), [(0, "each class,"), (1, "each of some classes,")])
def test_the_caption_of_the_test_images_says_whether_each_class_has_one(copies, left_out, words):
    archive = copies["images"] / "global_test.npz"
    with np.load(archive) as stored:
        arrays = dict(stored)
    labels = np.unique(arrays["labels"])[left_out:]
    images = np.zeros((len(labels), 8, 8, 1), np.uint8)
    write_npz(archive, arrays | {"images": images, "image_labels": labels})
    picture = model_figures.examples(RunFiles(copies["images"]))
    assert picture is not None
    assert picture.caption.startswith(f"One test image of {words}")


@pytest.mark.parametrize("number", [2, 3, 10, 20])
def test_the_legend_of_classes_cuts_no_word(number):
    names = [*[f"digit-{place}" for place in range(number)], "prototype"]
    axes = style.page_axes(5.2)
    shapes.class_legend(axes, [charts.key(name, marker="o") for name in names])
    legend = axes.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == names
    axes.figure.draw_without_rendering()
    assert legend.get_window_extent().width < axes.figure.bbox.width


def projected_test(
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
    """Points (count, 5) of far greater spread along two directions, and unequal along these."""
    return (
        rng.normal(size=(count, 5)) * [9, 4, 1, 1, 0.5] @ np.linalg.qr(rng.normal(size=(5, 5)))[0]
        + 3
    )


def test_flat_features_are_drawn_by_principal_components() -> None:
    features = stretched(np.random.default_rng(0))
    view = project(projected_test(features, prototypes=np.eye(5)))
    assert view is not None
    vectors, sizes, _ = np.linalg.svd(features - features.mean(axis=0))
    expected = vectors[:, :2] * sizes[:2]
    expected *= np.sign((expected * view.points).sum(axis=0))
    np.testing.assert_allclose(view.points, expected, atol=1e-9)
    share = np.square(sizes[:2]).sum() / np.square(sizes).sum()
    assert f"with {100 * share:.1f}% of their squares" in view.how
    assert view.prototypes.shape == (0, 2)
    assert not view.disc


def test_features_on_the_sphere_count_by_their_direction() -> None:
    rng = np.random.default_rng(1)
    features = stretched(rng)
    lengths = rng.uniform(0.1, 50, (300, 1))
    prototypes = rng.normal(size=(4, 5))
    view, scaled = (
        project(projected_test(f, "sphere", w))
        for f, w in ((features, prototypes), (lengths * features, 7 * prototypes))
    )
    assert view is not None
    assert scaled is not None
    np.testing.assert_allclose(view.points, scaled.points, atol=1e-9)
    np.testing.assert_allclose(view.prototypes, scaled.prototypes, atol=1e-9)
    # Prototypes go where features in their place would.
    both = np.concatenate([features, prototypes])
    unit = both / np.linalg.norm(both, axis=1, keepdims=True)
    basis = np.linalg.lstsq(unit[:300] - unit[:300].mean(axis=0), view.points, rcond=None)[0]
    placed = (unit[300:] - unit[:300].mean(axis=0)) @ basis
    np.testing.assert_allclose(placed, view.prototypes, atol=1e-9)


def test_in_two_dimensions_the_disc_itself_is_drawn() -> None:
    rng = np.random.default_rng(2)
    features = rng.normal(size=(50, 2))
    prototypes = 0.9 * np.array([[1, 0], [0, 1]])
    features[0] = 0
    view = project(projected_test(features, "poincare", prototypes))
    assert view is not None
    assert view.disc
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    expected = np.tanh(lengths) * features / np.where(lengths, lengths, 1)
    np.testing.assert_allclose(view.points, expected, atol=1e-14)
    np.testing.assert_allclose(view.prototypes, prototypes, atol=1e-14)
    line = project(projected_test(features[:, :1], "poincare", [[0.5], [-0.5]]))
    assert line is not None
    np.testing.assert_allclose(line.points[:, 0], np.tanh(features[:, 0]), atol=1e-14)
    np.testing.assert_allclose(line.prototypes, [[0.5, 0], [-0.5, 0]], atol=1e-14)
    assert not line.points[:, 1].any()


def test_the_origin_stays_the_centre_of_the_disc() -> None:
    features = stretched(np.random.default_rng(4)) / 50
    features[7] = 0
    view = project(projected_test(features, "poincare"))
    assert view is not None
    np.testing.assert_allclose(view.points[7], 0, atol=1e-15)
    lengths = np.linalg.norm(features, axis=1)
    assert (np.arctanh(np.linalg.norm(view.points, axis=1)) <= lengths + 1e-12).all()


def test_polylines_look_like_geodesics() -> None:
    """Their points lie on the geodesic: distances add up."""

    def distance(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        gaps = (1 - np.square(first).sum(axis=-1)) * (1 - np.square(second).sum(axis=-1))
        return 2 * np.arcsinh(np.sqrt(np.square(first - second).sum(axis=-1) / gaps))

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
            length = distance(start, end)
            np.testing.assert_allclose(
                distance(start, line) + distance(line, end), length, rtol=1e-6, atol=1e-9
            )
            assert len(line) < 60


def test_a_picture_in_a_file_follows_the_screen_of_its_reader() -> None:
    with style.applied():
        figure, [axes] = style.panels(1)
        axes.plot([0, 1], color=style.MEAN)
    root = ElementTree.fromstring(svg_file(figure, "picture"))
    rules = root[0].text or ""
    assert "prefers-color-scheme:dark" in rules
    drawn = "".join(ElementTree.tostring(child, "unicode") for child in root[1:])
    for name, light, dark in style.VARIABLES:
        assert f"--{name}:{light}" in rules
        assert f"--{name}:{dark}" in rules
        assert light not in drawn
    assert "var(--mean)" in drawn

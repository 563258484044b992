"""The report of runs on images: pictures of the global model, of personal ones and of the
aggregation."""

import base64
import contextlib
import csv
import html
import io
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_run import make_image_run
from PIL import Image
from report_page import HOSTILE, Drawn, Page, drawn, drawn_texts, section

from curvfed.server_app.directory.global_test_file import GlobalTest
from curvfed.server_app.directory.npz import write_npz
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.directory.tables import TABLES
from curvfed.server_app.report import (
    class_scores,
    image_figures,
    round_figures,
    style,
    write_report,
)
from curvfed.server_app.report.charts import MOST_POINTS
from curvfed.server_app.report.image_figures import Series
from curvfed.server_app.report.projection import FAR, MOST_FEATURES, NEAR, project
from curvfed.server_app.report.style import HUES, hues
from curvfed.server_app.report.templates import Picture
from curvfed.strategies.methods import METHODS

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


def draw(what: Callable[[RunFiles], Picture | None], folder: Path) -> Drawn:
    return drawn(what, RunFiles.read(folder))


def lead(folder: Path) -> str:
    """The result in sentences."""
    found = re.search(r'<p class="lead">(.*?)</p>', write_report(folder).read_text(), re.DOTALL)
    return html.unescape(re.sub("<.*?>", "", found[1])) if found else ""


def pixels(svg: str) -> np.ndarray:
    """The first raster image of a picture, (rows, columns, 4), as it is shown."""
    tag = re.search(r"<image[^>]*>", svg)
    assert tag is not None
    data = re.search(r'base64,([^"]*)"', tag[0])
    assert data is not None
    image = np.asarray(Image.open(io.BytesIO(base64.b64decode(data[1]))).convert("RGBA"))
    upwards = re.search(r"matrix\(\S+ \S+ \S+ (\S+)", tag[0])
    assert upwards is not None
    return image[::-1] if float(upwards[1]) < 0 else image


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has everything. Read only."""
    root = tmp_path_factory.mktemp("whole")
    return make_image_run(
        root, "spherefed", space="sphere", clients=5, calibrated=True, fine_tuned=(10, 20)
    )


def test_every_picture_has_words_and_a_caption_and_is_complete_in_itself(whole: Path) -> None:
    shown = report(whole)
    beginnings = [
        "Line chart of accuracy by round. Global: from ",
        "Line chart of test accuracy by round. ",
        "Line chart of training loss by round. ",
        "Matrix of 10 true by 10 predicted classes: ",
        "Scatter plot of the features of 2,000 test images of 10 classes. ",
        "Map of 5 clients by 20 rounds: ",
        "A cell per client and class, 5 clients and 10 classes; ",
    ]
    assert [
        text[: len(beginning)] for text, beginning in zip(shown.labels, beginnings, strict=True)
    ] == beginnings
    assert shown.tags.count("figcaption") == shown.tags.count("figure") == shown.tags.count("svg")
    assert "sizes in images" in shown.text
    assert shown.rows["Calibration"] == ["0.30 s"]
    assert shown.rows["Fine-tuning"] == ["1.40 s"]
    # Nothing is asked of the network, and what is pointed at is there, once.
    assert not {"script", "iframe", "object", "img", "base"} & set(shown.tags)
    pointing = [
        value
        for name, value in shown.attributes
        if name in ("src", "href", "xlink:href", "action", "data")
    ]
    pointing += re.findall(r"url\(([^)]*)\)", shown.source)
    assert any(target.startswith("data:image/png") for target in pointing)
    assert all(target.startswith(("#", "data:")) for target in pointing)
    assert "://" not in shown.source
    names = [value for name, value in shown.attributes if name == "id"]
    assert len(names) == len(set(names))
    assert {target[1:] for target in pointing if target.startswith("#")} <= set(names)
    # Equal files give equal bytes.
    assert write_report(whole).read_text() == shown.source
    # Colours are the page's own, but for those of classes and of pixels.
    drawings = "".join(re.findall(r"<svg.*?</svg>", shown.source, re.DOTALL))
    literal = set(re.findall(r"(?:fill|stroke): (?!none)(?!var\()([^;\"]+)", drawings))
    assert literal <= {*HUES, class_scores.ON_COLOUR}


def test_accuracies_over_the_rounds_are_those_of_the_files(tmp_path: Path) -> None:
    folder = small(tmp_path, method="spherefed", space="sphere", calibrated=True, fine_tuned=(2, 4))
    told = {(row["phase"], row["round"]): row for row in rows(folder / "rounds.csv")}
    first, last = (100 * float(told["train", number]["global_accuracy"]) for number in "14")
    tuned = [100 * float(told["fine-tune", number]["personal_accuracy_mean"]) for number in "24"]
    trained = [row for row in rows(folder / "clients.csv") if row["phase"] == "train"]
    score = [
        100 * np.mean([float(row["score"]) for row in trained if row["round"] == number])
        for number in "14"
    ]
    picture = draw(image_figures.accuracy, folder)
    assert (
        picture.label
        == f"Line chart of accuracy by round. Global: from {first:.2f}% in round 1 to {last:.2f}%"
        f" in round 4. Personal, after local training: from {score[0]:.2f}% in round 1 to"
        f" {score[1]:.2f}% in round 4. Global, calibrated: 96.12% in round 4. Personal,"
        f" fine-tuned: from {tuned[0]:.2f}% in round 2 to {tuned[1]:.2f}% in round 4."
    )
    names = {
        "global",
        "global, calibrated",
        "personal, after local training",
        "personal, fine-tuned",
    }
    assert names <= set(picture.texts)


def test_single_points_lie_within_the_axes() -> None:
    line = Series("line", np.arange(2.0), np.array([40.0, 50.0]), style.MEAN)
    for marker in "*D":
        with style.applied(style.PAGE_SIZE):
            axes = style.page_axes(3)
            points = Series("points", np.ones(2), np.array([10.0, 90.0]), style.MEAN, marker)
            image_figures.draw_series(axes, [line, points])
        low, high = axes.get_ylim()
        assert low < 10 < 90 < high


def test_fine_tuned_scores_do_not_mix_with_those_of_the_rounds(tmp_path: Path) -> None:
    folder = small(tmp_path, fine_tuned=(2, 4))
    told = rows(folder / "clients.csv")
    run = RunFiles.read(folder)
    for phases, wanted, count in (((), "train", 4), (("fine-tune",), "fine-tune", 2)):
        at, values = run.by_client("score", *phases)
        assert values.shape == (count, 3)
        for row in told:
            if row["phase"] == wanted:
                assert values[list(at).index(float(row["round"])), int(row["partition"])] == float(
                    row["score"]
                )
    table = section(run, "Clients").rows
    last = {
        (row["phase"], row["partition"]): f"{100 * float(row['score']):.2f}%"
        for row in told
        if row["round"] == "4"
    }
    for client in "012":
        cells = dict(zip(table["client"], table[client], strict=True))
        assert cells["accuracy after"] == last["train", client]
        assert cells["fine-tuned"] == last["fine-tune", client]


def test_a_run_without_a_global_model_shows_what_it_has(tmp_path: Path) -> None:
    folder = small(
        tmp_path / "tuned", method="fedrep", weights=False, global_test=False, fine_tuned=(4,)
    )
    picture = draw(image_figures.accuracy, folder)
    assert picture.label.startswith(
        "Line chart of accuracy by round. Personal, after local training: from "
    )
    assert (
        picture.caption
        == "Mean over the clients of the accuracy of personal models on their own test images."
    )
    folder = small(tmp_path / "plain", method="fedrep", weights=False, global_test=False)
    plain = RunFiles.read(folder)
    draws = (
        image_figures.accuracy,
        class_scores.confusion,
        image_figures.features,
        image_figures.weights,
    )
    assert [what(plain) for what in draws] == [None] * 4
    assert "After 4 rounds the 3 clients reach a mean test accuracy of 95.12%" in lead(folder)
    assert plain.absent == []
    alone = small(tmp_path / "alone", changes={"personal_accuracy_mean": None})
    (alone / "clients.csv").unlink()
    assert re.fullmatch(
        r"Line chart of accuracy by round\. Global: [^:]*",
        draw(image_figures.accuracy, alone).label,
    )


def test_the_result_in_sentences(tmp_path: Path) -> None:
    def told(name: str, **changes: Any) -> str:
        return lead(small(tmp_path / name, **changes))

    assert (
        told("a", fine_tuned=(4,))
        == "After 4 rounds the global model has a test accuracy of 94.31%. The copies of it that"
        " the 3 clients fine-tuned reach a mean test accuracy of 95.12% (standard deviation over"
        " clients 2.13%); always answering the most frequent class would have 41.11%."
    )
    calibrated = told("b", method="spherefed", calibrated=True)
    assert (
        "test accuracy of 94.31%, and 96.12% with its classifier calibrated. The personal models of"
        " the 3" in calibrated
    )
    alone = told("c", clients=1, fine_tuned=(4,))
    assert (
        "The copy of it that the client fine-tuned reaches a test accuracy of 95.12%; always"
        in alone
    )
    untrained = told("d", changes={"personal_accuracy_mean": None, "rounds": 0})
    assert untrained == "Before any training the global model has a test accuracy of 94.31%."


def result(folder: Path) -> dict[str, list[str]]:
    """The rows of the table of results."""
    return section(RunFiles.read(folder), "Result").rows


def test_the_result_as_a_table(tmp_path: Path, whole: Path) -> None:
    told = [row for row in rows(whole / "rounds.csv") if row["phase"] == "train"][-1]
    trained = (
        f"{100 * float(told['personal_accuracy_mean']):.2f}% ±"
        f" {100 * float(told['personal_accuracy_std']):.2f}%"
    )
    assert result(whole) == {
        "": ["Last round (20)"],
        "Accuracy after fine-tuning": ["95.12% ± 2.13%"],
        "Accuracy before fine-tuning": ["92.51%"],
        "Accuracy after local training": [trained],
        "Accuracy, pooled over all test data": ["95.10%"],
        "Accuracy of the shared model at the server": ["96.12%"],
        "… with its classifier as trained": ["94.31%"],
        "… with its classifier calibrated": ["96.12%"],
        "… mean of the last three scored rounds": ["93.77%"],
        "Accuracy of the most frequent class alone": ["41.11%"],
        "Clients left out, without test data": ["0"],
    }
    found = result(
        small(
            tmp_path, changes={"metrics": {"personal_accuracy_before": 0.9251, "new_accuracy": 0.5}}
        )
    )
    assert found["Accuracy after local training"] == ["95.12% ± 2.13%"]
    assert found["Accuracy before local training"] == ["92.51%"]
    assert found["New accuracy"] == ["50.00%"]
    assert not any("uning" in title for title in found)


def test_the_best_round_is_one_of_local_training(tmp_path: Path) -> None:
    best = {
        "round": 2,
        "personal_accuracy_mean": 0.5,
        "personal_accuracy_std": 0.25,
        "metrics": {"personal_accuracy_before": 0.4, "validation": 0.6},
    }
    found = result(small(tmp_path, fine_tuned=(4,), changes={"best_validation": best}))
    assert found["Accuracy after fine-tuning"] == ["95.12% ± 2.13%", "–"]
    assert found["Accuracy after local training"][1] == "50.00% ± 25.00%"
    assert found["Accuracy before local training"] == ["–", "40.00%"]


@pytest.mark.parametrize(
    ("method", "settings", "name", "unit"),
    [
        ("fedavg", {}, "Cross-entropy", "nats"),
        (
            "spherefed",
            {"spherefed.loss": "mse"},
            "Mean squared error of the scores of the classes",
            "",
        ),
        ("spherefed", {"spherefed.loss": "cross-entropy"}, "Cross-entropy", "nats"),
        ("hyperfed", {"hyperfed.mixup": 0.0}, "Triplet loss, of hyperbolic distances,", ""),
        ("hyperfed", {"hyperfed.mixup": 2.0}, "and 2 times the cross-entropy of mixed images", ""),
        ("hyperfed-geodesic", {}, "Hyperbolic distance to the prototype of the right class", ""),
        ("of another version", {}, "Cross-entropy", "nats"),
    ],
)
def test_the_loss_is_called_what_it_is(
    method: str, settings: dict[str, Any], name: str, unit: str
) -> None:
    told = round_figures.loss_name(RunFiles("run", {"method": method}, settings))
    assert told[0].endswith(name)
    assert told[1] == unit


def test_every_method_has_a_loss_with_a_name(tmp_path: Path) -> None:
    assert {method.loss for method in METHODS.values()} == set(round_figures.LOSSES)
    picture = draw(round_figures.loss, small(tmp_path))
    assert picture.caption.startswith(
        "Triplet loss, of hyperbolic distances, on the training data during local training: "
    )
    assert "training loss" in picture.texts


def test_the_matrix_counts_what_the_model_predicts(tmp_path: Path) -> None:
    folder = small(tmp_path)
    labels = np.array([0] * 40 + [1] * 30 + [2] * 20)
    predicted = np.array([0] * 38 + [1, 2] + [1] * 20 + [0] * 9 + [-1] + [2] * 20)
    rewrite(folder, labels=labels, predicted=predicted)
    page = write_report(folder).read_text()
    told = re.findall(r'<th scope="row">(ant|bee|cat)</th><td>(\d+)</td><td>([\d.]+)%</td>', page)
    # the worst first
    assert told == [("bee", "30", "66.67"), ("ant", "40", "95.00"), ("cat", "20", "100.00")]
    picture = draw(class_scores.confusion, folder)
    assert (
        picture.label
        == "Matrix of 3 true by 3 predicted classes: 86.67% of 90 images are on the diagonal. Most"
        " often bee is taken for ant (9 of 30), then ant is taken for bee (1 of 40), then ant is"
        " taken for cat (1 of 40)."
    )
    assert "For 1 image the model's output is not finite." in picture.caption
    assert Counter(picture.texts) == Counter(
        [*ANIMALS, *ANIMALS, "true class", "predicted class", "95", "2.5", "2.5", "30", "67", "100"]
    )
    image = pixels(picture.svg)
    blue, orange = (
        [int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in ("#2a8fd0", "#d9751a")
    )
    assert image[2, 2].tolist() == [*blue, 255]
    assert (image[..., 3] > 0).tolist() == [[True] * 3, [True, True, False], [False, False, True]]
    assert (
        np.abs(image[1, 0, :3] - np.array(orange)).max()
        < np.abs(image[0, 1, :3] - np.array(orange)).max()
    )
    rewrite(folder, labels=labels, predicted=labels)
    assert "No class is taken for another." in draw(class_scores.confusion, folder).caption


def rewrite(folder: Path, **changes: Any) -> None:
    """Change arrays of `global_test.npz`; None leaves one out."""
    with np.load(folder / "global_test.npz") as told:
        arrays = {name: told[name] for name in told} | changes
    write_npz(
        folder / "global_test.npz",
        {name: array for name, array in arrays.items() if array is not None},
    )


def test_small_shares_are_told_with_a_decimal() -> None:
    shares = [0.0004, 0.0005, 0.0349, 0.0994, 0.0996, 0.5, 1.0]
    assert [class_scores.short_share(share) for share in shares] == [
        "<.1",
        ".1",
        "3.5",
        "9.9",
        "10",
        "50",
        "100",
    ]


def test_classes_that_the_clients_do_not_name_have_numbers(tmp_path: Path) -> None:
    folder = small(tmp_path)
    labels = np.arange(90) % 5
    rewrite(folder, labels=labels, predicted=(labels + (labels == 4)) % 6)
    names = [*ANIMALS, "3", "4", "5"]
    assert [
        text for text in draw(class_scores.confusion, folder).texts if text in names
    ] == 2 * names
    assert names[:5] == draw(image_figures.features, folder).texts[:5]


def test_of_very_many_classes_the_most_frequent_are_drawn(tmp_path: Path) -> None:
    folder = small(tmp_path, images=450)
    # Class 150 has two images, of which one is predicted as a class that is not drawn.
    labels = np.r_[np.repeat(np.arange(200), 2), np.arange(200, 250)]
    predicted = labels.copy()
    predicted[300] = 230
    rewrite(folder, labels=labels, predicted=predicted)
    picture = draw(class_scores.confusion, folder)
    assert "Drawn are the 200 most frequent of 250 classes." in picture.caption
    image = pixels(picture.svg)
    assert image.shape == (200, 200, 4)
    assert np.argwhere(image[..., 3] > 0).tolist() == [[one, one] for one in range(200)]
    assert image[150, 150, 3] < image[149, 149, 3] == 255


def test_weights_are_drawn_over_shares(tmp_path: Path) -> None:
    folder = small(tmp_path, clients=4, notes={3: "averaged: one client alone moved"})
    # One reply was dropped, and one client has no examples.
    told = rows(folder / "clients.csv")
    for row in told:
        if (row["round"], row["partition"]) == ("2", "1"):
            row |= dict.fromkeys(("weight", "num_examples", "score", "loss"), "")
        if row["partition"] == "3":
            row |= {"num_examples": "0", "weight": "0.0"}
    with (folder / "clients.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, TABLES["clients.csv"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(told)
    ratios = np.full((3, 4), np.nan)
    for number in range(4):
        here = [
            row
            for row in told
            if row["round"] == str(number + 1) and row["num_examples"] not in ("", "0")
        ]
        total = sum(int(row["num_examples"]) for row in here)
        for row in here:
            ratios[int(row["partition"]), number] = (
                float(row["weight"]) * total / int(row["num_examples"])
            )
    picture = draw(image_figures.weights, folder)
    assert (
        picture.label == "Map of 3 clients by 4 rounds: a client's weight in the aggregation is"
        f" {np.nanmin(ratios):.2f} to {np.nanmax(ratios):.2f} times its share of the training"
        " data."
    )
    image = pixels(picture.svg).astype(int)
    assert image.shape == (3, 4, 4)
    np.testing.assert_array_equal(image[..., 3] > 0, np.isfinite(ratios))
    np.testing.assert_array_equal(
        image[..., 0] > image[..., 2] + 8, np.nan_to_num(ratios, nan=1) > 1 + 1e-9
    )
    depth = np.abs(np.nan_to_num(ratios, nan=1) - 1)
    order = np.argsort(depth, axis=None)
    assert (np.diff(image[..., 3].flat[order][np.isfinite(ratios.flat[order])]) >= 0).all()
    rounds = rows(folder / "rounds.csv")
    words = picture.caption
    apart = np.mean([float(row["weights_l1"]) for row in rounds])
    assert f"The weights lie {100 * apart:.2f}% from the shares in L1" in words
    assert (
        f"to the average's, is {np.mean([float(row['norm_ratio']) for row in rounds]):.3f}."
        in words
    )
    assert words.endswith(" In 1 of 4 rounds averaged: one client alone moved.")


def test_weights_that_are_shares_are_grey(tmp_path: Path) -> None:
    folder = small(tmp_path, notes=dict.fromkeys(range(1, 5), "averaged: no client moved"))
    picture = draw(image_figures.weights, folder)
    assert len(np.unique(pixels(picture.svg).reshape(-1, 4), axis=0)) == 1
    assert "is 1.00 to 1.00 times" in picture.label
    assert picture.caption.endswith("In 4 of 4 rounds averaged: no client moved.")


def test_many_clients_and_classes_are_shaded(tmp_path: Path) -> None:
    classes = [f"class {c}" for c in range(100)]
    folder = make_image_run(tmp_path, clients=100, rounds=3, classes=classes, dim=64, images=3000)
    told = json.loads((folder / "clients.json").read_text())["clients"]
    counts = np.array([about["statistics"]["class_counts"] for about in told])
    squares = draw(round_figures.classes, folder)
    assert squares.label.startswith(
        "A cell per client and class, 100 clients and 100 classes; the largest holds "
    )
    assert squares.caption.startswith(
        "The colour of a cell deepens with the square root of the number of images"
    )
    image = pixels(squares.svg).astype(int)
    assert image.shape == (100, 100, 4)
    assert image[..., 3].max() == image[np.unravel_index(counts.T.argmax(), (100, 100))][3] == 255
    np.testing.assert_array_equal(image[..., 3] > 0, counts.T > 0)
    assert np.corrcoef(image[..., 3].ravel(), np.sqrt(counts.T).ravel())[0, 1] > 0.99
    assert 20 <= sum(text.startswith("class ") for text in squares.texts) <= 25
    others = [
        draw(what, folder)
        for what in (class_scores.confusion, image_figures.features, image_figures.weights)
    ]
    assert pixels(others[2].svg).shape == (100, 3, 4)
    assert all(len(picture.svg) < 300_000 for picture in [squares, *others])


def test_of_many_rounds_some_are_drawn(tmp_path: Path) -> None:
    folder = small(tmp_path, rounds=MOST_POINTS + 40)
    picture = draw(image_figures.weights, folder)
    assert pixels(picture.svg).shape == (3, MOST_POINTS, 4)
    assert picture.label.startswith(f"Map of 3 clients by {MOST_POINTS + 40} rounds")
    paths = re.findall(r' d="([^"]*)"', draw(image_figures.accuracy, folder).svg)
    assert MOST_POINTS / 2 < max(path.count("L") for path in paths) < MOST_POINTS


def test_an_image_per_class_stands_above_its_name(tmp_path: Path) -> None:
    names = [f"kind {number}" for number in range(7)]
    folder = small(tmp_path, classes=names)
    assert image_figures.examples(RunFiles.read(folder)) is None
    images = np.full((6, 4, 8, 1), 10 * np.arange(6)[:, None, None, None], np.uint8)
    rewrite(folder, images=images, image_labels=np.arange(6))
    picture = draw(image_figures.examples, folder)
    assert picture.texts == names[:6]
    assert picture.label == f"Test images, one per class: {', '.join(names[:6])}."
    assert "One test image of each of 6 of 7 classes" in picture.caption
    assert "black, cut or turned" in picture.caption
    sheet = pixels(picture.svg)
    assert sheet.shape == (20, 50, 4)
    assert [sheet[10 * (place // 5), 10 * (place % 5), 0] for place in range(6)] == [
        0,
        10,
        20,
        30,
        40,
        50,
    ]
    assert (sheet[..., 3] == 255).sum() == images.size


def test_names_of_classes_stay_text(tmp_path: Path) -> None:
    page = report(small(tmp_path, rounds=1, classes=(HOSTILE, "$x$", "\x00\ud800", "樹" * 500)))
    assert not {"script", "img"} & set(page.tags)
    assert not {name for name, _ in page.attributes if name.startswith("on")}
    assert max(max(map(len, texts)) for texts in drawn_texts(page)) < 40
    assert max(map(len, page.labels)) < 500


@pytest.mark.parametrize("absent", ["clients.json", "rounds.csv", "clients.csv"])
def test_any_file_may_be_absent(tmp_path: Path, absent: str) -> None:
    folder = small(tmp_path, rounds=2, fine_tuned=(2,))
    (folder / absent).unlink()
    page = report(folder)
    assert f"Not in the run directory: {absent}." in page.text
    assert any(text.startswith("Matrix of 3") for text in page.labels)
    assert any(text.startswith("Map of 3") for text in page.labels) == (absent != "clients.csv")


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
    assert class_scores.confusion(run) is image_figures.features(run) is None


def overwrite(path: Path, mark: bytes, at: int, data: bytes) -> None:
    """Write over what is so many bytes after a mark's beginning."""
    content = path.read_bytes()
    start = content.index(mark) + at
    path.write_bytes(content[:start] + data + content[start + len(data) :])


@pytest.mark.parametrize("seed", range(20))
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
        f"with {100 * np.square(sizes[:2]).sum() / np.square(sizes).sum():.2f}% of the variance"
        in view.how
    )
    assert view.prototypes.shape == (0, 2)
    assert (view.disc, view.axes) == (False, ("first component", "second component"))


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


@pytest.mark.parametrize("dim", [2, 6])
def test_dots_on_the_rim_are_brought_nearer_and_the_page_says_by_how_much(dim: int) -> None:
    rng = np.random.default_rng(3)
    features = 20 * rng.normal(size=(101, dim))
    view = project(given(features, "poincare", np.eye(dim)[:2] * 0.9))
    assert view is not None
    radii = np.arctanh(np.linalg.norm(view.points, axis=1))
    assert np.median(radii) == pytest.approx(NEAR)
    told = re.search(r"drawn (\S+) times nearer", view.how)
    assert told is not None
    if dim == 2:
        np.testing.assert_allclose(
            radii * float(told[1]), np.linalg.norm(features, axis=1), rtol=5e-3
        )
        np.testing.assert_allclose(np.linalg.norm(view.prototypes, axis=1), 0.9)
    assert (np.linalg.norm(view.points, axis=1) < 1).all()
    near = project(given(features / 20 * FAR / 2, "poincare"))
    assert near is not None
    assert "nearer" not in near.how


def test_the_origin_stays_the_centre_of_the_disc() -> None:
    features = stretched(np.random.default_rng(4)) / 50
    features[7] = 0
    view = project(given(features, "poincare"))
    assert view is not None
    np.testing.assert_allclose(view.points[7], 0, atol=1e-15)
    lengths = np.linalg.norm(features, axis=1)
    assert (np.arctanh(np.linalg.norm(view.points, axis=1)) <= lengths + 1e-12).all()


@pytest.mark.parametrize("space", ["flat", "sphere", "poincare"])
@pytest.mark.parametrize("count", [3, 4, 10])
def test_classes_that_spread_evenly_lie_round_a_circle(space: str, count: int) -> None:
    """Around a simplex no two components come first: by chance all but two classes would lie on top
    of each other."""
    rng = np.random.default_rng(5)
    simplex = np.linalg.qr(rng.normal(size=(20, 20)))[0][:count]
    simplex -= simplex.mean(axis=0)
    simplex /= np.linalg.norm(simplex, axis=1, keepdims=True)
    labels = np.arange(400) % count
    features = simplex[labels] + rng.normal(0, 0.01, (400, 20))
    view = project(given(features, space, 0.9 * simplex, labels))
    assert view is not None
    means = np.stack([view.points[labels == one].mean(axis=0) for one in range(count)])
    if count > 3:  # three lie in a plane already
        assert f"A plane of the {count - 1} principal components" in view.how
        turns = np.diff(np.unwrap(np.arctan2(means[:, 1], means[:, 0])))
        np.testing.assert_allclose(turns, 2 * np.pi / count, atol=0.05)
    lengths = np.linalg.norm(means, axis=1)
    assert lengths.max() / lengths.min() < 1.05
    assert all(
        view.how == other.how and (view.points == other.points).all()
        for other in [project(given(features, space, 0.9 * simplex, labels))]
        if other
    )


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


@pytest.mark.parametrize(
    ("images", "shown", "classes"),
    [(90, 60, 3), (2000, 2000, 1), (2000, 2000, 3), (2000, 2000, 30)],
)
def test_every_feature_is_a_dot_of_the_colour_of_its_class(
    tmp_path: Path, images: int, shown: int, classes: int
) -> None:
    """Also where there are so many in a path that matplotlib would simplify it."""
    folder = small(tmp_path, images=images, shown=shown)
    labels = np.arange(images) % classes
    rewrite(folder, labels=labels, predicted=labels)
    picture = draw(image_figures.features, folder)
    assert picture.label.startswith(
        f"Scatter plot of the features of {shown:,} test images of {max(classes, 3)} classes."
    )
    dots: Counter[str] = Counter()
    for path, colour in re.findall(
        r'<path d="([^"]*)"[^>]*style="fill: none; stroke: (#\w{6});[^"]*linecap: round',
        picture.svg,
    ):
        ends = re.findall(r"M (\S+ \S+) \nL (\S+ \S+)", path)
        assert all(start == end for start, end in ends)
        dots[colour] += len(ends)
    assert dots == {
        hues(classes)[one]: count for one, count in Counter(labels[:shown].tolist()).items()
    }
    assert len(picture.svg) < 150_000


def test_colours_of_many_classes_are_all_different() -> None:
    assert hues(1) == hues(20) == HUES
    for count in (20, 21, 200):
        assert len(set(hues(count))) == len(hues(count)) == count


def test_the_columns_that_the_report_reads_are_written() -> None:
    assert {"global_accuracy", "weights_l1", "norm_ratio", "aggregation_note"} <= set(
        TABLES["rounds.csv"]
    )
    assert {"weight", "num_examples"} <= set(TABLES["clients.csv"])

"""Predictions on points, against the run's figures and hyperplanes put together by hand."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from absent_extensions import needs_tables, skip_without_tables
from app_runs import Run, run
from predictions import ask, refused
from safetensors import safe_open
from safetensors.numpy import load_file
from stored import write_arrays

from curvfed.deployments.commands.command import main
from curvfed.tasks.points.dataset import PointDataset
from curvfed.tasks.points.point_spec import PointSpec

pytestmark = pytest.mark.usefixtures("module_home")
CURVATURE = -4.0
SMALL = {
    "method": "hull",
    "points__num": 300,
    "hull__c": 100.0,
    "hull__classifier": "svm",
    "hull__cap": 128,
}
NAMES = ("ant", "bee", "cat")


@pytest.fixture(scope="module")
def uniform(module_home, tmp_path_factory):
    """Two classes on the disc of curvature -4, in parts of a built-in data set."""
    return run(
        tmp_path_factory.mktemp("uniform"), points__curvature=CURVATURE, test_size=0.3, **SMALL
    )


def clouds(
    seed: int, number: int, names=NAMES, spread: float = 0.12
) -> tuple[np.ndarray, np.ndarray]:
    """Points around the corners of a triangle, and their classes."""
    rng, labels = np.random.default_rng(seed), np.arange(number) % len(names)
    turns = 2 * np.pi * labels / len(NAMES)
    centres = 0.5 * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    return centres + spread * rng.standard_normal((number, 2)), np.array(names)[labels]


def write_csv(path: Path, points: np.ndarray, labels=None, header: str = "") -> Path:
    rows = [
        [*map(repr, point), *([] if labels is None else [labels[i]])]
        for i, point in enumerate(points.tolist())
    ]
    path.write_text(
        "\n".join([*([header] if header else []), *(",".join(row) for row in rows)]) + "\n"
    )
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The folder of three nodes' own files of three classes, and of the test data of a server."""
    skip_without_tables()
    folder = tmp_path_factory.mktemp("nodes")
    for node in range(3):
        write_csv(folder / f"{node}.csv", *clouds(node, 60))
    write_csv(folder / "test.csv", *clouds(9, 30))
    return folder


def nodes_of(files: Path) -> list[dict]:
    node = {"state-path": str(files / "state")}
    return [
        node | {"partition-id": number, "data-path": str(files / f"{number}.csv")}
        for number in range(3)
    ]


@pytest.fixture(scope="module")
def named(module_home, files, secrets_by_names):
    """A run of real nodes whose server has labelled points, and so names the groups."""
    return run(files / "named", nodes=nodes_of(files), test_data=str(files / "test.csv"), **SMALL)


def right(rows: list[dict[str, str]], labels) -> float:
    return float(np.mean([row["class"] == label for row, label in zip(rows, labels, strict=True)]))


def by_hand(result: Run, points: np.ndarray) -> np.ndarray:
    """Side of the geodesic: the logarithm at its reference is at right angles to its normal."""
    stored = load_file(result.path / "model.safetensors")
    (p,), (w,), k = stored["references"], stored["normals"], -float(stored["curvature"])
    # Möbius addition of -p, in the disc of radius 1/sqrt(k) (Ungar, 2008).
    x2, p2, xp = np.square(points).sum(axis=1), p @ p, points @ p
    moved = ((1 - k * p2) * points - (1 - 2 * k * xp + k * x2)[:, None] * p) / (
        1 - 2 * k * xp + k**2 * p2 * x2
    )[:, None]
    return moved @ w


def test_predictions_are_those_of_the_stored_geodesic(uniform, capsys):
    rows, _ = ask(capsys, uniform.path, "UNIFORM")
    test = PointDataset(
        PointSpec("uniform", Path(), test_size=0.3, curvature=CURVATURE, num_points=300)
    ).test()
    side = by_hand(uniform, test.points)
    with safe_open(uniform.path / "model.safetensors", framework="np") as file:
        groups = json.loads(file.metadata()["curvfed"])["groups"]
    assert tuple(row["point"] for row in rows) == tuple(test.names)
    assert (np.abs(side) > 1e-9).all()
    assert [row["class"] for row in rows] == [groups[int(one > 0)] for one in side]
    chances = np.array([float(row["probability"]) for row in rows])
    assert ((chances >= 0) & (chances <= 1)).all()
    # Platt's sigmoid rises with the distance to the geodesic, on either side of it.
    for one in (side > 0, side < 0):
        nearest, furthest = np.argmin(np.abs(side[one])), np.argmax(np.abs(side[one]))
        assert chances[one][nearest] <= chances[one][furthest]


def test_the_runs_own_data_set_stands_for_its_test_points(uniform, capsys):
    rows, notes = ask(capsys, uniform.path, "uniform")
    assert (
        notes["accuracy on the global test points"] == f"{uniform.summary['global_accuracy']:.4f}"
    )
    assert notes["points"] == f"{len(rows)}, {len(rows)} to score on"


def test_a_logistic_model_predicts_by_its_softmax(capsys, tmp_path):
    result = run(tmp_path, **SMALL | {"hull__c": 2.0, "hull__classifier": "logistic"})
    rows, notes = ask(capsys, result.path, "uniform")
    assert notes["model"].startswith("global, logistic on tangent vectors, C = 2,")
    assert notes["accuracy on the global test points"] == f"{result.summary['global_accuracy']:.4f}"
    stored, points = (
        load_file(result.path / "model.safetensors"),
        PointDataset(PointSpec("uniform", Path(), num_points=300)).test().points,
    )
    norms = np.linalg.norm(points, axis=1, keepdims=True)
    tangents = np.arctanh(norms) * points / norms  # log0 (Ganea et al., 2018)
    logits = (tangents @ stored["normals"][0] + stored["intercepts"][0]) / stored["temperature"]
    chances = 1 / (1 + np.exp(-np.abs(logits)))
    np.testing.assert_allclose(
        [float(row["probability"]) for row in rows], chances, rtol=0, atol=5.1e-7
    )


def test_named_groups_are_classes_and_score(named, files, capsys):
    points, labels = clouds(5, 50)
    rows, notes = ask(
        capsys, named.path, write_csv(files / "new.csv", points, labels, header="x,y,kind")
    )
    assert {row["class"] for row in rows} == set(NAMES)
    assert notes["accuracy on all points"] == f"{right(rows, labels):.4f}"
    assert right(rows, labels) > 0.9
    again, same = ask(capsys, named.path, files / "test.csv")
    assert same["accuracy on all points"] == f"{named.summary['global_accuracy']:.4f}"
    assert len(again) == 30


def test_points_of_another_class_are_predicted_and_not_scored(named, files, capsys, tmp_path):
    points, labels = clouds(5, 50)
    known, before = ask(capsys, named.path, write_csv(tmp_path / "known.csv", points, labels))
    labels = [*labels, "fox", "elk", "fox"]
    points = np.concatenate([points, points[:3]])
    rows, notes = ask(capsys, named.path, write_csv(tmp_path / "more.csv", points, labels))
    assert rows[:50] == known
    assert notes["points"] == "53, 50 to score on"
    assert notes["accuracy on all points of known class"] == before["accuracy on all points"]
    assert notes["classes"] == "3 points are not scored, of elk, fox, which the run lacks"
    _, notes = ask(capsys, named.path, write_csv(tmp_path / "new.csv", points[50:], labels[50:]))
    assert notes["points"] == "3"
    assert notes["classes"] == "3 points are not scored, of elk, fox, which the run lacks"


@pytest.mark.parametrize("kind", [".csv", "header.csv", ".tsv", "header.tsv", ".npz", "parts.npz"])
def test_points_need_no_classes(named, files, capsys, tmp_path, kind):
    points, _ = clouds(6, 12)
    want, _ = ask(
        capsys, named.path, write_csv(tmp_path / "labelled.csv", points, ["?"] * len(points))
    )
    path = tmp_path / f"bare{kind}"
    if kind == ".npz":
        np.savez(path, points)
    elif kind == "parts.npz":
        np.savez(path, x_train=points[:5], x_test=points[5:])
    else:
        write_csv(path, points, header="x,y" if kind.startswith("header") else "")
        if kind.endswith("tsv"):
            path.write_text(path.read_text().replace(",", "\t"))
    rows, notes = ask(capsys, named.path, path)
    assert rows == want
    assert notes["points"] == "12"
    assert not any(name.startswith("accuracy") for name in notes)
    assert ("y_train" if kind.endswith("npz") else "--label-key") in notes["classes"]


@pytest.mark.parametrize(
    ("label_key", "header", "place"),
    [
        (
            "type",
            "x,y,kind",
            "a third column of names or whole numbers in a table without a header",
        ),
        ("label", "x,y,share", "a third column of names or whole numbers"),
    ],
)
def test_a_file_says_truly_where_its_classes_are_needed(
    named, capsys, tmp_path, label_key, header, place
):
    points, labels = clouds(6, 12)
    if header.endswith("share"):
        labels = [f"{number}.5" for number in range(12)]
    path = write_csv(tmp_path / "a.csv", points, labels, header)
    _, notes = ask(capsys, named.path, path, "--label-key", label_key)
    needed = f'none in a.csv; an accuracy needs them in the column "{label_key}", or {place};'
    assert notes["classes"].startswith(needed)
    if label_key == "type":
        write_csv(path, points, labels)
        _, notes = ask(capsys, named.path, path, "--label-key", label_key)
        assert "accuracy on all points" in notes


# What is refused


@needs_tables
def test_files_that_are_no_points_are_named(uniform, capsys, tmp_path):
    contents = {
        "0.1,nan\n0.1,0.2\n": "line 1: column 2",
        "x,y\n0.1,left\n": 'line 2: column 2 (y), a coordinate, is "left"',
        "0.1\n": "1 column",
    }
    for content, words in contents.items():
        (tmp_path / "a.csv").write_text(content)
        said = refused(capsys, uniform.path, tmp_path / "a.csv", status=2)
        assert words in said
        assert main(["check", "method=hull", f"dataset={tmp_path / 'a.csv'}"]) == 2


def spoil(path: Path, change) -> None:
    arrays = load_file(path / "model.safetensors")
    with safe_open(path / "model.safetensors", framework="np") as file:
        about = json.loads(file.metadata()["curvfed"])
    change(arrays, about)
    write_arrays(path / "model.safetensors", arrays, {"curvfed": json.dumps(about)})


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays, about: arrays.pop("normals"),
        lambda arrays, about: arrays.update(normals=np.zeros((1, 3))),
        lambda arrays, about: about.update(groups=["0"]),
        lambda arrays, about: about.pop("facts"),
    ],
)
def test_a_model_that_is_none_is_named(uniform, capsys, tmp_path, change):
    copy = shutil.copytree(uniform.path, tmp_path / "copy")
    spoil(copy, change)
    assert f"{copy.resolve() / 'model.safetensors'} is not the model of a run" in refused(
        capsys, copy, "uniform"
    )


def test_an_output_that_cannot_be_written_is_refused_before_the_work(
    named, files, capsys, tmp_path
):
    path = files / "test.csv"
    before = path.read_bytes()
    refusals = {"a.txt": ".tsv or .json", "nowhere/a.csv": "no folder", "": "files that end in"}
    for out, allowed in refusals.items():
        words = (named.path, path, "--out", tmp_path / out)
        assert allowed in refused(capsys, *words, status=2)
        assert not any(tmp_path.iterdir())
    assert "a file that is read" in refused(capsys, named.path, path, "--out", path, status=2)
    assert path.read_bytes() == before


def test_what_a_client_trained_on_is_not_scored(named, files, capsys):
    rows, notes = ask(capsys, named.path, files / "1.csv", "--state-path", files / "state")
    assert len(rows) == 60
    number = re.fullmatch(r"60, (\d+) to score on", notes["points"])
    assert number
    assert int(number[1]) < 30  # 15% of 60, by a secret of the node
    assert "accuracy on the test points" in notes

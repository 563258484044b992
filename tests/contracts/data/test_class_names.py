"""A label is of the same class, or of none, in every type and format that stores it."""

import numpy as np
import pandas
import pytest
from absent_extensions import needs_tables, skip_without_tables
from errors import refuses

import curvfed
from curvfed.strategies.base.keys import python_value
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.class_names import MISSING, alike, class_name, names_in
from curvfed.tasks.in_memory import check_data
from curvfed.tasks.points.dataset import PointDataset
from curvfed.tasks.points.point_spec import PointSpec
from curvfed.tasks.points.readers import read_points

POINTS = np.array([[0.1, -0.2], [0.3, 0.4], [-0.5, 0.25], [0.0, 0.1]])


def stored(folder, kind, labels):
    """The points with these labels in a file, or as objects."""
    if kind in ("csv", "tsv"):
        skip_without_tables()
    path = folder / f"a.{kind}"
    frame = pandas.DataFrame({"x": POINTS[:, 0], "y": POINTS[:, 1], "label": labels})
    if kind == "csv":
        frame.to_csv(path, index=False, na_rep="NA")
    elif kind == "tsv":
        frame.to_csv(path, index=False, sep="\t", na_rep="")
    elif kind == "npz":
        values = frame["label"].to_numpy()
        np.savez(path, data=POINTS, label=values.astype(str) if values.dtype == object else values)
    else:
        return check_data("data", (POINTS, frame["label"]))
    return read_points(path, -1.0, "X_poincare", "label")


def named(raw):
    return [raw.class_names[label] if label >= 0 else None for label in raw.labels]


@pytest.mark.parametrize("kind", ["csv", "tsv", "npz", "memory"])
@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (pandas.Series([0, 1, 2, 1]), ["0", "1", "2", "1"]),
        (pandas.Series([0.0, 1.0, np.nan, 1.0]), ["0", "1", None, "1"]),
        (pandas.Series([0, 1, None, 1], dtype="Int64"), ["0", "1", None, "1"]),
        (pandas.Series(["0.0", "1.0", "2.", "1"]), ["0", "1", "2", "1"]),
        (pandas.Series([True, False, True, True]), ["True", "False", "True", "True"]),
        (
            pandas.Series([True, None, False, True], dtype="boolean"),
            ["True", None, "False", "True"],
        ),
        (
            pandas.Series(["T cell", "B  cell ", " T cell", "B cell"]),
            ["T cell", "B cell", "T cell", "B cell"],
        ),
        (
            pandas.Series(["Mu\u0308ller", "M\u00fcller", "b", "b"]),
            ["M\u00fcller", "M\u00fcller", "b", "b"],
        ),
        (pandas.Series(["NA", "b", "#N/A", "b"], dtype="category"), [None, "b", None, "b"]),
        (pandas.Series(["None", "b", "NULL", "<NA>"]), [None, "b", None, None]),
        (pandas.Series(["a", "b", None, "b"], dtype="category"), ["a", "b", None, "b"]),
    ],
)
def test_a_class_has_one_name_in_every_format(tmp_path, kind, labels, names):
    if kind == "npz" and labels.dtype.name in ("Int64", "boolean", "category"):
        labels = labels.astype(str)
    assert named(stored(tmp_path, kind, labels)) == names


# Lists of names


NAMES = ["CD8-positive, alpha-beta T cell", 'the "other"', "B cell", "7"]


def test_names_of_classes():
    for text in MISSING:
        assert class_name(text) == class_name(f" {text} ") == ""
    for label in (0.5, float("inf"), 1j, ("a",), pandas.Timestamp("2026-01-01")):
        with pytest.raises(ValueError, match="number"):
            class_name(label)
    pairs = {"T cell": "t-cells", "CD8+ T": "cd8+t", "Stra\u00dfe": "STRASSE", "H\u2082": "h2"}
    for one, other in {**pairs, "B_cell": "B cell"}.items():  # they may be one class
        assert alike(one) == alike(other)
    for names in (NAMES, tuple(NAMES), np.array(NAMES)):
        assert names_in(python_value(names, "")) == NAMES
    with refuses("missing-labels", "1", "2"):
        check_data("data", (np.zeros((2, 4, 4), np.uint8), ["a", "NA"]))


@needs_tables
def test_classes_to_keep_have_commas(tmp_path):
    frame = pandas.DataFrame({"x": [0.1, 0.2, 0.3] * 4, "y": 0.1, "label": ["a, b", "c", "d"] * 4})
    frame.to_csv(tmp_path / "a.csv", index=False)
    own = PointDataset(PointSpec("own", tmp_path, classes='"a, b",c')).own(tmp_path / "a.csv")
    assert own.class_names == ("a, b", "c")
    keys = {"num_supernodes": 2, "results_dir": tmp_path / "results", "quiet": True}
    with pytest.raises(ConfigError, match=r"no points of the classes .*a, x"):
        curvfed.simulate(
            "fedavg", dataset=str(tmp_path / "a.csv"), points={"classes": ["a, x", "c"]}, **keys
        )


@needs_tables
def test_a_column_of_names_is_not_of_classes(tmp_path):
    frame = pandas.DataFrame(
        {"x": np.linspace(0, 0.5, 40), "y": 0.1, "label": [f"cell{i}" for i in range(40)]}
    )
    frame.to_csv(tmp_path / "a.csv", index=False)
    with refuses("too-many-classes", "40"):
        PointDataset(PointSpec("own", tmp_path)).own(tmp_path / "a.csv")
    with refuses("too-many-classes", "label-key"):
        PointDataset(PointSpec("own", tmp_path)).own_data(
            read_points(tmp_path / "a.csv", -1.0, "", "label")
        )

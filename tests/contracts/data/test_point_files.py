"""Files of points: what is read; faults are sent without a value."""

import numpy as np
import pytest
from errors import refuses

from curvfed.client_app.node import public_text
from curvfed.tasks.errors import DataError
from curvfed.tasks.points.dataset import PointDataset
from curvfed.tasks.points.point_spec import PointSpec
from curvfed.tasks.points.readers import read_points

POINTS = np.array([[0.1, -0.2], [0.3, 0.4], [-0.5, 0.25], [0.0, 0.0]])
CLASSES = np.array(["b", "a", "b", "c"])
SECRET = "0.7654321"


def read(path, curvature=-1.0, embedding_key="X_poincare", label_key="label"):
    return read_points(path, curvature, embedding_key, label_key)


def npz(path, **arrays):
    np.savez(path, **arrays)
    return path


def text(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    return path


def named(raw):
    return [raw.class_names[label] for label in raw.labels]


# .npz


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "classes", [CLASSES, CLASSES.astype("S"), np.array([10, 2, 10, -3], dtype=np.int32)]
)
def test_npz(tmp_path, dtype, classes):
    raw = read(
        npz(
            tmp_path / "a.NPZ.npz", x_train=POINTS.astype(dtype), y_train=classes, other=np.zeros(3)
        )
    )
    assert raw.points.dtype == np.float64
    assert (raw.points == POINTS.astype(dtype)).all()
    assert named(raw) == classes.astype(str).tolist()
    assert raw.class_names == (("a", "b", "c") if classes.dtype.kind != "i" else ("-3", "2", "10"))
    assert raw.test is None


def test_npz_with_a_test_part(tmp_path):
    path = npz(
        tmp_path / "a.npz",
        x_train=POINTS,
        y_train=[9, 7, 9, 9],
        x_test=POINTS[:2] / 2,
        y_test=[10, 7],
    )
    raw = read(path)
    assert raw.test.tolist() == [False] * 4 + [True] * 2
    assert (raw.points[4:] == POINTS[:2] / 2).all()
    assert named(raw) == ["9", "7", "9", "9", "10", "7"]
    assert raw.class_names == ("7", "9", "10")


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"y_train": None}, ("no-array", "y_train", "x_train")),
        ({"x_test": POINTS}, ("no-array", "y_test", "x_train", "y_train", "x_test")),
        ({"x_train": np.zeros((4, 3))}, ("coordinates", "x_train", "float64", "(4, 3)", "(n, 2)")),
        ({"y_train": CLASSES[:3]}, ("labels", "y_train", "(3,)", "(4,)")),
        ({"y_train": np.full(4, 0.5)}, ("labels", "y_train", "float64")),
        ({"curve": 0.5}, ("curvature", "0.5", "points.curvature", "-1", "-0.5")),
        (
            {"x_train": np.array([[0.1, np.nan], [np.inf, 0], [0, 0], [0, 0]])},
            ("not-finite", "2", "4", "x_train"),
        ),
        ({"y_train": np.array(["a", 1, None, "b"], dtype=object)}, ("unreadable",)),
    ],
)
def test_faults_of_an_npz(tmp_path, change, facts):
    arrays = {"x_train": POINTS, "y_train": CLASSES} | change
    path = npz(
        tmp_path / "a.npz", **{name: array for name, array in arrays.items() if array is not None}
    )
    with refuses(*facts) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_objects_are_not_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("code from a file was run",))

    path = npz(tmp_path / "a.npz", x_train=POINTS, y_train=np.array([Trap()] * 4, dtype=object))
    with refuses("unreadable"):
        read(path)


# The disc


@pytest.mark.parametrize(
    ("curvature", "outside"),
    [
        (-1.0, 0),
        (-3.0, 0),
        (-4.0, 1),
        (-4.0 * (1 - 1e-15), 0),
        (-100.0, 3),
        (-1e-300, 0),
        (-1e300, 3),
    ],
)
def test_points_must_be_inside(tmp_path, curvature, outside):
    path = npz(
        tmp_path / "a.npz",
        x_train=[[0.3, 0.4], [0.0, 0.1], [0.2, 0.0], [0.0, 0.0]],
        y_train=CLASSES,
    )
    if not outside:
        assert len(read(path, curvature).points) == 4
        return
    with pytest.raises(
        DataError, match=rf"{outside} of 4 points lie on or outside .*points\.curvature"
    ) as caught:
        read(path, curvature)
    assert "0.3" not in public_text(caught.value, {"data-path": str(path)})


def test_absent_files(tmp_path):
    with refuses("no-file", "a.npz"):
        PointDataset(PointSpec("uniform", tmp_path)).own(tmp_path / "a.npz")
    with refuses("file-format", "a.txt"):
        PointDataset(PointSpec("uniform", tmp_path)).own(text(tmp_path / "a.txt", "1"))
    with refuses("no-file", "folder/a.npz"):
        PointDataset(PointSpec("folder/a.npz", tmp_path)).test()
    with refuses("no-file", "olson"):
        PointDataset(PointSpec("olson", tmp_path)).test()


@pytest.mark.parametrize("name", ["a", "le", "n"])
def test_a_short_name_is_not_cut_out_of_other_words(name, tmp_path):
    """What is left of these words would tell the name."""
    error = DataError(f"table: the name {name} is nowhere allowed", name)
    text = public_text(error, {"data-path": str(tmp_path / "own.csv")})
    assert text.startswith("table: the name … is nowhere allowed")

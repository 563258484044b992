"""Files of points: what is read, and that each fault of a file is told with its place and without a
value."""

import hashlib
import re
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from errors import refuses

from curvfed.tasks import public_data
from curvfed.tasks.errors import DataError
from curvfed.tasks.points.dataset import PointDataset
from curvfed.tasks.points.point_spec import PointSpec
from curvfed.tasks.points.readers import read_points
from curvfed.tasks.sources import CURVATURES, POINT_SOURCES

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
        (
            {"x_train": np.zeros((4, 3))},
            ("coordinates", "x_train", "float64", "(4, 3)", "(n, 2)"),
        ),
        ({"y_train": CLASSES[:3]}, ("labels", "y_train", "(3,)", "(4,)")),
        ({"y_train": np.full(4, 0.5)}, ("labels", "y_train", "float64")),
        ({"curve": 0.5}, ("curvature", "0.5", "points.curvature", "-1", "-0.5")),
        (
            {"x_train": np.array([[0.1, np.nan], [np.inf, 0], [0, 0], [0, 0]])},
            ("not-finite", "2", "4", "x_train"),
        ),
        (
            {"y_train": np.array(["a", 1, None, "b"], dtype=object)},
            ("unreadable",),
        ),
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
    assert "0.3" not in str(caught.value)


# .csv


@pytest.mark.parametrize(
    "lines",
    [
        ["x,y,label", "0.1,-0.2,b", ".3,4e-1,a", "-0.5, 0.25 ,b", "0,0,c"],
        ["0.1,-0.2,b", "0.3,0.4,a", "", "-0.5,0.25,b", "0,0,c"],
        ["label,cell,x,y", "b,one,0.1,-0.2", "a,two,0.3,0.4", 'b,"th,ree",-0.5,0.25', "c,four,0,0"],
        [",x,y,n,label", "0,0.1,-0.2,9,b", "1,0.3,0.4,9,a", "2,-0.5,0.25,9,b", "3,0,0,9,c"],
        ["\ufefflabel,x,y", "b,0.1,-0.2", "a,0.3,0.4", "b,-0.5,0.25", "c,0,0"],
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_csv(tmp_path, lines, end):
    path = tmp_path / "a.CSV"
    path.write_bytes(end.join(lines).encode())
    raw = read(path)
    assert (raw.points == POINTS).all()
    assert named(raw) == CLASSES.tolist()
    assert raw.test is None


@pytest.mark.parametrize(
    ("lines", "facts"),
    [
        ([""], ("empty",)),
        (
            ["PD1,PD2,PD3,label", "0.1,0.2,0.3,a"],
            ("columns", "2", "4", "3"),
        ),
        (["x,y,kind,time", "0.1,0.2,a,7"], ("no-column", "4", '"label"')),
        (["x,y,z,label", "0.1,0.2,-0.3,a"], ("columns", "column z", "third coordinate")),
        (["label,Z,X,Y", "a,0,0.1,0.2"], ("columns", "column Z", "third coordinate")),
        (["x,y,z", "0.1,0.2,-0.3", "0.1,0.2,0.5"], ("no-column", "3", '"label"', "x, y, z")),
        (["x,y,z", "0.1,0.2,0", "0.1,0.2,1"], ("no-column", "3", '"label"', "x, y, z")),
        (["0.1,0.2,0", "0.1,0.2,-0.3"], ("no-column", "3", '"label"')),
        (["PC1,PC2,PC3", "0.1,0.2,0.3"], ("no-column", "3", "names or whole numbers")),
        (["x,y,label", "0.1,0.2,a", SECRET], ("columns", "3", "1")),
        (
            ["x,y,label", "0.1,0.2,a", "", f'0.1,"{SECRET}\nb",a'],
            ("not-finite", "5", "2"),
        ),
        (["x,y,label", "0.1,0.2,a", f"nan,{SECRET},a"], ("not-finite", "3", "1")),
        (
            [f"{SECRET},b,a", "0.1,0.2,a"],
            ("columns", "1", "3"),
        ),
        (["x,y,label", f"{SECRET},{SECRET},a"], ("outside-disc", "1")),
    ],
)
def test_faults_of_a_csv(tmp_path, lines, facts):
    path = text(tmp_path / "a.csv", *lines)
    with refuses(*facts) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_table_says_which_numbers_it_does_not_read(tmp_path):
    lines = ["cell,x,y,radius,label,batch", "one,0.1,-0.2,0.3,b,1", "two,0.3,0.4,0.5,a,2"]
    raw = read(text(tmp_path / "a.csv", *lines))
    assert raw.notes == ("columns of numbers that are not read: radius, batch",)
    own = PointDataset(PointSpec("uniform", tmp_path)).own(tmp_path / "a.csv")
    assert own.history == raw.notes[0]


def test_classes_in_a_third_column_of_any_name(tmp_path):
    assert named(read(text(tmp_path / "a.csv", "x,y,z", "0.1,-0.2,b", "0.3,0.4,a"))) == ["b", "a"]
    path = text(tmp_path / "a.csv", "x,y,z", "0.1,-0.2,1", "0.3,0.4,0")
    assert named(read(path, label_key="z")) == ["1", "0"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
@pytest.mark.parametrize(
    "lines",
    [
        ["x;y;label", "0,1;-0,2;b", "0,3;0,4;a"],
        ["0,1;-0,2;b", "0,3;0,4;a"],
        ["x\ty\tlabel", "0,1\t-0,2\tb", "0.3\t0.4\ta"],
        [",0,1,label", "0,0.1,-0.2,b", "1,0.3,0.4,a"],
        ["0,1,label", "0.1,-0.2,b", "0.3,0.4,a"],
        ["sep=;", "x;y;label", "0,1;-0,2;b", "0,3;0,4;a"],
        ["sep=;\r", "x;y;label\r", "0.1;-0.2;b\r", "0.3;0.4;a\r"],
        ["x,y,label", '"0,1","-0,2",b', '"0,3","0,4",a'],
        ["# x,y,label", "0.1,-0.2,b", "0.3,0.4,a"],
    ],
)
def test_tables_of_spreadsheets(tmp_path, lines, encoding):
    path = tmp_path / "a.csv"
    path.write_text("\n".join(lines), encoding=encoding)
    raw = read(path)
    assert (raw.points == POINTS[:2]).all()
    assert named(raw) == ["b", "a"]


@pytest.mark.parametrize("end", ['0.2,0.1,"a\n0.1,0.2,b\n', '0.2,0.1,"a"b\n'])
def test_a_quote_that_is_not_closed_takes_no_lines_into_a_class(tmp_path, end):
    path = tmp_path / "a.csv"
    path.write_text(f"x,y,label\n0.1,-0.2,b\n0.3,0.4,a\n{end}")
    with pytest.raises(DataError, match=r"a\.csv cannot be read .* a quote is not closed"):
        read(path)


@pytest.mark.parametrize("header", ["", "a,b,c\n"])
def test_decimal_classes_are_told_to_need_a_name(header, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"{header}0.1,-0.2,0.5\n0.3,0.4,1.5\n")
    with refuses("no-column", "Decimal numbers", "points.label-key to that name"):
        read(path)
    path.write_text("a,b,c\n0.1,-0.2,0.5\n0.3,0.4,1.5\n")
    assert read(path, label_key="c").class_names == ("0.5", "1.5")


def test_a_table_in_another_encoding_is_refused_by_its_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("x,y,label\n0.1,0.2,a\n0.1,0.2,M\u00fcller".encode("cp1252"))
    with refuses("encoding", "3", "UTF-8", "cp1252") as caught:
        read(path)
    assert "ller" not in str(caught.value)


# Published embeddings

OLSSON_SHA256 = "f7d65e26eca92c7a3316794b4bcd64f8812182fc1e778c9a4aa1c47a3e3f9ab4"


def write_embedding(folder, name, num=40):
    """A small file in the layout of Chien et al., or in that of the paper on hulls, which has its
    curvature."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    labels = np.arange(num) % 4
    points = rng.uniform(-0.6, 0.6, size=(num, 2))
    parts = {
        "x_train": points[:30],
        "y_train": labels[:30].astype(float),
        "x_test": points[30:],
        "y_test": labels[30:].astype(float),
    }
    if CURVATURES[name] != -1:
        parts = {"data": points, "label": labels, "curve": -CURVATURES[name]}
    npz(folder / f"{name}.npz", **parts)
    return points, labels


@pytest.mark.parametrize("name", CURVATURES)
def test_an_embedding_is_pooled_at_its_curvature(tmp_path, name):
    points, labels = write_embedding(tmp_path / "poincare", name)
    curvature = CURVATURES[name]
    whole = PointDataset(PointSpec(name.title(), tmp_path, curvature=curvature)).pooled()
    assert (whole.points == points).all()
    assert (whole.labels == labels).all()
    assert whole.test.sum() == 6
    assert whole.curvature == curvature
    with refuses("point-settings", "points.curvature", "-2", str(curvature)):
        PointSpec(name, tmp_path, curvature=-2)


def test_an_embedding_is_downloaded(tmp_path, monkeypatch):
    def fetch(code, root, folder):
        compile(code, "fetch", "exec")
        assert POINT_SOURCES["olsson"].origin in code
        assert OLSSON_SHA256 in code
        write_embedding(root / folder, "olsson")

    monkeypatch.setattr(public_data, "fetch", fetch)
    assert PointDataset(PointSpec("olsson", tmp_path)).client(0, 1).points.shape == (34, 2)


@pytest.mark.parametrize(
    ("name", "published"),
    [("olsson", "olsson"), ("fashion-mnist-disc", "fashion-mnist"), ("cifar10-disc", "cifar")],
)
def test_a_download_is_checked(tmp_path, name, published):
    """The code of the command itself, with a file in the place of the address."""
    source = POINT_SOURCES[name]
    (tmp_path / f"{published}_poincare_embedding.npz").write_bytes(b"something else")
    code = source.command(tmp_path).removeprefix('python -c "').removesuffix('"')
    code = code.replace(source.origin, tmp_path.as_uri())
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode != 0
    assert f"not the published {name}.npz" in done.stderr
    assert not (tmp_path / f"poincare/{name}.npz").exists()
    [digest] = re.findall("[0-9a-f]{64}", code)
    code = code.replace(digest, hashlib.sha256(b"something else").hexdigest())
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (tmp_path / f"poincare/{name}.npz").read_bytes() == b"something else"


def test_an_embedding_that_is_absent_offline(tmp_path, monkeypatch):
    def fetch(code, root, folder):
        raise OSError("no answer within 8 s")

    monkeypatch.setattr(public_data, "fetch", fetch)
    with pytest.raises(DataError) as caught:
        PointDataset(PointSpec("olsson", tmp_path)).client(0, 2)
    message = str(caught.value)
    assert (
        f"are not in {tmp_path / 'poincare'}, and the download fails: no answer within 8 s"
        in message
    )
    assert POINT_SOURCES["olsson"].command(tmp_path) in message


@pytest.mark.parametrize(("name", "study"), [("lung-human", "GSE130148"), ("uc-stromal", "SCP551")])
def test_an_embedding_that_nobody_publishes(tmp_path, name, study):
    dataset = PointDataset(PointSpec(name, tmp_path, curvature=CURVATURES[name]))
    for reading in (partial(dataset.client, 0, 2), dataset.places):
        with refuses("no-public-data", f"{name}.npz", str(tmp_path / "poincare"), "sc_mvae", study):
            reading()


# The authors' files, tabs, and points of unknown class


def test_absent_files(tmp_path):
    with refuses("no-file", "a.csv", ".tsv"):
        PointDataset(PointSpec("uniform", tmp_path)).own(tmp_path / "a.csv")
    with refuses("file-format", "a.txt"):
        PointDataset(PointSpec("uniform", tmp_path)).own(text(tmp_path / "a.txt", "1"))
    with refuses("no-file", "folder/a.csv"):
        PointDataset(PointSpec("folder/a.csv", tmp_path)).test()
    with refuses("no-file", "olson"):
        PointDataset(PointSpec("olson", tmp_path)).test()

"""Tables of points: what is read; faults are told with their place, and sent without a value."""

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


def text(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    return path


def named(raw):
    return [raw.class_names[label] for label in raw.labels]


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
        (["PD1,PD2,PD3,label", "0.1,0.2,0.3,a"], ("columns", "2", "4", "3")),
        (["x,y,kind,time", "0.1,0.2,a,7"], ("no-column", "4", '"label"')),
        (["x,y,z,label", "0.1,0.2,-0.3,a"], ("columns", "column z", "third coordinate")),
        (["x,y,z", "0.1,0.2,-0.3", "0.1,0.2,0.5"], ("no-column", "3", '"label"', "x, y, z")),
        (["x,y,z", "0.1,0.2,0", "0.1,0.2,1"], ("no-column", "3", '"label"', "x, y, z")),
        (["0.1,0.2,0", "0.1,0.2,-0.3"], ("no-column", "3", '"label"')),
        (["x,y,label", "0.1,0.2,a", SECRET], ("columns", "3", "1")),
        (["x,y,label", "0.1,0.2,a", "", f'0.1,"{SECRET}\nb",a'], ("not-finite", "5", "2")),
        (["x,y,label", "0.1,0.2,a", f"nan,{SECRET},a"], ("not-finite", "3", "1")),
        ([f"{SECRET},b,a", "0.1,0.2,a"], ("columns", "1", "3")),
        (["x,y,label", f"{SECRET},{SECRET},a"], ("outside-disc", "1")),
    ],
)
def test_faults_of_a_csv(tmp_path, lines, facts):
    path = text(tmp_path / "a.csv", *lines)
    with refuses(*facts) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert SECRET not in public_text(caught.value, {"data-path": str(path)})


@pytest.mark.parametrize(
    ("cell", "fragments"),
    [
        ("n/a", ("not-finite", "line 3: column 1 (x)", '"n/a"')),
        ('"1,000.5"', ("not-finite", "line 3: column 1 (x)", '"1,000.5"', "thousands")),
        ("", ("not-finite", "line 3: column 1 (x)", "empty")),
        ("3", ("outside-disc", "1 of 2 points", "in line 3: (3, 0.2)")),
    ],
)
def test_an_unfit_coordinate_has_its_line_and_value(cell, fragments, tmp_path):
    path = text(tmp_path / "a.csv", "x,y,label", "0.1,0.2,a", f"{cell},0.2,b")
    with refuses(*fragments) as caught:
        read(path)
    assert fragments[-2] not in public_text(caught.value, {"data-path": str(path)})


def test_what_is_sent_of_an_unfit_coordinate_does_not_depend_on_it(tmp_path):
    """A value that is part of a word of the text, such as a, would be missing in it."""
    sent = set()
    for cell in ("a", "number", "n/a", "", "nan"):
        path = text(tmp_path / "a.csv", "x,y,label", "0.1,0.2,a", f"{cell},0.2,b")
        with refuses("not-finite") as caught:
            read(path)
        sent.add(public_text(caught.value, {"data-path": str(path)}))
    assert len(sent) == 1


@pytest.mark.parametrize("names", ["x,y,label,label", "x,x,label,y"])
def test_two_columns_of_one_name_are_refused(names, tmp_path):
    path = text(tmp_path / "a.csv", names, "0.1,0.2,a,0.5")
    repeated = "label" if names.startswith("x,y") else "x"
    with refuses("columns", "line 1", f'2 columns are named "{repeated}"'):
        read(path)


def test_repeated_rows_are_counted(tmp_path):
    rows = ["0.1,0.2,a", "0.1,0.2,b", "0.3,0.2,a"]
    path = text(tmp_path / "a.csv", "x,y,label", *rows)
    assert read(path).notes == ()
    text(path, "x,y,label", *rows, *rows[:2])
    (note,) = read(path).notes
    assert note.startswith("2 of 5 rows are repeated")


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
def test_decimal_classes_are_reported_to_need_a_name(header, tmp_path):
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


def test_an_absent_table_is_named_with_the_allowed_endings(tmp_path):
    with refuses("no-file", "a.csv", ".tsv"):
        PointDataset(PointSpec("uniform", tmp_path)).own(tmp_path / "a.csv")


@pytest.mark.parametrize("lines", [["name", "cat"], ["0.1,0.2", "0.3,0.1"]])
def test_a_table_with_too_few_columns_is_refused_in_its_own_words(lines, tmp_path):
    with refuses("columns", "line 1", "two columns of coordinates and one of classes"):
        read(text(tmp_path / "a.csv", *lines))

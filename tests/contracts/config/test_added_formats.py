"""Formats of another package: listed, recognised and read; what is none is left out."""

import pytest
from plugin_package import answers_of

FORMATS = """
import json

import numpy as np

from curvfed.tasks.format import Format, ends_in
from curvfed.tasks.points import raw_points
from curvfed.tasks.public_data import Located, PublicData


def recognise(path):
    return ends_in(path, (".dots",))


def locate(path, embedding_key="", label_key="", bare=False):
    def read():
        stored = json.loads(path.read_text())
        classes = None if bare else stored[label_key]
        return raw_points(str(path), stored["places"], classes, ("places", label_key))
    return Located((path,), read)


def of_object(where, item, label_key):
    if not isinstance(item, range):
        return None
    return raw_points(where, np.zeros((len(item), 2)), list(map(str, item)), ("range", "labels"))


def write(path, table, out):
    out.write_text(json.dumps(table["class"].tolist()))


def foreign(path):
    return ("a file of threes", "take one away") if path.suffix == ".threes" else None


DOTS = Format(
    "a file of dots",
    ("points",),
    recognise,
    "brings_dots:locate",
    endings=(".dots",),
    writer="brings_dots:write",
    objects="brings_dots:of_object",
    objects_hint="a range of dots",
    sources={"seurat": PublicData("Seurat", ("seurat",), ("a.dots",), task="points")},
    known=("signac",),
    example="./signac.dots",
)
"""
GROUPS = {
    "curvfed.formats": {"dots": "brings_dots:DOTS", "odd": "brings_dots:locate"},
    "curvfed.foreign": {"threes": "brings_dots:foreign"},
}

ASK = """
import json
import sys
from pathlib import Path

import curvfed
from curvfed.deployments.commands.command import main
from curvfed.tasks.errors import DataError
from curvfed.tasks.formats import decide
from curvfed.tasks.in_memory import ALLOWED, check_data
from curvfed.tasks.registry import catalogue, is_own_data, source_of, tasks_of

folder = Path(sys.argv[1])
dots = folder / "a.dots"
places = [[0.5 * (-1) ** number, 0.01 * number] for number in range(40)]
dots.write_text(json.dumps({"places": places, "label": ["left", "right"] * 20}))
refusals = []
(folder / "b.threes").touch()
for name in (str(folder / "b.threes"), "signac"):
    try:
        tasks_of(name)
    except ValueError as error:
        refusals.append(str(error))
run = curvfed.simulate(
    "hull", dataset=dots, num_supernodes=2, results_dir=folder, quiet=True, report=False
)
out = folder / "out.dots"
(folder / "copy").mkdir()
copy = dots.rename(folder / "copy/a.dots")
assert main(["predict", str(run.path), str(copy), "--out", str(out)]) == 0
print(json.dumps({
    "text": decide(copy).text,
    "absent": [tasks_of("z.dots"), is_own_data("z.dots")],
    "rows": [list(row) for row in catalogue() if "dots" in row[2] or row[0] == "seurat"],
    "source": source_of("Seurat").title,
    "status": run.summary["status"],
    "classes": sorted(set(json.loads(out.read_text()))),
    "memory": [check_data("dots", range(3)).class_names, "a range of dots" in ALLOWED],
    "refusals": refusals,
}))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    return answers_of(tmp_path_factory.mktemp("formats"), "brings_dots", FORMATS, GROUPS, ASK)


def test_it_is_recognised_and_listed(answers):
    assert answers["text"] == "a.dots: points (it ends in .dots)"
    assert answers["absent"] == [["points"], True]
    assert ["a path", "points", "your own: a file of dots"] in answers["rows"]
    assert answers["source"] == "Seurat"


def test_a_run_and_a_prediction_read_it(answers):
    assert answers["status"] == "completed"
    assert answers["classes"] == ["left", "right"]


def test_its_objects_are_data_in_memory(answers):
    assert answers["memory"] == [["0", "1", "2"], True]


def test_what_is_not_read_is_refused_in_its_words(answers):
    threes, signac = answers["refusals"]
    assert "is a file of threes, which is not supported; take one away" in threes
    assert "a file of dots is read by path, such as ./signac.dots" in signac


def test_an_object_that_is_no_format_is_left_out(answers):
    assert "curvfed.formats: odd is left out" in answers["printed"]

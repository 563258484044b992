"""Guards, formats and kinds of data that other packages add, in one process beside all of them."""

import json

import pytest
from plugin_package import package, python

GUARD = """
import numpy as np
from curvfed.client_app.guard import ClientGuard
from curvfed.strategies.base.guard import Guard
from curvfed.strategies.base.keys import Table


class Keys(Table):
    on: bool = False
    \"\"\"hide the clients\"\"\"
    share: float = 0.5
    \"\"\"share of a limit\"\"\"


class Client(ClientGuard):
    def hide(self, header, arrays, variances, bound):
        return lambda residues, encoding, session: residues


class Mine(Guard):
    table = "my-guard"
    keys_class = Keys
    client_half = "brings_guard:Client"

    def __init__(self, config):
        super().__init__(config)
        self.unit = "client" if self.keys.on else ""

    @property
    def settings(self):
        return {"weights": "uniform"}

    def conflicts(self, tasks):
        if self.keys.on and not self.config.secure_sum:
            yield "my-guard.on secure-sum", "secure-sum = true"

    def figures(self, sizes, rounds):
        return {"my_rounds": rounds}

    def limit(self, sent):
        return self.keys.share


class Twin(Mine):
    table = "twin"


class Taken(Guard):
    table = "secure"


FIGURES = ()
"""
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


def recognise_table(path):
    is_table = path.suffix == ".csv" and path.read_text().startswith("dots")
    return "its first column is dots" if is_table else ""


TABLES = Format("a table of dots", ("points",), recognise_table, "brings_dots:locate")
"""
KIND = """
from dataclasses import dataclass
from typing import ClassVar

from curvfed.tasks.format import Format
from curvfed.tasks.kind import Files, Kind
from curvfed.tasks.kinds import IMAGES
from curvfed.tasks.public_data import PublicData


@dataclass
class RawPairs:
    text: str
    task: ClassVar[str] = "pairs"


class PairKind(Kind):
    def warning(self, statistics):
        return f"{len(list(statistics))} clients"

    def num_scored(self, statistics):
        return statistics["num_test"] // 2


def read(where, item, is_alone):
    return RawPairs(f"{where} {item[1]} {is_alone}") if item[:1] == ("pair",) else None


def recognise(path):
    return "it ends in .pairs" if path.suffix == ".pairs" else ""


def foreign(path):
    return ("a file of fours", "take one away") if path.suffix == ".fours" else None


KIND = PairKind(
    parts={"dataset": "brings_pairs:DATASET", "memory": "brings_pairs:read"},
    built_in="twins",
    partitions=("random",),
    defaults=IMAGES.defaults,
    has_classes=False,
    models=("pairwise",),
    trivial={"mrr": "frequent_mrr"},
    files=Files(
        sources={
            "twins": PublicData("twins", task="pairs", built_in="made here", origin="built in")
        },
        formats=(Format("a file of pairs", ("pairs",), recognise, "brings_pairs:locate"),),
        endings=(".pairs", ""),
        hint="pairs are a .pairs file",
        memory_hint="pairs as (pair, text)",
        foreign=foreign,
    ),
)
"""
PACKAGES = {
    "brings_guard": (
        GUARD,
        {
            "curvfed.guards": {
                "my-guard": "brings_guard:Mine",
                "twin": "brings_guard:Twin",
                "taken": "brings_guard:Taken",
                "text": "brings_guard:FIGURES",
                "absent": "brings_guard:ABSENT",
            }
        },
    ),
    "brings_dots": (
        FORMATS,
        {
            "curvfed.formats": {
                "dots": "brings_dots:DOTS",
                "dot-tables": "brings_dots:TABLES",
                "odd": "brings_dots:locate",
            },
            "curvfed.foreign": {"threes": "brings_dots:foreign"},
        },
    ),
    "brings_pairs": (
        KIND,
        {"curvfed.tasks": {"pairs": "brings_pairs:KIND", "nodes": "brings_pairs:KIND"}},
    ),
}

ASK_GUARD = """
import json
import sys
import curvfed
from curvfed.client_app.node.policy import Policy
from curvfed.strategies.base.guard import guards
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.errors import ConfigError

MINE = {"method": "fedavg", "dataset": "digits", "my-guard.on": True}
refusals = []
for keys in (MINE, MINE | {"secure-sum": True, "twin.on": True}, MINE | {"my-guard.share": "x"}):
    try:
        parse(keys)
    except ConfigError as error:
        refusals.append(str(error))
policy = Policy.model_validate({"runs": {"keys": {"my-guard.on": [True]}}})
for is_on in (False, True):
    try:
        policy.check_run(parse(MINE | {"my-guard.on": is_on, "secure-sum": True}), owns_data=False)
    except ConfigError as error:
        refusals.append(str(error))
clipped = curvfed.simulate(
    **MINE | {"secure-sum": True, "my-guard.share": 1e-3, "images.train-subset": 200},
    num_supernodes=3, num_rounds=1, optimizer="sgd", results_dir=sys.argv[1], quiet=True, report=False,
)
print(json.dumps({
    "guards": list(guards()),
    "weights": resolve_defaults(parse(MINE | {"secure-sum": True}), "images").weights,
    "metrics": clipped.summary["metrics"],
    "personal": clipped.summary["personal_accuracy_mean"],
    "refusals": refusals,
}))
"""

ASK_FORMAT = """
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
table = folder / "a.csv"
table.write_text("dots,x,y\\n0.1,0.2,a\\n")
assert main(["predict", str(run.path), str(copy), "--out", str(out)]) == 0
print(json.dumps({
    "text": decide(copy).text,
    "table": decide(table).text,
    "absent": [tasks_of("z.dots"), is_own_data("z.dots")],
    "rows": [list(row) for row in catalogue() if "dots" in row[2] or row[0] == "seurat"],
    "source": source_of("Seurat").title,
    "status": run.summary["status"],
    "classes": sorted(set(json.loads(out.read_text()))),
    "memory": [check_data("dots", range(3)).class_names, "a range of dots" in ALLOWED],
    "refusals": refusals,
}))
"""

ASK_KIND = """
import json
import sys
from pathlib import Path
from curvfed.strategies.base.figures import find
from curvfed.strategies.config.parse import parse
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods import METHODS
from curvfed.tasks.errors import DataError
from curvfed.tasks.formats import decide
from curvfed.tasks.in_memory import check_data
from curvfed.tasks.kinds import KINDS, TRIVIAL_OF
from curvfed.tasks.registry import GENERATED, catalogue, is_own_data, tasks_of

folder = Path(sys.argv[1])
for name in ("a.pairs", "b.fours", "c.unknown"):
    (folder / name).touch()
refusals = []
for name in ("b.fours", "c.unknown"):
    try:
        tasks_of(str(folder / name))
    except DataError as error:
        refusals.append(str(error))
try:
    parse({"method": "hull", "dataset": str(folder / "a.pairs")})
except ConfigError as error:
    refusals.append(str(error))
raw = check_data("the data", ("pair", "x"), tasks=["pairs"])
print(json.dumps({
    "kinds": list(KINDS),
    "local": list(METHODS["local"].tasks),
    "nodes": KINDS["nodes"].built_in,
    "here": tasks_of(str(folder / "a.pairs")),
    "reason": decide(folder / "a.pairs").text,
    "absent": [tasks_of("./z.pairs"), decide(folder / "z").tasks, is_own_data("z.pairs")],
    "named": [tasks_of("Twins"), "twins" in GENERATED],
    "listed": [row for row in catalogue() if row[1] == "pairs"],
    "memory": [raw.task, raw.text],
    "parsed": parse({"method": "local", "dataset": "twins"}).dataset,
    "answers": [KINDS["pairs"].warning([{}, {}]), KINDS["pairs"].num_scored({"num_test": 7})],
    "part": KINDS["pairs"].part("predict"),
    "trivial": TRIVIAL_OF["mrr"],
    "refusals": refusals,
}))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What one process prints beside all three packages: JSON of guards, formats and kinds."""
    folder = tmp_path_factory.mktemp("added")
    for name, (module, points) in PACKAGES.items():
        package(folder / "site", name, module, points)
    program = ASK_GUARD + ASK_FORMAT + ASK_KIND
    printed = python(program, folder / "home", folder / "site", words=(str(folder),))
    lines = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    parts = dict(zip(("guard", "format", "kind"), lines, strict=True))
    return parts | {"printed": printed}


def test_guards_that_will_not_do_are_left_out_with_the_reason(answers):
    assert answers["guard"]["guards"][-2:] == ["my-guard", "twin"]
    for name in ("taken", "text", "absent"):
        assert f"curvfed.guards: {name} is left out" in answers["printed"]


def test_keys_of_a_guard_are_those_of_every_run(answers):
    conflict, both, wrong, off = answers["guard"]["refusals"]
    assert "secure-sum = true" in conflict
    assert "my-guard and twin" in both
    assert "my-guard.share = 'x'" in wrong
    assert 'my-guard.on = false: [runs] keys, "my-guard.on"' in off
    assert answers["guard"]["weights"] == "uniform"


def test_a_guard_decides_what_leaves(answers):
    assert answers["guard"]["metrics"]["my_rounds"] == 1
    assert answers["guard"]["personal"] is None
    assert "100% of the updates" in answers["printed"]


def test_a_format_is_recognised_listed_and_read_and_predictions_are_written_in_it(answers):
    of_format = answers["format"]
    assert of_format["text"] == "a.dots: points (it ends in .dots)"
    # also a table, which a format of curvfed takes only if no other does
    assert of_format["table"] == "a.csv: points (its first column is dots)"
    assert of_format["absent"] == [["points"], True]
    assert ["a path", "points", "your own: a file of dots"] in of_format["rows"]
    assert of_format["source"] == "Seurat"
    assert of_format["status"] == "completed"
    assert of_format["classes"] == ["left", "right"]
    assert of_format["memory"] == [["0", "1", "2"], True]
    assert "curvfed.formats: odd is left out" in answers["printed"]


def test_what_no_format_reads_is_refused_in_its_words(answers):
    threes, signac = answers["format"]["refusals"]
    assert "a file of threes" in threes
    assert "take one away" in threes
    assert "./signac.dots" in signac


def test_the_kind_is_the_last_one_and_a_method_of_all_data_takes_it(answers):
    kind = answers["kind"]
    assert kind["kinds"][:4] == ["nodes", "graphs", "images", "points"]
    assert kind["kinds"][-1] == "pairs"
    assert kind["local"] == kind["kinds"]
    assert kind["parsed"] == "twins"
    assert kind["nodes"] == "trees"  # a name of the core is not replaced
    assert 'curvfed.tasks: "nodes" is a built-in name' in answers["printed"]


def test_files_names_and_data_in_memory_of_the_kind_are_its_own(answers):
    kind = answers["kind"]
    assert kind["here"] == ["pairs"]
    assert kind["reason"] == "a.pairs: pairs (it ends in .pairs)"
    absent, folder, is_own = kind["absent"]
    assert (absent, is_own) == (["pairs"], True)
    assert {"graphs", "images", "pairs"} <= set(folder)
    assert kind["named"] == [["pairs"], True]
    own = ["a path", "pairs", "your own: a file of pairs"]
    assert kind["listed"] == [["twins", "pairs", "built in"], own]
    assert kind["memory"] == ["pairs", "the data x True"]


def test_the_kind_answers_for_itself_and_refusals_name_it(answers):
    kind = answers["kind"]
    assert kind["answers"] == ["2 clients", 3]
    assert kind["part"] is None
    assert kind["trivial"] == "frequent_mrr"
    fours, unknown, other = kind["refusals"]
    assert "a file of fours" in fours
    assert "a file of pairs" in unknown
    assert "is read as pairs" in other

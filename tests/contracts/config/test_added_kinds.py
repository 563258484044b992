"""A kind of data that another package adds: the core finds it, and asks it about files, about data in
memory and about names."""

import pytest
from plugin_package import answers_of

KIND = """
from dataclasses import dataclass
from typing import ClassVar

from curvfed.tasks.format import Format
from curvfed.tasks.kind import Kind
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
    return ("a file of threes", "take one away") if path.suffix == ".threes" else None


KIND = PairKind(
    parts={"dataset": "brings:DATASET", "memory": "brings:read"},
    built_in="twins",
    partitions=("random",),
    defaults=IMAGES.defaults,
    has_classes=False,
    models=("pairwise",),
    trivial={"mrr": "frequent_mrr"},
    sources={"twins": PublicData("twins", task="pairs", built_in="made here", origin="built in")},
    formats=(Format("a file of pairs", ("pairs",), recognise, "brings:locate"),),
    endings=(".pairs", ""),
    files_hint="pairs are a .pairs file",
    memory_hint="pairs as (pair, text)",
    foreign=foreign,
)
"""
POINTS = {"curvfed.tasks": {"pairs": "brings:KIND", "nodes": "brings:KIND"}}

ASK = """
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
for name in ("a.pairs", "b.threes", "c.unknown"):
    (folder / name).touch()
refusals = []
for name in ("b.threes", "c.unknown"):
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
    return answers_of(tmp_path_factory.mktemp("kinds"), "brings", KIND, POINTS, ASK)


def test_the_kind_is_the_last_one_and_a_method_of_all_data_takes_it(answers):
    assert answers["kinds"][:4] == ["nodes", "graphs", "images", "points"]
    assert answers["kinds"][-1] == "pairs"
    assert answers["local"] == answers["kinds"]
    assert answers["parsed"] == "twins"


def test_a_name_of_the_core_is_not_replaced(answers):
    assert answers["nodes"] == "trees"
    assert 'curvfed.tasks: "nodes" is a built-in name' in answers["printed"]


def test_its_files_are_its_own(answers):
    assert answers["here"] == ["pairs"]
    assert answers["reason"] == "a.pairs: pairs (it ends in .pairs)"
    absent, folder, is_own = answers["absent"]
    assert (absent, is_own) == (["pairs"], True)
    assert {"graphs", "images", "pairs"} <= set(folder)


def test_its_names_are_listed(answers):
    assert answers["named"] == [["pairs"], True]
    assert answers["listed"] == [
        ["twins", "pairs", "built in"],
        ["a path", "pairs", "your own: a file of pairs"],
    ]


def test_data_in_memory_are_read_by_it(answers):
    assert answers["memory"] == ["pairs", "the data x True"]


def test_it_answers_for_itself(answers):
    assert answers["answers"] == ["2 clients", 3]
    assert answers["part"] is None
    assert answers["trivial"] == "frequent_mrr"


def test_refusals_name_it(answers):
    threes, unknown, other = answers["refusals"]
    assert "is a file of threes, which is not supported; take one away" in threes
    assert "a file of pairs" in unknown
    assert "is read as pairs" in other

"""One place decides what a path is: tables of links, and data that may be links."""

import numpy as np
import pandas as pd
import pytest
from errors import refuses

import curvfed
from curvfed.deployments.commands.command import main
from curvfed.extensions.links.readers import read_links
from curvfed.tasks import formats, stored_files
from curvfed.tasks.errors import DataError
from curvfed.tasks.formats import decide
from curvfed.tasks.in_memory import check_data
from curvfed.tasks.registry import tasks_of

PEOPLE = [f"n{number},n{number // 2}" for number in range(1, 30)]


def table(path, *lines, encoding="utf-8"):
    path.write_text("\n".join([*lines, ""]), encoding=encoding)
    return path


def folder_of(path, *names):
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).touch()
    return path


def split_of(path, *names):
    for name in names:
        table(folder_of(path, name) / name, "a\tb", "c\tb")
    return path


DECISIONS = {
    "links.tsv: links (three columns of names)": lambda path: table(
        path / "links.tsv", "cat\teats\tmouse", "dog\teats\tbone"
    ),
    "edges.csv: links (two columns of whole numbers)": lambda path: table(
        path / "edges.csv", "1,2", "3,4"
    ),
    "links.csv: links (line 1 names the columns: head = from, tail = to)": lambda path: table(
        path / "links.csv", "from,to", "1,2"
    ),
    "kg: links (train.txt, test.txt are the parts of a split)": lambda path: split_of(
        path / "kg", "train.txt", "test.txt"
    ),
    "points.csv: points (it ends in .csv, and its columns are not those of links)": (
        lambda path: table(path / "points.csv", "x,y,label", "0.1,0.2,a", "0.2,0.1,b")
    ),
    "one.csv: links or points (it has one line, which may be the names of columns)": (
        lambda path: table(path / "one.csv", "x,y,label")
    ),
    "empty.tsv: links or points (it has no lines that can be read)": (
        lambda path: folder_of(path, "empty.tsv") / "empty.tsv"
    ),
    "graph.pt: nodes or graphs or links (it ends in .pt)": (
        lambda path: folder_of(path, "graph.pt") / "graph.pt"
    ),
}


@pytest.mark.parametrize("text", DECISIONS)
def test_the_decision_has_its_reason(text, tmp_path):
    path = DECISIONS[text](tmp_path)
    assert decide(path).text == text
    assert tasks_of(f"{path}/" if path.is_dir() else str(path)) == decide(path).tasks


def test_check_prints_the_decision(own_home, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "links.csv", *PEOPLE)
    keys = ["num-supernodes=2", "dataset=links.csv"]
    assert main(["check", "method=links", *keys]) == 0
    assert "links.csv: links (two columns of names)\n" in capsys.readouterr().out
    assert main(["check", "method=hull", *keys]) == 2
    assert "is read as links (two columns of names), but" in capsys.readouterr().err


def test_two_columns_of_decimals_are_of_no_method(own_home, tmp_path, capsys):
    path = table(tmp_path / "a.csv", "0.1,0.2", "0.3,0.4")
    assert main(["check", "method=links", "num-supernodes=2", f"dataset={path}"]) == 2
    error = capsys.readouterr().err
    assert "is read as points (it has two columns, and" in error
    assert "or method=" not in error


def test_check_shows_the_curvature_of_the_score(own_home, capsys):
    for words, curvature in ([], "-1.0"), (["links.score=inner"], "0.0"):
        assert main(["check", "method=links", "num-supernodes=2", *words]) == 0
        (line,) = [
            line for line in capsys.readouterr().out.splitlines() if "links.curvature" in line
        ]
        assert [cell.strip() for cell in line.split("│")[2:4]] == [curvature, "auto"]


def test_a_run_decides_once_what_its_data_are(own_home, tmp_path, monkeypatch):
    path = table(tmp_path / "links.csv", *PEOPLE)
    paths = []
    decided = formats._decide
    monkeypatch.setattr(formats, "_decide", lambda path: paths.append(path) or decided(path))
    # Files that changed just now are looked at again.
    monkeypatch.setattr(stored_files, "TICK_NS", -60 * 10**9)
    curvfed.simulate("links", dataset=path, num_supernodes=2, num_rounds=1, quiet=True)
    assert paths == [path]
    table(path, "x,y,label", "0.1,0.2,a")
    assert decide(path).tasks == ("points",)


UNCLEAR = {"empty": b"", "header": b"x,y,label\n", "damaged": b'a,"b\n'}


@pytest.mark.parametrize("case", UNCLEAR)
def test_a_table_that_may_be_either_is_refused_as_what_the_run_needs(case, tmp_path, capsys):
    path = tmp_path / "table.csv"
    path.write_bytes(UNCLEAR[case])
    keys = [f"dataset={path}", "num-supernodes=2"]
    assert main(["check", "method=hull", *keys]) == 2
    error = capsys.readouterr().err
    assert "points" in error or "coordinates" in error or "a quote is not closed" in error
    assert "links" not in error
    if case != "header":
        assert main(["check", "method=links", *keys]) == 2
        error = capsys.readouterr().err
        assert "has no links" in error or "a quote is not closed" in error
    assert main(["check", "method=fedper", *keys]) == 2
    assert "is read as links or points (it has" in capsys.readouterr().err


def test_the_names_of_the_columns_of_links_alone_are_no_points(tmp_path, capsys):
    path = table(tmp_path / "links.csv", "source,target")
    assert main(["check", "method=links", f"dataset={path}", "num-supernodes=2"]) == 2
    assert "has no links between two entities" in capsys.readouterr().err
    with pytest.raises(DataError, match="has no points below the names of its columns"):
        curvfed.tasks.points.readers.read_points(table(path, "x,y,label"), -1.0, "", "label")


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("a.tsv", ["cat;mammal", "dog;mammal", "bird;animal"]),
        ("a.tsv", ["cat,mammal", "dog,mammal", "bird,animal"]),
        ("a.csv", ["cat, wild;mammal", "dog;mammal", "bird;animal"]),
        ("a.csv", ["cat\tmammal", "dog\tmammal", "bird, wild\tanimal"]),
    ],
)
def test_the_separator_is_the_one_that_splits_all_lines_alike(name, lines, tmp_path):
    path = table(tmp_path / name, *lines)
    assert tasks_of(str(path)) == ("links",)
    assert len(read_links(path).triples) == 3
    assert "mammal" in read_links(path).entities


def test_links_in_another_encoding_are_links(tmp_path):
    path = table(tmp_path / "a.tsv", "cat\tmammal", "café\tplace", encoding="latin-1")
    assert tasks_of(str(path)) == ("links",)
    with refuses("encoding", "line 2", "UTF-8"):
        read_links(path)


def notes_of(capsys, *words):
    assert main(["check", "num-supernodes=2", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    return [line for line in lines if line.startswith(("note: client 0", "note: clients 0"))]


@pytest.mark.parametrize("first", ["Kind,Elternteil", "species,taxon"])
def test_a_first_line_that_may_name_the_columns_is_noted(first, own_home, tmp_path, capsys):
    words = ["method=links", f"dataset={tmp_path / 'links.csv'}"]
    table(tmp_path / "links.csv", first, *PEOPLE)
    text = f"the first line, {first.replace(',', ', ')}, is read as a link"
    assert any(text in note for note in notes_of(capsys, *words))
    table(tmp_path / "links.csv", *PEOPLE)
    assert not any("the first line" in note for note in notes_of(capsys, *words))


def test_the_same_first_line_of_all_files_of_a_split_is_noted(tmp_path):
    folder = tmp_path / "kg"
    folder.mkdir()
    for number, name in enumerate(("train.csv", "valid.csv", "test.csv")):
        table(folder / name, "Kind,Elternteil", *PEOPLE[number::3])
    (note,) = read_links(folder).notes
    assert "Kind, Elternteil" in note


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ([("a", "b"), ("c",)], "data[0], link 2: it is no pair (head, tail)"),
        ([("a", "b"), ("c", "is", "d", "e")], "data[0], link 2"),
        ([("a", "b"), ("c", None)], "data[0], link 2"),
        ([("a", "b"), ("c", 0.5)], "data[0], link 2"),
        ([(1, 2), (3,)], "data[0], link 2"),
        ([["a", "b"], []], "data[0], link 2"),
        ([(0.1, 0.2), (0.3, 0.1)], "data[0] is a list of tuple; allowed is"),
        (["a", "b"], "data[0] is a list of str; allowed is"),
        (
            pd.DataFrame({"source": ["a", "b"], "target": ["b", None]}),
            'data[0], link 2: "b" has no',
        ),
    ],
)
def test_unfit_links_in_memory_are_refused_as_links(item, words):
    with pytest.raises(DataError) as caught:
        check_data("data[0]", item)
    assert words in str(caught.value)
    assert "graph 0" not in str(caught.value)


def test_whole_numbers_of_numpy_name_entities():
    edges = [(np.int64(0), np.int64(1)), (np.int64(1), np.int64(2))]
    assert check_data("data[0]", edges).entities == ("0", "1", "2")


def test_check_names_each_way_by_which_several_relations_count(own_home, tmp_path, capsys):
    rows = [
        f"{row.replace(',', ',is_a,' if number % 2 else ',part_of,')}"
        for number, row in enumerate(PEOPLE)
    ]
    words = ["check", "method=links", f"dataset={table(tmp_path / 'links.csv', *rows)}"]
    words += ["num-supernodes=2", "min-client-size=1"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "note: the links have 2 relations, and the scores of method = links do not" in out
    assert (
        "links.relations = translation or rotation or diagonal, and with method = links-co" in out
    )
    for way in ("links.relations=rotation", "method=links-rotate"):
        assert main([*words, way]) == 0
        assert "note: the links have 2 relations" not in capsys.readouterr().out


@pytest.mark.parametrize("is_upside_down", [False, True])
def test_a_hierarchy_from_parents_to_children_is_noted(is_upside_down, tmp_path, capsys):
    """Without names of columns the first is the head: the child."""
    pairs = [(f"n{number}", f"n{number // 4}") for number in range(1, 80)]
    lines = ["\t".join(reversed(pair) if is_upside_down else pair) for pair in pairs]
    path = table(tmp_path / "tree.tsv", *lines)
    words = ["method=links", f"dataset={path}", "links.closure=true", "num-supernodes=2"]
    assert main(["check", *words]) == 0
    assert ("more than twice as many tails" in capsys.readouterr().out) == is_upside_down

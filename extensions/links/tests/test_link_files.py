"""Links as people store them: headers, orders of columns, quotes, comments, splits, OBO files,
stored graphs, and objects of Python; and what is said of links that are left out."""

import gzip
import os
import subprocess
import sys
import unicodedata

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from app_runs import run
from errors import refuses
from tiers import only
from torch_geometric.data import Data
from torch_geometric.transforms import ToSparseTensor

from curvfed.deployments.python_api import simulate
from curvfed.extensions.links.dataset import LinkDataset
from curvfed.extensions.links.owners import branch_order
from curvfed.extensions.links.readers import read_links
from curvfed.extensions.links.split import LinkSpec, split_links
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.errors import DataError
from curvfed.tasks.in_memory import check_data
from curvfed.tasks.registry import tasks_of


def links_of(raw):
    """The links by name."""
    rows = raw.triples.tolist()
    return [
        (raw.entities[head], raw.relations[kind], raw.entities[tail]) for head, kind, tail in rows
    ]


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


PAIRS = [("cat", "", "mammal"), ("dog", "", "mammal")]
TRIPLES = [("cat", "eats", "mouse"), ("dog", "eats", "bone")]


@pytest.mark.parametrize(
    "names",
    [
        "source,target",
        "from,to",
        "child,parent",
        ":START_ID,:END_ID",
        "id1,id2,weight",
        "Head,Tail",
    ],
)
def test_a_line_of_usual_names_is_no_link(names, tmp_path):
    further = ",3" * (names.count(",") - 1)
    text = f"{names}\ncat,mammal{further}\ndog,mammal{further}\n"
    path = written(tmp_path / "links.csv", text)
    assert tasks_of(str(path)) == ("links",)
    raw = read_links(path)
    assert links_of(raw) == PAIRS
    assert raw.history[0].startswith("line 1 names the columns: head = ")


@pytest.mark.parametrize(
    ("names", "order"),
    [
        ("subject,predicate,object", (0, 1, 2)),
        ("h,r,t", (0, 1, 2)),
        ("source,target,type", (0, 2, 1)),
        ("head,tail,relation", (0, 2, 1)),
        ("type,to,from", (1, 2, 0)),
        ("id,node1,label,node2", (None, 0, 1, 2)),
        (",source,target,type,since", (None, 0, 2, 1, None)),
    ],
)
def test_the_names_of_columns_say_their_order(names, order, tmp_path):
    rows = [
        [f"{place}" if position is None else row[position] for position in order]
        for place, row in enumerate(TRIPLES)
    ]
    text = "\n".join([names, *map(",".join, rows)])
    assert links_of(read_links(written(tmp_path / "links.csv", text))) == TRIPLES


def test_a_first_line_with_names_of_links_below_is_a_link(tmp_path):
    text = "child\tparent\nparent\tperson\nchild\tperson\n"
    raw = read_links(written(tmp_path / "family.tsv", text))
    assert len(raw.triples) == 3
    text = "head\trelation\ttail\nhead\tpart_of\tbody\ntail\tpart_of\tbody\n"
    assert len(read_links(written(tmp_path / "body.tsv", text)).triples) == 2


@pytest.mark.parametrize("order", [(0, 2, 1), (1, 0, 2)])
def test_relations_in_another_column_are_reported(order, tmp_path):
    rows = [(f"n{number}", "is_a", f"n{number // 2}") for number in range(1, 30)]
    text = "\n".join("\t".join(row[place] for place in order) for row in rows)
    dataset = LinkDataset(LinkSpec("own", tmp_path))
    links = dataset.own(written(tmp_path / "links.tsv", text))
    assert any("names of entities: columns without names" in note for note in links.notes)
    assert " relations between" in links.describe()
    right = dataset.own(written(tmp_path / "right.tsv", "\n".join(map("\t".join, rows))))
    assert not any("names of entities" in note for note in right.notes)


def test_a_quote_between_tabs_is_a_letter(tmp_path):
    text = 'the "Weird Al\tpart_of\ta"\n"b\tis_a\tc\nd\tis_a\tc\n'
    assert links_of(read_links(written(tmp_path / "names.tsv", text))) == [
        ('the "Weird Al', "part_of", 'a"'),
        ('"b', "is_a", "c"),
        ("d", "is_a", "c"),
    ]
    quoted = written(tmp_path / "names.csv", '"Weird, Al",part\n')
    assert links_of(read_links(quoted)) == [("Weird, Al", "", "part")]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("a.csv", ["source;target;type", "cat;mouse;eats", '"dog";"bone";"eats"']),
        ("a.csv", ["cat;eats;mouse", "dog;eats;bone"]),
        ("a.csv", ["sep=;", "cat;eats;mouse", "dog;eats;bone"]),
        ("a.csv", ["sep=,", "source,target,type", "cat,mouse,eats", "dog,bone,eats"]),
        ("a.csv", ["cat,eats,mouse,", "dog,eats,bone,"]),
        ("a.tsv", ["cat\teats\tmouse\t", "dog\teats\tbone\t"]),
        ("a.tsv", ["cat\teats\tmouse", "dog\teats\tbone"]),
    ],
)
def test_links_as_spreadsheets_write_them(name, lines, encoding, tmp_path):
    path = tmp_path / name
    path.write_bytes("\r\n".join([*lines, ""]).encode(encoding))
    assert tasks_of(str(path)) == ("links",)
    assert links_of(read_links(path)) == TRIPLES


@pytest.mark.parametrize("end", ['bird,"mammal\nfish,animal\n', 'bird,"mammal"s\n'])
def test_a_quote_that_is_not_closed_takes_no_links_into_a_name(end, tmp_path):
    path = written(tmp_path / "a.csv", "cat,mammal\n" * 20 + end)
    assert tasks_of(str(path)) == ("links",)
    with pytest.raises(DataError, match=r"a\.csv cannot be read .* line 21, a quote is not closed"):
        read_links(path)


def test_a_tail_that_is_absent_is_refused_by_its_line(tmp_path):
    path = written(tmp_path / "a.csv", "sep=;\ncat;mammal\ndog;\n")
    with refuses("link-names", "a.csv, line 3", '"dog" has no tail', "delete this one") as caught:
        read_links(path)
    assert caught.value.names == ('"dog"',)
    written(path, "source,target\ncat,mammal\n,mammal\n")
    with refuses("link-names", "a.csv, line 3", '"mammal" has no head'):
        read_links(path)
    written(path, "source,target\ncat,mammal\ndog,→ mammal\n")
    with refuses("link-names", "a.csv, line 3", 'the name "→ mammal" begins with "→ "'):
        read_links(path)
    short = written(tmp_path / "b.csv", "sep=;\ncat;mammal\ndog\n")
    with pytest.raises(DataError, match=r"b.csv, line 3: there is 1 column;"):
        read_links(short)


@pytest.mark.parametrize("text", ["child,parent\n1,0.0\n2.0,1.0\n", "1,0.0\n2,1.0\n"])
def test_whole_numbers_with_decimals_are_the_entities_without_them(text, tmp_path):
    path = written(tmp_path / "a.csv", text)
    assert tasks_of(str(path)) == ("links",)
    raw = read_links(path)
    assert links_of(raw) == [("1", "", "0"), ("2", "", "1")]
    assert "such as 1.0, are read without them" in raw.history[-1]
    frame = pd.DataFrame({"child": [1, 2], "parent": [0.0, 1.0]})
    assert links_of(check_data("data[0]", frame)) == links_of(raw)


def test_a_number_that_may_be_rounded_is_no_entity(tmp_path):
    path = written(tmp_path / "a.csv", "child,parent\n1,0\n2,1e+18\n")
    with refuses("link-names", 'a.csv, line 3: "1e+18"', "dtype=str"):
        read_links(path)


def test_versions_keep_their_decimals(tmp_path):
    path = written(tmp_path / "train.csv", "child,parent\n1.5,1.0\n1.0,1\n")
    assert read_links(path).entities == ("1", "1.0", "1.5")


@pytest.mark.parametrize("text", ["cat,mammal,0.5\n", "cat,eats,mouse,2\n"])
def test_a_table_with_weights_is_told_to_name_its_columns(text, tmp_path):
    path = written(tmp_path / "a.csv", text * 2)
    assert tasks_of(str(path)) == ("links",)
    with refuses("columns", "a.csv, line 1"):
        read_links(path)
    names = "head,tail,weight\n" if text.count(",") == 2 else "head,relation,tail,weight\n"
    written(path, names + text)
    assert len(read_links(path).triples) == 1


def test_comments_are_no_links_and_points_below_them_stay_points(tmp_path):
    text = "# Directed graph\n# FromNodeId\tToNodeId\n1\t0\n2\t0\n"
    path = written(tmp_path / "edges.tsv", text)
    assert tasks_of(str(path)) == ("links",)
    assert len(read_links(path).triples) == 2
    hashtags = written(tmp_path / "tags.tsv", "#cat\t#mammal\n#dog\t#mammal\n")
    assert len(read_links(hashtags).triples) == 2
    points = written(tmp_path / "points.csv", "# made here\nx,y,label\n0.1,0.2,a\n0.2,0.1,b\n")
    assert tasks_of(str(points)) == ("points",)


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("0.0842,0.26\n-0.2943,-0.0781\n", "points"),
        ("smiles,label\nCO,0\nCCO,1\n", "points"),
        ("x,y\n0.1,0.2\n0.3,0.4\n", "points"),
        ("x,y,label\n1,2,0\n3,4,1\n", "points"),
        ('x,y,label\n"0,1","0,2",a\n"0,3","0,4",b\n', "points"),
        ("x;y;label\n0,1;0,2;a\n0,3;0,4;b\n", "points"),
        ("sep=;\nx;y;label\n0,1;0,2;a\n0,3;0,4;b\n", "points"),
        ("Se7en,1984\n1984,book\nIt,novel\n", "links"),
        ("source,target\n1,2\n3,4\n", "links"),
    ],
)
def test_coordinates_and_classes_are_no_links(text, task, tmp_path):
    assert tasks_of(str(written(tmp_path / "table.csv", text))) == (task,)


def test_names_in_two_forms_of_unicode_are_one_entity(tmp_path):
    text = "".join(
        f"{unicodedata.normalize(form, 'Käse')}\tfood{form}\n" for form in ("NFC", "NFD")
    )
    assert len(read_links(written(tmp_path / "foods.tsv", text)).entities) == 3


OBO = (
    "format-version: 1.4\n\n[Term]\nid:A:2\nis_a:A:1 {source=x} ! root\nrelationship: part_of A:3\n\n"
    "[Typedef]\nid: part_of\nis_a: overlaps\n\n[Instance]\nid: rex\nis_a: A:2\n\n"
    "[Term]\nid: A:4\nis_a: A:1\nis_obsolete: true\nis_a: A:3\n"
)


@pytest.mark.parametrize("name", ["terms.obo", "terms.obo.gz"])
def test_the_terms_of_an_ontology_alone_are_entities(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(gzip.compress(OBO.encode()) if name.endswith("gz") else OBO.encode())
    assert tasks_of(str(path)) == ("links",)
    assert links_of(read_links(path)) == [("A:2", "is_a", "A:1"), ("A:2", "part_of", "A:3")]


def test_an_ontology_in_another_encoding_is_not_called_damaged(tmp_path):
    path = tmp_path / "terms.obo"
    path.write_bytes(OBO.replace("root", "caf\xe9").encode("cp1252"))
    with pytest.raises(DataError, match="as UTF-8") as caught:
        read_links(path)
    assert "damaged" not in str(caught.value)


def test_a_compressed_table_is_read_and_a_cut_one_is_named(tmp_path):
    path = tmp_path / "links.csv.gz"
    path.write_bytes(gzip.compress(b"source,target\ncat,mammal\ndog,mammal\n"))
    assert tasks_of(str(path)) == ("links",)
    assert links_of(read_links(path)) == PAIRS
    path.write_bytes(path.read_bytes()[:-12])
    assert tasks_of(str(path)) == ("links",)
    with refuses("unreadable", "links.csv.gz cannot be read", "it is truncated"):
        LinkDataset(LinkSpec("balanced-tree", tmp_path)).test(path)
    written(path, "source,target\ncat,mammal\n")
    assert tasks_of(str(path)) == ("links",)
    with refuses("unreadable", "links.csv.gz", "remove .gz from its name"):
        LinkDataset(LinkSpec("balanced-tree", tmp_path)).test(path)


EDGES = torch.tensor([[0, 1, 2, 0], [1, 2, 0, 3]])


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("ending", ["pt", "pth"])
def test_the_columns_of_a_transposed_adjacency_are_heads(ending, tmp_path):
    plain = Data(edge_index=EDGES, num_nodes=4)
    for name, data in (("plain", plain), ("turned", ToSparseTensor()(plain.clone()))):
        torch.save(data, tmp_path / f"{name}.{ending}")
    raws = [read_links(tmp_path / f"{name}.{ending}") for name in ("plain", "turned")]
    assert (
        set(links_of(raws[0]))
        == set(links_of(raws[1]))
        == {(str(head), "", str(tail)) for head, tail in EDGES.T.tolist()}
    )


def test_masks_and_relations_of_edges_are_read_and_other_fields_named(tmp_path):
    masks = {
        f"{name}_mask": torch.tensor([split == number for split in (0, 1, 2, 0)])
        for number, name in enumerate(("train", "val", "test"))
    }
    fields = {"edge_index": EDGES, "edge_reltype": torch.tensor([[0], [1], [0], [1]]), **masks}
    torch.save(fields | {"valid_edge_index": EDGES}, tmp_path / "kg.pt")
    raw = read_links(tmp_path / "kg.pt")
    assert raw.parts.tolist() == [0, 1, 2, 0]
    assert raw.relations == ("0", "1")
    assert raw.history == ("not used: valid_edge_index",)
    partial = masks | {"test_mask": torch.zeros(4, dtype=torch.bool)}
    torch.save(fields | partial, tmp_path / "partial.pt")
    raw = read_links(tmp_path / "partial.pt")
    assert raw.parts is None
    assert raw.history == ("not used: train_mask, val_mask, test_mask",)


def split_folder(folder, names, contents=("a\tr\tb\n", "b\tr\tc\n", "c\tr\ta\n")):
    folder.mkdir()
    for name, text in zip(names, contents, strict=True):
        if name:
            written(folder / name, text)
    return folder


@pytest.mark.parametrize(
    "names",
    [
        ("train.tsv", "valid.tsv", "test.tsv"),
        ("train.txt", "dev.txt", "test.txt"),
        ("train.txt", "", "test.txt"),
        ("train", "", "test"),
        ("train.csv", "validation.csv", "test.csv"),
    ],
)
def test_a_split_may_have_other_names(names, tmp_path):
    comma = names[0].endswith("csv")
    contents = [
        text.replace("\t", ",") if comma else text
        for text in ("a\tr\tb\n", "b\tr\tc\n", "c\tr\ta\n")
    ]
    folder = split_folder(tmp_path / "kg", names, contents)
    assert tasks_of(f"{folder}/") == ("links",)
    expected = [split for split, name in enumerate(names) if name]
    assert read_links(folder).parts.tolist() == expected


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (("", "valid.tsv", "test.tsv"), "train.tsv is missing"),
        (("train.tsv", "", ""), "valid.tsv or test.tsv is missing"),
    ],
)
def test_a_folder_without_a_part_of_the_split_is_told_which(names, missing, tmp_path):
    folder = split_folder(tmp_path / "kg", names, ("a\tr\tb\nb\tr\tc\n",) * 3)
    with refuses("foreign-format", "kg", missing):
        tasks_of(str(folder))


def test_the_tables_of_a_split_have_equal_columns(tmp_path):
    folder = split_folder(
        tmp_path / "kg", ("train.tsv", "", "test.tsv"), ("a\tr\tb\n", "", "c\ta\n")
    )
    with refuses("columns", "test.tsv has links of 2 columns", "train.tsv of 3"):
        read_links(folder)


def test_test_links_of_a_relation_without_a_training_link_are_counted(tmp_path):
    folder = split_folder(
        tmp_path / "kg", ("train.tsv", "", "test.tsv"), ("a\tr\tb\n", "", "c\tR\ta\nb\tr\tc\n")
    )
    (note,) = read_links(folder).notes
    assert note.startswith("1 of 2 test links have a relation without a training link, R")


def test_pictures_with_tables_of_their_classes_are_no_links(tmp_path):
    folder = split_folder(
        tmp_path / "kaggle", ("train.csv", "", "test.csv"), ("id,label\na,cat\n",) * 3
    )
    (folder / "images").mkdir()
    with pytest.raises(ValueError, match=r"train\.csv.*links are a \.tsv or \.csv"):
        tasks_of(f"{folder}/")


def openke(folder):
    written(folder / "entity2id.txt", "3\ncat\t0\nmouse\t1\ncheese\t2\n")
    written(folder / "relation2id.txt", "1\neats\t0\n")
    for split in ("train", "valid", "test"):
        written(folder / f"{split}2id.txt", "2\n0 1 0\n1 2 0\n")


def libkge(folder):
    written(folder / "entity_ids.del", "0\tcat\n1\tmouse\n2\tcheese\n")
    written(folder / "relation_ids.del", "0\teats\n")
    for split in ("train", "valid", "test"):
        written(folder / f"{split}.del", "0\t0\t1\n1\t0\t2\n")


def ogb(folder):
    (folder / "split" / "time").mkdir(parents=True)
    for split in ("train", "valid", "test"):
        numbers = {"head": np.array([0, 1]), "relation": np.array([0, 0]), "tail": np.array([1, 2])}
        torch.save(numbers, folder / "split" / "time" / f"{split}.pt")


@pytest.mark.parametrize("make", only([openke, libkge, ogb], {openke, libkge}.__contains__))
def test_the_error_about_a_folder_of_another_tool_has_lines_that_convert_it(make, tmp_path):
    folder = tmp_path / "kg"
    folder.mkdir()
    make(folder)
    with pytest.raises(DataError, match="which is not supported; links are") as refused:
        tasks_of(f"{folder}/")
    code = str(refused.value).partition("folder links:\n")[2]
    assert len(code.splitlines()) == 2
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, env=os.environ)
    if make is ogb:
        folder /= "links"
    raw = read_links(folder)
    assert tasks_of(f"{folder}/") == ("links",)
    names = ("0", "0", "1", "2") if make is ogb else ("cat", "eats", "mouse", "cheese")
    head, kind, middle, tail = names
    assert links_of(raw) == [(head, kind, middle), (middle, kind, tail)]


def test_links_that_are_left_out_are_counted(tmp_path):
    text = "a\tb\na\tb\nb\tb\nc\tb\n"
    raw = read_links(written(tmp_path / "links.tsv", text))
    (step,) = raw.history
    assert step == "4 links, of which 1 repeated, 1 of an entity to itself are left out"
    names = ("train.txt", "valid.txt", "test.txt")
    folder = split_folder(
        tmp_path / "kg", names, ("a\tr\tb\n", "b\tr\tc\n", "a\tr\tb\nx\tr\tb\nb\tr\ta\n")
    )
    raw = read_links(folder)
    assert raw.history == (
        "5 links, of which 1 that an earlier part of the split has are left out",
    )
    links = LinkDataset(LinkSpec("own", tmp_path)).own(folder)
    assert links.statistics()["num_test_unranked"] == 1
    assert links.statistics()["num_test_reversed"] == 1
    assert any(
        note.startswith("1 of 2 test links are scored, the others not") for note in links.notes
    )
    assert any(
        "1 of 2 test links are training links in the other direction" in note
        for note in links.notes
    )


def test_both_directions_of_a_link_are_in_one_part(tmp_path):
    edges = [(f"n{number}", f"n{number // 3}") for number in range(1, 80)]
    text = "".join(f"{head}\t{tail}\n{tail}\t{head}\n" for head, tail in edges)
    raw = read_links(written(tmp_path / "friends.tsv", text))
    parts = split_links(raw, LinkSpec("own", tmp_path, seed=1))
    part_of = {
        (head, tail): split
        for (head, _, tail), split in zip(links_of(raw), parts.tolist(), strict=True)
    }
    assert all(split == part_of[tail, head] for (head, tail), split in part_of.items())
    assert np.bincount(parts).tolist() == [126, 16, 16]


def test_without_hold_out_all_links_of_a_folder_are_trained(tmp_path):
    names = ("train.txt", "valid.txt", "test.txt")
    folder = split_folder(tmp_path / "kg", names)
    spec = LinkSpec("own", tmp_path, train_size=1.0, test_size=0.0)
    assert LinkDataset(spec).own(folder).train.tolist() == [True] * 3


def walked(triples, rng):
    """`branch_order` by the path from the top to each entity, as it was first written."""
    number = int(triples[:, [0, 2]].max()) + 1
    sizes = np.bincount(triples[:, 2], minlength=number)
    rank = rng.permutation(number)
    parents = {}
    for head, tail in triples[:, [0, 2]].tolist():
        present = parents.get(head)
        if present is None or (sizes[tail], rank[tail]) < (sizes[present], rank[present]):
            parents[head] = tail
    paths = []
    for entity in range(number):
        path = [entity]
        while path[-1] in parents and parents[path[-1]] not in path:
            path.append(parents[path[-1]])
        paths.append([rank[above] for above in reversed(path)])
    positions = np.empty(number, np.int64)
    positions[sorted(range(number), key=paths.__getitem__)] = np.arange(number)
    return positions


def test_branches_are_walked_in_the_order_of_their_paths():
    rng = np.random.default_rng(0)
    for seed in range(200):
        triples = rng.integers(0, rng.integers(2, 25), (rng.integers(1, 40), 3))
        triples = triples[triples[:, 0] != triples[:, 2]]
        if len(triples):
            expected = walked(triples, np.random.default_rng(seed))
            assert branch_order(triples, np.random.default_rng(seed)).tolist() == expected.tolist()


def test_a_chain_of_links_is_walked_in_one_pass():
    number = 50_000
    chain = np.stack([np.arange(1, number), np.zeros(number - 1), np.arange(number - 1)], axis=1)
    order = branch_order(chain.astype(np.int64), np.random.default_rng(0))
    assert order.tolist() == list(range(number))


def a_graph(kind, **attributes):
    graph = kind()
    for head, relation, tail in TRIPLES:
        graph.add_edge(head, tail, **dict.fromkeys(attributes, relation))
    return graph


IN_MEMORY = {
    "triples": TRIPLES,
    "lists": [list(row) for row in TRIPLES],
    "array": np.array(TRIPLES),
    "table": pd.DataFrame([(h, t, r) for h, r, t in TRIPLES], columns=["source", "target", "type"]),
    "columns": pd.DataFrame(TRIPLES),
    "graph": a_graph(nx.DiGraph, relation=1),
    "keys": a_graph(nx.MultiDiGraph, key=1),
}


@pytest.mark.parametrize("name", IN_MEMORY)
def test_links_in_memory(name):
    assert links_of(check_data("here", IN_MEMORY[name])) == TRIPLES


def test_numbers_and_graphs_in_memory_are_links():
    pairs = [(str(head), "", str(tail)) for head, tail in EDGES.T.tolist()]
    for edges in (EDGES.T, EDGES.T.numpy(), EDGES.T.tolist()):
        assert links_of(check_data("here", edges)) == pairs
    for graph in (Data(edge_index=EDGES), {"edge_index": EDGES}):
        assert links_of(check_data("here", graph, tasks=("links",))) == pairs
    both_ways = {(head, tail) for head, _, tail in links_of(check_data("here", nx.path_graph(3)))}
    assert both_ways == {("0", "1"), ("1", "0"), ("1", "2"), ("2", "1")}
    with pytest.raises(DataError, match=r"here is an int.*links as a list"):
        check_data("here", 3)
    points = pd.DataFrame({"x": [0.1, 0.2], "y": [0.2, 0.1], "label": ["a", "b"]})
    with pytest.raises(DataError):
        check_data("here", points)


LADDER = [(f"n{number}", "is_a", f"n{number // 2}") for number in range(1, 60)]


def test_a_site_without_relations_is_refused_beside_one_with_them(tmp_path):
    pairs = [(head, tail) for head, _, tail in LADDER]
    with pytest.raises(ConfigError, match=r"data\[1\].*without relations.*with relations"):
        simulate(
            "links", data=[LADDER, pairs], num_rounds=1, results_dir=tmp_path / "r", quiet=True
        )
    assert not list(tmp_path.rglob("summary.json"))


def test_a_run_of_links_in_memory_is_plotted_by_round(tmp_path):
    settings = {"num_rounds": 2, "results_dir": tmp_path, "quiet": True, "report": False}
    done = simulate("links", data=[LADDER] * 2, **settings)
    assert "MRR" in done.plot().axes[0].get_ylabel()


def test_a_run_without_a_scored_link_says_so(tmp_path):
    chain = [(f"n{number}", f"n{number + 1}") for number in range(4)]
    settings = {"num_rounds": 1, "results_dir": tmp_path, "quiet": True, "report": False}
    text = "".join(f"{head}\t{tail}\n" for head, tail in chain)
    done = simulate(
        "links", dataset=written(tmp_path / "few.tsv", text), num_supernodes=2, **settings
    )
    assert any("nothing measures this run" in text for text in done.summary["warnings"])
    done = simulate("links", data=[chain], links={"hold_out": False}, **settings)
    assert any("nothing measures this run" in text for text in done.summary["warnings"])


def test_a_run_names_test_links_that_are_not_scored(tmp_path):
    names = ("train.txt", "valid.txt", "test.txt")
    rows = ["\t".join(row) + "\n" for row in LADDER]
    unseen = ["new\tis_a\tn3\n"] * 1 + rows[-3:]
    contents = ("".join(rows[:-3]), "", "".join(unseen))
    folder = split_folder(tmp_path / "kg", names, contents)
    done = run(tmp_path, method="links", dataset=f"{folder}/", num_rounds=1)
    assert any("test links" in text and "are scored" in text for text in done.summary["warnings"])

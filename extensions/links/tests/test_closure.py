"""The closure of links: what it adds, which parts they are in, and that the ledger sees it."""

import networkx as nx
import numpy as np
import pytest
from app_runs import run
from errors import refuses

import curvfed
from curvfed.deployments.commands.command import main
from curvfed.extensions.links import closure
from curvfed.extensions.links.closure import closed
from curvfed.extensions.links.raw import balanced_tree, raw_links
from curvfed.extensions.links.readers import read_links
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import open_dataset
from curvfed.tasks.record_split import RecordSplit

TREE = [(f"n{number}", f"n{number // 2}") for number in range(2, 40)]


def links_of(raw):
    """The links by name, in their order."""
    rows = raw.triples.tolist()
    return [
        (raw.entities[head], raw.relations[kind], raw.entities[tail]) for head, kind, tail in rows
    ]


def write_links(path, links):
    path.write_text("".join("\t".join(link) + "\n" for link in links))
    return path


def closing(**settings):
    """The data set of a run on links that closes them."""
    return parse({"method": "links", "links.closure": True} | settings)


def test_the_closure_is_that_of_networkx_by_relation():
    rng = np.random.default_rng(0)
    names = [f"n{number:02}" for number in range(40)]
    links = []
    for relation in ("is a", "part of"):
        for head, tail in rng.integers(0, 40, (60, 2)):
            if head > tail:
                links.append((names[head], relation, names[tail]))
    raw = raw_links("links", links)
    result = closed("links", raw)
    expected = set()
    for relation in raw.relations:
        graph = nx.DiGraph((head, tail) for head, kind, tail in links if kind == relation)
        edges = nx.transitive_closure(graph).edges
        expected |= {(head, relation, tail) for head, tail in edges}
    assert set(links_of(result)) == expected
    assert links_of(result)[: len(raw.triples)] == links_of(raw)
    assert len(result.triples) == len(expected)
    added = len(expected) - len(raw.triples)
    assert f"adds {added} links to further ancestors" in result.history[-1]


def test_a_tree_of_parents_closes_to_the_tree_of_ancestors():
    ancestors = balanced_tree(3, 4)
    parents = [
        (head, "", tail)
        for head, _, tail in links_of(ancestors)
        if head.count(".") == tail.count(".") + 1
    ]
    assert set(links_of(closed("tree", raw_links("tree", parents)))) == set(links_of(ancestors))
    assert links_of(closed("tree", ancestors)) == links_of(ancestors)


def test_no_training_link_follows_from_a_test_link():
    links = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "c")]
    parts = [0, 0, 2, 1]
    result = closed("folder", raw_links("folder", links, parts))
    part_of = {
        (head, tail): part
        for (head, _, tail), part in zip(links_of(result), result.parts.tolist(), strict=True)
    }
    assert part_of == {
        ("a", "b"): 0,
        ("b", "c"): 0,
        ("c", "d"): 2,
        ("a", "c"): 1,  # as the folder has it
        ("b", "d"): 2,
        ("a", "d"): 2,
    }


@pytest.mark.parametrize(
    ("links", "words"),
    [
        ([("a", "b"), ("b", "c"), ("c", "a"), ("x", "a")], ["3 links are a cycle, a → b → c → a"]),
        (
            [("a", "likes", "b"), ("b", "likes", "a"), ("a", "is", "c")],
            ['2 links of the relation "likes" are a cycle, a → b → a'],
        ),
        (
            [(f"n{number}", f"n{(number + 1) % 9}") for number in range(9)],
            ["9 links are a cycle", "→ … →"],
        ),
    ],
)
def test_a_cycle_is_refused_by_its_names(links, words):
    with refuses("cycle", *words, "links.closure = true", "allowed") as caught:
        closed("links.tsv", raw_links("links.tsv", links))
    (cycle,) = caught.value.names
    assert "→" in cycle


def test_a_closure_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(closure, "MOST_LINKS", 100)
    chain = [(f"n{number}", f"n{number + 1}") for number in range(20)]
    with refuses("large-closure", "more than 100 links"):
        closed("chain", raw_links("chain", chain))


def test_check_says_what_the_closure_adds_and_names_a_cycle(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_links(tmp_path / "tree.tsv", TREE)
    words = ["check", "method=links", "dataset=tree.tsv", "num-supernodes=1"]
    assert main([*words, "links.closure=true"]) == 0
    out = capsys.readouterr().out
    assert "links to further ancestors to 38 links" in out
    assert main(words) == 0
    assert "further ancestors" not in capsys.readouterr().out
    write_links(tmp_path / "tree.tsv", [*TREE, ("n1", "n4")])
    assert main([*words, "links.closure=true"]) == 2
    assert "are a cycle, n" in capsys.readouterr().err
    words[2] = "dataset=trees"
    assert main([*words, "links.closure=true"]) == 2
    assert "have no direction; allowed is false" in capsys.readouterr().err
    with refuses("no-direction", "links.closure = true", "trees", "allowed is false"):
        open_dataset(closing(dataset="trees"), "links")


def test_a_node_closes_its_own_links_which_are_the_same_data_to_its_ledger():
    split = RecordSplit(b"x", 0.5, 0.4)
    raw = raw_links("own", TREE)
    direct = open_dataset(parse({"method": "links"}), "links", split).in_memory(raw)
    all_links = open_dataset(closing(), "links", split).in_memory(raw)
    assert len(all_links.labels) == len(closed("own", raw).triples) > len(direct.labels)
    number = len(direct.labels)
    assert all_links.test[:number].tolist() == direct.test.tolist()
    assert all_links.train[:number].tolist() == direct.train.tolist()
    assert all_links.test[number:].any()
    assert all_links.split_digest == direct.split_digest
    assert all_links.reading != direct.reading


def test_closed_links_are_one_state_of_the_data():
    """As a second state they had a second weight, and two weights show the node's part of a sum."""
    split = RecordSplit(b"x", 0.5, 0.4)
    raw = closed("own", raw_links("own", TREE))
    direct = open_dataset(parse({"method": "links"}), "links", split).in_memory(raw)
    again = open_dataset(closing(), "links", split).in_memory(raw)
    assert again.reading == direct.reading == ""
    assert again.train.tolist() == direct.train.tolist()


BRANCHES = [(f"n{number}", f"n{number // 2}") for number in range(2, 60)]
SHORTCUTS = [(f"n{number}", f"n{number // 4}") for number in range(4, 60)]


def training_links(links):
    """The names of the training links of a node that closes its own."""
    split = RecordSplit(b"x", 0.4, 0.4)
    own = open_dataset(closing(), "links", split).in_memory(raw_links("own", links))
    ends = zip(own.heads[own.train].tolist(), own.labels[own.train].tolist(), strict=True)
    return {(own.class_names[head], own.class_names[tail]) for head, tail in ends}


@pytest.mark.parametrize(
    "links", [BRANCHES, [*BRANCHES, *SHORTCUTS]], ids=["tree", "tree with shortcuts"]
)
def test_no_training_link_of_a_node_follows_from_a_held_out_record(links):
    raw = raw_links("own", links)
    parts = RecordSplit(b"x", 0.4, 0.4).parts(raw.records)
    names = [(head, tail) for head, _, tail in links_of(raw)]
    trained = training_links(links)
    graph = nx.DiGraph(link for link, part in zip(names, parts, strict=True) if part == 0)
    assert set(graph.edges) < trained <= set(nx.transitive_closure(graph).edges)
    held_out = [link for link, part in zip(names, parts, strict=True) if part > 0]
    assert len(held_out) > 20
    for link in held_out:
        assert training_links([other for other in links if other != link]) == trained


def test_the_links_that_a_prediction_leaves_out_are_closed_too(tmp_path):
    path = write_links(tmp_path / "tree.tsv", TREE)
    settings = {"dataset": str(path), "links__hold_out": False, "method": "links"}
    done = run(tmp_path, clients=1, links__closure=True, **settings)
    with np.load(done.path / "links.npz") as links:
        assert len(links["triples"]) == len(closed("tree", read_links(path)).triples)
    known = curvfed.load(done.path).predict(["n39"], most=100, known=str(path))
    assert not {"n1", "n2", "n4", "n9", "n19"} & {*known["tail"]}
    assert len(known) == len({name for link in TREE for name in link}) - 6

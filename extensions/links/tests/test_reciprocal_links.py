"""Heads are predicted as tails of inverse relations; relations are shared by name; partitions and
data sets of knowledge graphs."""

from pathlib import Path

import numpy as np
import pytest
import torch
from app_runs import run
from errors import refuses
from secure_sums import watched_sums

import curvfed
from curvfed.extensions.links.client_task import LinkTask
from curvfed.extensions.links.dataset import LinkDataset
from curvfed.extensions.links.methods.links import COUNTS, ROWS
from curvfed.extensions.links.models import LinkModelSpec
from curvfed.extensions.links.readers import read_links
from curvfed.extensions.links.sources import ORDERS
from curvfed.extensions.links.split import LinkSpec
from curvfed.strategies.config.parse import parse
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.errors import DataError

CPU = torch.device("cpu")

SETTINGS = {
    "method": "links",
    "embedding_dim": 6,
    "links__score": "squared",
    "links__bias": True,
    "links__reciprocal": True,
    "num_rounds": 2,
}


def write_graph(folder, relations=4, number=150, seed=0):
    """A folder with a random knowledge graph and its split."""
    rng = np.random.default_rng(seed)
    links = {
        (int(head), int(relation), int(tail))
        for head, relation, tail in rng.integers((12, relations, 12), size=(number, 3))
    }
    folder.mkdir(exist_ok=True)
    for name, part in (("train", range(7)), ("valid", [7]), ("test", [8, 9])):
        rows = [link for place, link in enumerate(sorted(links)) if place % 10 in part]
        text = "".join(f"e{head:02}\tr{relation}\te{tail:02}\n" for head, relation, tail in rows)
        (folder / f"{name}.txt").write_text(text)
    return folder


def task_of(folder, reciprocal=True, **spec):
    data = LinkDataset(LinkSpec(str(folder), Path(), reciprocal=reciprocal, **spec))
    links = data.part(0, 1)
    return LinkTask(links, links.class_names, CPU, 16, 5)


@pytest.mark.parametrize("relations", ["none", "translation", "diagonal", "rotation"])
@pytest.mark.parametrize("num_relations", [1, 3])
def test_ranks_of_heads_and_tails_are_those_of_brute_force(relations, num_relations, tmp_path):
    folder = write_graph(tmp_path / "kg", num_relations)
    task = task_of(folder)
    entities = len(task.counts["entities"])
    spec = LinkModelSpec("normal", entities, 2 * num_relations, 5, -1.5, "squared", True, relations)
    model = spec.build(0)
    model.entities.data *= 50
    right = {tuple(link) for part in task.triples.values() for link in part.tolist()}
    trained = set(task.triples["train"][:, ::2].flatten().tolist())
    ranks = []
    for head, relation, tail in task.triples["test"].tolist():
        if not {head, tail} <= trained:
            continue
        for start, kind, end in ((head, relation, tail), (tail, relation + num_relations, head)):
            better = 0.0
            candidates = torch.arange(entities)[None]
            scores = model(torch.tensor([start]), torch.tensor([kind]), candidates)[0].tolist()
            for other in trained - {start, end}:
                is_forward = kind < num_relations
                link = (start, kind, other) if is_forward else (other, relation, start)
                if link not in right:
                    better += (scores[other] > scores[end]) + (scores[other] == scores[end]) / 2
            ranks.append(1 + better)
    figures = task.scores(model)
    assert len(ranks) == 2 * task.num_tested > 10
    assert figures["score"] == pytest.approx(np.mean(1 / np.array(ranks)))
    assert figures["hits_10"] == pytest.approx(np.mean(np.array(ranks) < 11))
    tails = task_of(folder, reciprocal=False).scores(model)["score"]
    assert tails == pytest.approx(np.mean(1 / np.array(ranks[::2])))


def test_the_most_frequent_heads_are_counted_too(tmp_path):
    task = task_of(write_graph(tmp_path / "kg", 2))
    (scores,) = task.frequent_tails().blocks(torch.tensor([0]), torch.tensor([3]), torch.arange(12))
    train = task.triples["train"]
    heads = train[train[:, 1] == 1, 0]
    assert scores[0].tolist() == torch.bincount(heads, minlength=12).tolist()


def test_each_link_is_trained_in_both_directions_in_the_same_steps(tmp_path):
    folder = write_graph(tmp_path / "kg", 2)
    task = task_of(folder)
    plain = task_of(folder, reciprocal=False)
    assert (task.num_examples, task.num_steps) == (plain.num_examples, plain.num_steps)
    model = LinkModelSpec("normal", 12, 4, 5, relations="rotation").build(0)
    batches = [batch.inputs for batch in task.batches(model)]
    assert len(batches) == task.num_steps
    inputs = torch.cat(batches)
    backwards = inputs[:, 1] >= 2
    turned = inputs[backwards].flip(1) - torch.tensor([0, 2, 0])
    assert sorted(turned.tolist()) == sorted(inputs[~backwards].tolist())
    assert len(inputs) == 2 * task.num_examples
    assert task.counts["relations"].tolist() == 2 * plain.counts["relations"].tolist()


@pytest.mark.parametrize("method", ["links-complex", "links-rotate"])
def test_flat_rivals_predict_heads_too(method, tmp_path):
    settings = {"method": method, "embedding_dim": 6, "links__reciprocal": True, "num_rounds": 1}
    done = run(tmp_path, dataset=str(write_graph(tmp_path / "kg")), **settings)
    assert done.model["relations"].shape[0] == 8
    assert 0 < done.summary["metrics"]["global_mrr"] <= 1


@pytest.mark.parametrize("relations", ["translation", "diagonal", "rotation"])
def test_a_relation_that_a_client_lacks_is_averaged_over_the_others(relations, tmp_path):
    """By relations each row has one client, and the server takes its row as it is."""
    settings = SETTINGS | {"links__relations": relations, "partition": "relations"}
    folder = write_graph(tmp_path / "kg")
    done = run(tmp_path, clients=4, dataset=str(folder), **settings)
    rows = done.model["operator.translations"]
    assert rows.shape == (8, 5)
    start = LinkModelSpec("normal", 12, 8, 6, -1.0, "squared", True, relations).build(
        done.summary["seed"]
    )
    assert (np.abs(rows - start.operator.translations.detach().numpy()).max(axis=1) > 1e-3).all()
    figures = done.summary["metrics"]
    assert 0 < figures["global_frequent_mrr"] < 1
    assert 0 < figures["global_mrr"] <= 1


@pytest.mark.parametrize(
    ("model", "relations"), [("normal", "rotation"), ("hyperboloid", "diagonal")]
)
def test_a_secure_sum_gives_the_same_rows(model, relations, tmp_path):
    settings = SETTINGS | {"links__relations": relations, "partition": "random", "model": model}
    settings["dataset"] = str(write_graph(tmp_path / "kg"))
    plain = run(tmp_path, "open", **settings)
    masked = run(tmp_path, "masked", secure_sum=True, secure__min_holders=1, **settings)
    for name, array in plain.model.items():
        np.testing.assert_allclose(masked.model[name], array, atol=2e-5)


def test_rows_of_a_relation_that_one_client_has_stay_there(tmp_path, monkeypatch):
    sums = watched_sums(monkeypatch)
    settings = SETTINGS | {"links__relations": "rotation", "partition": "relations"}
    settings["dataset"] = str(write_graph(tmp_path / "kg"))
    run(tmp_path, secure_sum=True, secure__min_holders=3, **settings)
    for arrays in sums:
        for name in ("operator.translations", "operator.angles"):
            assert not arrays[f"{ROWS}{name}"].any()
        assert not arrays[f"{COUNTS}relations"].any()
        assert arrays[f"{COUNTS}entities"].any()


def test_all_links_of_a_relation_have_one_client(tmp_path):
    folder = write_graph(tmp_path / "kg", 5)
    parts = []
    for client in range(3):
        data = LinkDataset(LinkSpec(str(folder), Path(), "relations", seed=1))
        parts.append(data.part(client, 3))
    held = [set(links.relations.tolist()) for links in parts]
    assert sum(map(len, held)) == len(set().union(*held)) == 5
    sizes = [len(links.labels) for links in parts]
    assert sum(sizes) == len(read_links(folder).triples)
    with refuses("partition", "5 relations", "6 clients", error=DataError):
        LinkDataset(LinkSpec(str(folder), Path(), "relations")).part(0, 6)


def test_communities_of_heads_have_one_client(tmp_path):
    lines = [
        f"{side}{head}\tr\t{side}{tail}"
        for side in "ab"
        for head in range(5)
        for tail in range(head)
    ]
    path = tmp_path / "links.tsv"
    path.write_text("\n".join([*lines, "a0\tr\tb0", ""]))
    for client in range(2):
        links = LinkDataset(LinkSpec(str(path), Path(), "louvain")).part(client, 2)
        sides = {links.class_names[head][0] for head in links.heads.tolist()}
        assert len(sides) == 1


def test_kinship_by_name_has_people_as_entities(tmp_path):
    folder = tmp_path / "kinship"
    folder.mkdir()
    for number, name in enumerate(("train", "valid", "test")):
        (folder / f"{name}.txt").write_text(f"Term{number}\tPerson1\tPerson{number + 2}\n")
    assert ORDERS["kinship"] == (1, 0, 2)
    raw = LinkDataset(LinkSpec("kinship", tmp_path)).locate().read()
    assert raw.relations == ("Term0", "Term1", "Term2")
    assert raw.entities == ("Person1", "Person2", "Person3", "Person4")
    assert raw.parts.tolist() == [0, 1, 2]


def test_heads_are_asked_by_inverse_relations(tmp_path):
    folder = write_graph(tmp_path / "kg", 2)
    settings = SETTINGS | {"links__relations": "translation", "partition": "random"}
    done = run(tmp_path, dataset=str(folder), **settings)
    stored = curvfed.load(done.path)
    answers = stored.predict([("e03", "inverse of r1")], most=20)
    assert "e03" not in set(answers["tail"])
    new = stored.predict([("e03", "inverse of r1")], most=20, known=str(folder))
    raw = read_links(folder)
    heads = {raw.entities[h] for h, r, t in raw.triples if (r, raw.entities[t]) == (1, "e03")}
    assert heads
    assert set(new["tail"]) == set(answers["tail"]) - heads


def test_the_inner_product_has_no_relations():
    settings = {"links.score": "inner", "links.relations": "rotation"}
    with pytest.raises(ConfigError, match="relations = none"):
        parse({"method": "links", "dataset": "balanced-tree"} | settings)

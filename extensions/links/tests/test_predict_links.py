"""Predictions on links: tails, neighbours and hierarchy against a sort by hand, and the errors."""

import gzip
import json

import numpy as np
import pandas
import pytest
from app_runs import run

import curvfed
from curvfed.deployments.arguments import UsageError
from curvfed.deployments.commands.command import main
from curvfed.deployments.predict import PredictError
from curvfed.deployments.predict.prediction import write_prediction
from curvfed.deployments.terminal import summary_table
from curvfed.tasks.errors import DataError

LINKS = [
    ("cat", "is a", "mammal"),
    ("dog", "is a", "mammal"),
    ("mammal", "is a", "animal"),
    ("cat", "is a", "animal"),
    ("dog", "chases", "cat"),
    ("newt", "is a", "animal"),
]


def trained(folder, **settings):
    """A run on `LINKS`, with its embedding's rows by name."""
    table = folder / "links.tsv"
    table.write_text("".join("\t".join(link) + "\n" for link in LINKS))
    settings = {"dataset": str(table), "links__hold_out": False} | settings
    path = run(folder, clients=2, **settings).path
    return curvfed.load(path), table


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("tree"), method="links", embedding_dim=2)


def distances(stored):
    """Names, distances between all entities, and from the origin, in the Poincaré ball."""
    with np.load(stored.path / "links.npz") as links:
        names = links["names"].tolist()
        points = links["rows"][:, :-1].astype(float)
    points = np.concatenate([points, np.zeros((1, 2))])
    gaps = 1 - (points**2).sum(1)
    apart = ((points[:, None] - points) ** 2).sum(-1)
    all_distances = np.arccosh(1 + 2 * apart / gaps[:, None] / gaps)
    return names, all_distances[:-1, :-1], all_distances[:-1, -1]


def test_tails_and_neighbours_are_the_nearest_and_known_links_are_left_out(tree):
    stored, table = tree
    names, apart, _ = distances(stored)
    cat = names.index("cat")
    nearest = [names[number] for number in np.argsort(apart[cat]) if number != cat]
    tails = stored.predict(["cat"], most=3)
    assert tails["tail"].tolist() == nearest[:3]
    np.testing.assert_allclose(tails["score"], -np.sort(apart[cat])[1:4], rtol=1e-4)
    assert stored.predict(["cat"], show="neighbours")["neighbour"].tolist() == nearest
    new = stored.predict([("cat", "is a")], known=str(table))["tail"].tolist()
    assert new == [name for name in nearest if name not in ("mammal", "animal")]


def test_a_relation_that_was_not_asked_is_not_named(tree):
    stored, _ = tree
    assert set(stored.predict(["cat"])["relation"]) == {""}
    assert set(stored.predict([("cat", "is a")])["relation"]) == {"is a"}


@pytest.mark.parametrize("name", ["heads.tsv.gz", "heads.csv.gz"])
def test_a_file_of_heads_may_be_compressed(tree, tmp_path, name):
    stored, _ = tree
    heads = tmp_path / name
    separator = "," if ".csv" in name else "\t"
    heads.write_bytes(gzip.compress(f"head{separator}relation\ncat{separator}is a\n".encode()))
    expected = stored.predict([("cat", "is a")], most=3)
    assert stored.predict(str(heads), most=3).equals(expected)
    heads.write_bytes(heads.read_bytes()[:-9])
    with pytest.raises(DataError, match=name):
        stored.predict(str(heads))


def test_the_hierarchy_is_by_distance_from_the_origin(tree, tmp_path, capsys):
    stored, table = tree
    names, apart, depths = distances(stored)
    out = tmp_path / "tree.json"
    arguments = ["predict", str(stored.path), str(table), "--show", "hierarchy", "--out", str(out)]
    assert main(arguments) == 0
    rows = json.loads(out.read_text())
    assert [row["entity"] for row in rows] == [names[number] for number in np.argsort(depths)]
    assert rows[0]["above"] == ""
    lowest = names.index(rows[-1]["entity"])
    apart[lowest, lowest] = np.inf
    assert rows[-1]["above"] == names[apart[lowest].argmin()]


def test_names_in_json_are_readable(tmp_path):
    write_prediction(pandas.DataFrame({"tail": ["Säugetier"]}), "", tmp_path / "tails.json")
    assert (tmp_path / "tails.json").read_text(encoding="utf-8") == '[{"tail":"Säugetier"}]\n'


def test_the_edges_of_client_graphs_are_known_links(tmp_path):
    settings = {"method": "links-tailored", "dataset": "trees", "links__hold_out": False}
    stored = curvfed.load(run(tmp_path, clients=2, num_rounds=1, **settings).path)
    first, *_ = stored.predict("trees", client=1, show="hierarchy")["entity"]
    tails = stored.predict([first], client=1, most=1000)["tail"]
    new = stored.predict([first], client=1, most=1000, known="trees")["tail"]
    assert 0 < len(new) < len(tails)


def test_errors_name_entity_relation_and_line(tree, tmp_path, capsys):
    stored, _ = tree
    heads = tmp_path / "heads.tsv"
    heads.write_text("head\trelation\n\ncat\tis a\ncta\tis a\n")
    out = tmp_path / "tails.csv"
    assert main(["predict", str(stored.path), str(heads), "--out", str(out)]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "left out: 1 of 2: " in said
    assert 'line 4: no client of this run has named the entity "cta"' in said
    assert {line.split(",")[0] for line in out.read_text().splitlines()[1:]} == {"cat"}
    heads.write_text("head\trelation\n\n\ncta\tis a\n")
    assert main(["predict", str(stored.path), str(heads)]) == 1
    text = " ".join(capsys.readouterr().err.split())
    assert 'line 4: no client of this run has named the entity "cta"; did you mean "cat"?' in text
    absent = str(tmp_path / "nosuch.tsv")
    assert main(["predict", str(stored.path), absent]) == 2
    assert f'DATA is "{absent}"; there is no such file' in " ".join(capsys.readouterr().err.split())
    with pytest.raises(PredictError, match=r'item 1 of the data: .*relation "isa".*"is a"'):
        stored.predict([("cat", "isa")])
    for options, words in (
        ({"show": "tree"}, 'show is "tree"'),
        ({"most": 0}, "most is 0"),
        ({"show": "neighbours", "known": "x.tsv"}, 'known is "x.tsv" and show'),
        ({"known": "cora"}, 'known is "cora", which is no file'),
    ):
        with pytest.raises(UsageError, match=f"{words}.*allowed is"):
            stored.predict(["cat"], **options)
    heads.write_text("zebra\tungulate\nungulate\tbeast\n")
    with pytest.raises(PredictError, match=r'known is ".*heads.tsv": no link has two entities'):
        stored.predict(["cat"], known=str(heads))
    heads.write_text("")
    assert main(["predict", str(stored.path), str(heads)]) == 1
    assert main(["predict", str(stored.path), str(heads), "--uncalibrated"]) == 2
    assert "heads.tsv names no entity" in " ".join(capsys.readouterr().err.split())


def test_relations_are_reported_apart_and_needed_where_scores_do(tmp_path):
    stored, table = trained(tmp_path, method="links-complex", embedding_dim=4)
    with pytest.raises(PredictError, match=r'relation "".*chases, is a'):
        stored.predict(["dog"])
    both = stored.predict([("dog", "is a"), ("dog", "chases")], most=9, known=str(table))
    answers = both.groupby("relation")["tail"].apply(set)
    assert answers["is a"] == {"cat", "animal", "newt"}
    assert answers["chases"] == {"mammal", "animal", "newt"}


def test_a_client_with_rows_of_its_own_answers_with_its_own_entities(tmp_path):
    settings = {"method": "local", "model": "normal", "partition": "branches"}
    stored, table = trained(tmp_path, embedding_dim=2, **settings)
    with pytest.raises(UsageError, match="client is needed"):
        stored.predict(["cat"])
    entities = [set(stored.predict(str(table), client=n)["head"]) for n in range(2)]
    assert len(entities[0]) < 5
    assert entities[0] | entities[1] == {"animal", "cat", "dog", "mammal", "newt"}
    missing = next(iter(entities[1] - entities[0]))
    with pytest.raises(PredictError, match="in no link that this model was trained on"):
        stored.predict([missing], client=0)


def test_accuracy_of_links_is_called_hits(tree):
    stored, _ = tree
    figures = {"status": "completed", "personal_accuracy_mean": 0.5, "metrics": {"mrr": 0.6}}
    words = list(summary_table(stored.summary | figures).columns[0].cells)
    assert "personal Hits@1" in words
    assert not [row for row in words if "accuracy" in row]

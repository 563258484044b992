"""Links: files, partition, scores by hand, averages by row, and secure sums of them."""

import hashlib
import io
import tarfile
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from app_runs import run
from torch_geometric.data import Data

from curvfed.extensions.links import ranking
from curvfed.extensions.links.client_task import LinkTask
from curvfed.extensions.links.dataset import LinkDataset
from curvfed.extensions.links.methods.links import COUNTS, ROWS, LinksServer, RowKeys
from curvfed.extensions.links.models import LinkModelSpec, chart_of
from curvfed.extensions.links.ranking import FrequentTails, KnownLinks, Queries, link_scores
from curvfed.extensions.links.readers import read_links
from curvfed.extensions.links.row_means import mean_terms
from curvfed.extensions.links.sources import SPLITS, links_at
from curvfed.extensions.links.split import LinkSpec
from curvfed.extensions.links.wordnet import read_part
from curvfed.server_app.callbacks.long_updates import update_lengths
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.statistics import Statistics
from curvfed.strategies.config.checks import unread_keys
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import open_dataset, resolve_defaults
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.dataset import GraphDataset
from curvfed.tasks.registry import SOURCES, tasks_of


def test_a_name_that_is_too_long_is_refused(tmp_path):
    (tmp_path / "bad.tsv").write_text(f"{'a' * 201}\tb\n")
    with pytest.raises(DataError, match="names of entities") as error:
        LinkDataset(LinkSpec("own", tmp_path)).own(tmp_path / "bad.tsv")
    assert error.value.key == "data.class-names"


def test_lists_of_edges_of_pytorch_geometric_are_links(tmp_path):
    edges = np.array([[0, 1, 0], [1, 2, 1]])
    kinds = np.array([1, 0, 0])
    np.savez(tmp_path / "edges.npz", edge_index=edges, edge_type=kinds)
    stored = Data(edge_index=torch.from_numpy(edges), edge_type=torch.from_numpy(kinds))
    torch.save(stored, tmp_path / "data.pt")
    torch.save({"edge_index": torch.from_numpy(edges)}, tmp_path / "dict.pt")
    assert tasks_of(str(tmp_path / "edges.npz")) == ("links",)
    for name in ("edges.npz", "data.pt"):
        raw = read_links(tmp_path / name)
        assert raw.relations == ("0", "1")
        assert raw.triples.tolist() == [[0, 1, 1], [1, 0, 2], [0, 0, 1]]
    assert read_links(tmp_path / "dict.pt").triples.tolist() == [[0, 0, 1], [1, 0, 2]]
    assert LinkDataset(LinkSpec("own", tmp_path)).own(tmp_path / "dict.pt").num_features == 1
    for bad in ({"edge_index": edges - 1}, {"edge_index": edges, "edge_type": kinds[:2]}):
        np.savez(tmp_path / "bad.npz", **bad)
        with pytest.raises(DataError, match="allowed are edge_index"):
            read_links(tmp_path / "bad.npz")


NOUNS = {  # offset: word, its senses, the pointers
    "00000001": ("entity", "1 00000001", ""),
    "00000002": ("mammal", "1 00000002", "@ 00000001 n 0000"),
    "00000003": ("dog", "2 00000009 00000003", "@ 00000002 n 0000 ~ 00000004 n 0000"),
    "00000004": ("Rex", "1 00000004", "@i 00000003 n 0000"),
    "00000005": ("tusker", "1 00000005", "@ 00000002 n 0000"),
}


def write_wordnet(path, padding=b""):
    """An archive in the format of WordNet's, of `NOUNS`; its first file is padding."""
    data = "  1 licence\n"
    index = "  1 licence\n"
    for offset, (word, senses, pointers) in NOUNS.items():
        number = len(pointers.split()) // 4
        data += f"{offset} 05 n 02 {word} 0 other 0 {number:03} {pointers} | a gloss\n"
        count, _, places = senses.partition(" ")
        index += f"{word.lower()} n {count} 1 @ {count} 0 {places}  \n"
    with tarfile.open(path, "w:bz2") as archive:
        files = {
            "README": padding,
            "dict/data.noun": data.encode(),
            "dict/index.noun": index.encode(),
        }
        for name, content in files.items():
            member = tarfile.TarInfo(f"WordNet-3.0/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


@pytest.fixture
def address(tmp_path, monkeypatch):
    """An address that serves such an archive."""
    served = tmp_path / "served"
    served.mkdir()
    write_wordnet(served / "WordNet-3.0.tar.bz2")
    handler = partial(SimpleHTTPRequestHandler, directory=served)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr("curvfed.extensions.public_data.downloads.PROBE_URL", address)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield address
        server.shutdown()
        thread.join()


def test_parts_of_wordnet_are_downloaded_and_checked(address, tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO", "curvfed")
    archive = "WordNet-3.0.tar.bz2"
    names = {archive: archive}
    digest = hashlib.sha256((tmp_path / "served" / archive).read_bytes()).hexdigest()
    wrong = links_at("WordNet", "wordnet", address, names, ["0" * 64])
    monkeypatch.setitem(SOURCES, "mammals", wrong)
    dataset = LinkDataset(LinkSpec("mammals", tmp_path / "data"))
    with pytest.raises(DataError, match="fails: not the published WordNet-3") as refused:
        dataset.locate()
    assert str(tmp_path / "data" / "wordnet") in str(refused.value)
    assert 'run:\npython -c "' in str(refused.value)
    assert not list((tmp_path / "data").rglob("*.bz2"))
    published = links_at("WordNet", "wordnet", address, names, [digest])
    for subset in ("mammals", "nouns"):
        monkeypatch.setitem(SOURCES, subset, published)
    raw = dataset.locate().read()
    assert f"{tmp_path / 'data' / 'wordnet' / archive}, SHA-256 {digest}" in caplog.text
    links = {(raw.entities[head], raw.entities[tail]) for head, _, tail in raw.triples}
    above = ["dog.n.02", "mammal.n.01"]
    assert links == {("dog.n.02", "mammal.n.01"), *(("rex.n.01", name) for name in above)}
    nouns = LinkDataset(LinkSpec("nouns", tmp_path / "data")).locate().read()
    assert len(nouns.triples) == 8


def test_a_changed_part_of_wn18rr_is_refused(address, tmp_path, monkeypatch):
    digests = []
    for name in SPLITS:
        path = tmp_path / "served" / name
        path.write_text(f"dog.n.01\t_hypernym\t{name}\n")
        digests.append(hashlib.sha256(path.read_bytes()).hexdigest())
    names = dict(zip(SPLITS, SPLITS, strict=True))
    same = links_at("WN18RR", "wn18rr", address, names, digests)
    permuted = links_at("WN18RR", "wn18rr", address, names, [*digests[1:], digests[0]])
    source = SOURCES["wn18rr"]
    changed = replace(source, fetch=source.fetch.replace(source.origin, address))
    dataset = LinkDataset(LinkSpec("wn18rr", tmp_path / "data"))
    for altered in (changed, permuted):
        monkeypatch.setitem(SOURCES, "wn18rr", altered)
        with pytest.raises(DataError, match=r"fails: not the published train\.txt"):
            dataset.locate()
    monkeypatch.setitem(SOURCES, "wn18rr", same)
    assert len(dataset.locate().read().triples) == 3


def test_the_nodes_of_a_graph_are_partitioned_and_not_branches():
    graph, taxonomy = ({"method": "links", "dataset": dataset} for dataset in ("cora", "mammals"))
    assert resolve_defaults(parse(graph), "links").partition == "metis"
    assert resolve_defaults(parse(taxonomy), "links").partition == "branches"
    assert parse(graph | {"partition": "louvain"}).partition == "louvain"
    for settings, partition in ((graph, "branches"), (taxonomy, "metis")):
        with pytest.raises(ConfigError, match=f'partition = "{partition}"'):
            parse(settings | {"partition": partition})


def test_a_cut_off_archive_of_wordnet_is_named(tmp_path):
    path = tmp_path / "WordNet-3.0.tar.bz2"
    write_wordnet(path, padding=np.random.default_rng(0).bytes(1_500_000))
    path.write_bytes(path.read_bytes()[:1_200_000])
    with pytest.raises(DataError, match=r"WordNet-3\.0\.tar\.bz2"):
        read_part(path, "nouns")


def test_an_archive_without_the_root_of_a_part_is_named(tmp_path):
    path = tmp_path / "WordNet-3.0.tar.bz2"
    write_wordnet(path)
    with pytest.raises(DataError, match=r"WordNet-3\.0\.tar\.bz2"):
        read_part(path, "plants")


def test_without_a_network_the_folder_and_the_command_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr("curvfed.extensions.public_data.downloads.PROBE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(DataError, match=r"go-basic\.obo") as refused:
        LinkDataset(LinkSpec("gene-ontology", tmp_path)).locate()
    assert str(tmp_path / "ontology") in str(refused.value)
    assert "purl.obolibrary.org" in str(refused.value)


def test_links_of_graphs_are_the_edges_of_the_graph_tasks_clients():
    config = parse({"method": "links", "dataset": "trees"})
    dataset = open_dataset(config, "links")
    links = dataset.client(1, 3)
    resolved = resolve_defaults(parse({"method": "fedavg", "dataset": "trees"}), "nodes")
    graph = GraphDataset.of_run(resolved).client(1, 3)
    names = np.array(links.class_names)
    ends = [names[end.numpy()] for end in (links.heads, links.labels)]
    edges = {tuple(int(name.split(".")[1]) for name in pair) for pair in zip(*ends, strict=True)}
    assert edges == set(map(tuple, graph.edge_index.T.tolist()))
    parts = links.train.long() + 2 * links.test
    one_way = dict(zip(zip(*ends, strict=True), parts.tolist(), strict=True))
    assert all(split == one_way[tail, head] for (head, tail), split in one_way.items())
    assert set(one_way.values()) == {0, 1, 2}


def test_a_single_relation_is_that_of_clients_with_several(tmp_path):
    clients = {}
    for name, text in (("one", "a,r,b\n"), ("two", "a,r,b\nb,s,a\n"), ("none", "a,b\n")):
        path = tmp_path / f"{name}.csv"
        path.write_text(text)
        dataset = LinkDataset(LinkSpec("own", path, train_size=1.0))
        clients[name] = dataset.own_data(read_links(path))
    names = clients["two"].class_names
    task = LinkTask(clients["one"], names, torch.device("cpu"), 0, 1)
    assert task.triples["train"].tolist() == [[0, 0, 1]]
    with pytest.raises(DataError, match="relation"):
        LinkTask(clients["none"], names, torch.device("cpu"), 0, 1)


def test_every_link_has_one_client_and_branches_stay_together(tmp_path):
    dataset = LinkDataset(LinkSpec("balanced-tree", tmp_path, "branches", seed=3))
    parts = [dataset.client(number, 3) for number in range(3)]
    assert sum(len(client.labels) for client in parts) == len(dataset.test().labels)
    shared = set(parts[0].heads.tolist()) & set(parts[1].heads.tolist())
    assert len(shared) <= 2  # one where a branch is cut


def test_scores_are_those_counted_by_hand():
    line = LinkModelSpec("normal", 4, 1, 1, curvature=0.0).build(0)
    line.entities.data = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
    right_links = KnownLinks(torch.tensor([[0, 0, 1], [0, 0, 3]]), 4, 1)
    scores = link_scores(line, Queries(torch.tensor([[0, 0, 3]]), torch.arange(4), right_links))
    # 2 is nearer and wrong; 1 is nearer and right
    assert scores == {"mrr": 0.5, "hits_1": 0.0, "hits_10": 1.0, "link_auc": 0.0}


def test_links_to_score_are_drawn_by_the_seed(monkeypatch):
    monkeypatch.setattr(ranking, "QUERIES", 20)
    links = LinkDataset(LinkSpec("balanced-tree", Path())).client(0, 2)
    model = LinkModelSpec("normal", 364, 1, 2, curvature=0.0).build(0)
    device = torch.device("cpu")
    tasks = [LinkTask(links, links.class_names, device, 0, 1, seed) for seed in (0, 0, 1)]
    first, repeated, reseeded = (task.scores(model) for task in tasks)
    assert first == repeated != reseeded


def test_lengths_of_updates_are_those_of_the_rows_moves():
    rng = np.random.default_rng(0)
    old = np.zeros((50, 4), np.float32)
    server = LinksServer(
        {"entities": old, "k": np.zeros((), np.float32)}, RowKeys(), RunKeys(model="normal")
    )
    replies = {}
    for client, spread in enumerate((2, 50, 50, 50, 50)):  # a hub, then links of all entities
        counts = np.zeros(50, np.float32)
        counts[:spread] = 2 / spread
        moves = rng.normal(0, 0.1, (50, 5)).astype(np.float32) * counts[:, None]
        k = np.array(0.1 if client else 0.001, np.float32)
        arrays = {ROWS + "entities": moves, COUNTS + "entities": counts, "k": k}
        replies[client] = Statistics(arrays, 100)
    assert max(update_lengths(server, replies).values()) < 2
    replies[3].arrays[ROWS + "entities"] *= 50
    replies[4].arrays[COUNTS + "entities"] *= 1000
    lengths = update_lengths(server, replies)
    assert lengths[3] > 10
    assert lengths[4] > 100


def test_keys_of_the_space_are_read_where_rows_are_points_of_it():
    keys = {"links.curvature": -2.0, "links.negatives": 3, "dataset": "balanced-tree"}
    assert not unread_keys(parse({"method": "local", **keys}))
    text = unread_keys(parse({"method": "links-complex", **keys}))
    assert "links.curvature = -2.0 is a key of links, links-tailored" in text
    assert "negatives" not in text


@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        ({"links.score": "inner", "links.curvature": -1.0}, "links.curvature = 0"),
        ({"model": "complex"}, "links-complex"),
        ({"method": "links-rotate", "model": "normal"}, "method = links"),
    ],
)
def test_scores_and_models_without_a_space_are_refused(settings, allowed):
    with pytest.raises(ConfigError, match=allowed):
        parse({"method": "links", "dataset": "balanced-tree"} | settings)


def test_a_bias_without_a_coordinate_is_refused():
    with pytest.raises(ValueError, match="embedding-dim = 1"):
        LinkModelSpec("normal", 3, 1, 1, bias=True).build(0)


@pytest.mark.parametrize("curvature", [-2.0, 0.0])
@pytest.mark.parametrize("score", ["distance", "squared"])
def test_a_bias_is_added_to_the_score_of_the_tail(score, curvature):
    spec = LinkModelSpec("normal", 3, 1, 5, curvature=curvature, score=score, bias=True)
    model = spec.build(0)
    assert sum(parameter.numel() for parameter in model.parameters()) == 15
    plain = replace(spec, bias=False, dim=4).build(0)
    model.bias.data = torch.tensor([[1.0], [2.0], [3.0]])
    heads = torch.tensor([0, 1])
    tails = torch.tensor([[1, 2], [0, 2]])
    relations = torch.zeros(2, dtype=torch.int64)
    scores = plain(heads, relations, tails) + torch.tensor([[2.0, 3.0], [1.0, 3.0]])
    torch.testing.assert_close(model(heads, relations, tails), scores)


def test_the_most_frequent_tails_are_counted_by_relation():
    train = torch.tensor([[0, 0, 1], [2, 0, 1], [3, 0, 2], [0, 1, 3], [2, 1, 3]])
    rival = FrequentTails(train, 4)
    (scores,) = rival.blocks(torch.tensor([0, 0]), torch.tensor([0, 1]), torch.tensor([1, 2, 3]))
    assert scores.tolist() == [[2, 1, 0], [0, 0, 2]]


def test_a_run_says_how_good_the_most_frequent_tails_are(tmp_path):
    done = run(tmp_path, method="links", dataset="balanced-tree", num_rounds=1)
    metrics = done.summary["metrics"]
    names = ("frequent_mrr", "global_frequent_mrr", "frequent_map")
    assert all(0 < metrics[name] <= 1 for name in names)
    assert metrics["majority_accuracy"] is None
    dataset = LinkDataset(LinkSpec("balanced-tree", Path(), seed=done.summary["seed"]))
    parts = [dataset.client(number, 3).statistics()["frequent_mrr"] for number in range(3)]
    assert metrics["frequent_mrr"] == pytest.approx(np.mean(parts))


@pytest.mark.parametrize("kind", ["complex", "rotate"])
def test_relations_are_complex_numbers(kind):
    model = LinkModelSpec(kind, 3, 2, 4).build(0)
    score = model(torch.tensor([0]), torch.tensor([1]), torch.tensor([[2, 1]]))
    rows = model.entities.detach().numpy()
    relations = model.relations.detach().numpy()
    head, middle, last = rows[:, :2] + 1j * rows[:, 2:]
    if kind == "complex":
        factor = relations[1, :2] + 1j * relations[1, 2:]
        expected = [(head * factor * tail.conj()).sum().real for tail in (last, middle)]
    else:
        turned = head * np.exp(1j * relations[1])
        expected = [-np.abs(turned - tail).sum() for tail in (last, middle)]
    np.testing.assert_allclose(score.detach()[0], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("average", ["centroid", "tangent", "flat"])
@pytest.mark.parametrize("curvature", [-1.0, -0.25, 0.0])
@pytest.mark.parametrize("model", ["normal", "hyperboloid"])
def test_rows_are_averaged_by_links_and_others_stay(model, curvature, average):
    spec = LinkModelSpec(model, 3, 1, 4, curvature=curvature, bias=True)
    start = spec.build(0)
    old = {"entities": start.entities.detach(), "bias": start.bias.detach()}
    keys = RowKeys(average=average, curvature=curvature)
    arrays = {name: rows.numpy() for name, rows in old.items()}
    server = LinksServer(arrays, keys, RunKeys(model=model))
    moves = [0.01, -0.02]
    counts = [torch.tensor([3.0, 2, 0]), torch.tensor([1.0, 0, 0])]
    charts = {"entities": chart_of(model, curvature), "bias": None}
    replies = {}
    for client, (move, count) in enumerate(zip(moves, counts, strict=True)):
        arrays = {COUNTS + "entities": (count / 5).numpy()}
        for name, rows in old.items():
            terms = mean_terms(average, charts[name], rows, rows + move) * count[:, None] / 5
            arrays[ROWS + name] = terms.numpy()
        replies[client] = Statistics(arrays, 5)
    server.aggregate(replies)
    averaged = server.global_model()
    for name, rows in old.items():
        expected = torch.stack([rows[0] + 0.0025, rows[1] + 0.01, rows[2]])
        np.testing.assert_allclose(averaged[name], expected, atol=5e-5)


def test_clients_learn_a_curvature_of_their_own(tmp_path):
    settings = {"method": "links-tailored", "dataset": "balanced-tree", "num_rounds": 2}
    done = run(tmp_path, **settings)
    assert "k" not in done.model
    last = {row["partition"]: row["curvature"] for row in done.clients}
    assert len(set(last.values())) == len(last) == 3


def test_a_secure_sum_gives_the_same_rows(tmp_path):
    settings = {
        "method": "links",
        "model": "hyperboloid",
        "dataset": "balanced-tree",
        "num_rounds": 2,
    }
    plain = run(tmp_path, "open", **settings)
    masked = run(tmp_path, "masked", secure_sum=True, secure__min_holders=1, **settings)
    for name, array in plain.model.items():
        np.testing.assert_allclose(masked.model[name], array, atol=1e-5)
    assert plain.summary["metrics"]["reconstruction_map"] > 0.05


def test_the_report_draws_entities_and_escapes_their_names(tmp_path):
    from curvfed.extensions.links.disc import disc

    rows = np.array([[0.0, 0, 1], [0.5, 0, 4 / 3], [0, 0.5, 4 / 3]])
    names = np.array(["<root>", "left", "right"])
    triples = np.array([[1, 0, 0], [2, 0, 0]])
    links = {"names": names, "rows": rows, "triples": triples, "is_curved": np.array(True)}
    html = disc(SimpleNamespace(optional=lambda name, parse: links)).html
    assert html.count("<circle cx") == 3
    assert "<root>" not in html
    assert "left; nearest: &lt;root&gt;, right" in html

"""How many links a score rests on: those that can be held out, in `check`, in the terminal, in the
report, and as a warning."""

import json
import re
from csv import DictReader
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from curvfed.deployments.arguments import read_request
from curvfed.deployments.commands.command import main
from curvfed.deployments.preflight import preflight
from curvfed.extensions.links.dataset import LinkDataset
from curvfed.extensions.links.kind import KIND
from curvfed.extensions.links.raw import raw_links
from curvfed.extensions.links.readers import read_links
from curvfed.extensions.links.split import LinkSpec, keep_ends_trained, split_links
from curvfed.server_app.report.run_page import write_report
from curvfed.strategies.config.parse import parse
from curvfed.strategies.wire.checks import MessageError
from curvfed.strategies.wire.codec import decode_reply, encode_reply
from curvfed.strategies.wire.messages import Description, Header, Reply

SMALL = ("method=links", "num-rounds=2", "embedding-dim=4", "num-supernodes=1")


def write_tree(path, number=127):
    """A binary tree of direct links: each leaf is in a single one."""
    path.write_text("".join(f"n{node}\tn{(node - 1) // 2}\n" for node in range(1, number)))
    return path


def write_closure(path, number=127):
    """The same tree with links to all ancestors."""
    lines = []
    for node in range(1, number):
        above = node
        while above:
            above = (above - 1) // 2
            lines.append(f"n{node}\tn{above}\n")
    path.write_text("".join(lines))
    return path


@pytest.mark.parametrize("write", [write_tree, write_closure])
@pytest.mark.parametrize("seed", range(3))
def test_both_ends_of_a_held_out_link_are_trained(write, seed, tmp_path):
    raw = read_links(write(tmp_path / "tree.tsv"))
    parts = split_links(raw, LinkSpec("own", tmp_path, seed=seed))
    trained = set(raw.triples[parts == 0][:, [0, 2]].ravel())
    held_out = raw.triples[parts != 0][:, [0, 2]].ravel()
    assert set(held_out) <= trained
    number = len(parts)
    train, test = round(0.8 * number), round(0.1 * number)
    assert np.bincount(parts).tolist() == [train, number - train - test, test]


def test_a_star_cannot_be_held_out_and_says_so(tmp_path):
    path = tmp_path / "star.tsv"
    path.write_text("".join(f"leaf{number}\troot\n" for number in range(50)))
    raw = read_links(path)
    spec = LinkSpec(str(path), tmp_path)
    assert not split_links(raw, spec).any()
    links = LinkDataset(spec).part(0, 1)
    assert links.history.startswith("0 test links instead of the 5 of test-size")


def test_clients_in_one_process_share_the_split(tmp_path, monkeypatch):
    calls = []

    def counted(parts, ends, order):
        calls.append(len(parts))
        return keep_ends_trained(parts, ends, order)

    monkeypatch.setattr(f"{keep_ends_trained.__module__}.keep_ends_trained", counted)
    spec = LinkSpec(str(write_tree(tmp_path / "tree.tsv")), tmp_path)
    held = [LinkDataset(spec).part(client, 4) for client in range(4)]
    whole = LinkDataset(spec).test()
    assert calls == [126]
    for part in ("train", "val", "test"):
        assert sum(int(getattr(links, part).sum()) for links in held) == getattr(whole, part).sum()


def run_of(tmp_path, capsys, *pairs):
    words = [*SMALL, f"dataset={write_tree(tmp_path / 'tree.tsv')}", *pairs]
    assert main(["check", *words]) == 0
    promised = capsys.readouterr().out
    assert main(["simulate", *words, f"results-dir={tmp_path}", "run-name=r"]) == 0
    return promised, capsys.readouterr().out, tmp_path / "r"


def test_check_promises_the_number_that_every_place_shows(tmp_path, capsys):
    promised, printed, folder = run_of(tmp_path, capsys)
    assert "personal scores: of 13 test examples" in promised
    assert "note: the personal score is of 13 test examples, each of which counts 8" in promised
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["metrics"]["personal_examples"] == 13
    assert summary["metrics"]["global_examples"] == 13
    assert "few-tests" in summary["warning_keys"]
    assert any("Hits@1 is of 13 test examples" in text for text in summary["warnings"])
    assert re.search(r"personal Hits@1 +│ +[\d.]+% ± 0.0%, 13 test", printed)
    page = write_report(folder).read_text()
    assert "mean reciprocal rank, mean of 1 client, 13 test examples" in page
    assert re.search(r"[\d.]+% ± 0.0%,</span> 13 test examples", page)


def test_enough_examples_are_no_warning(tmp_path, capsys):
    promised, _, folder = run_of(
        tmp_path, capsys, "test-size=0.3", "train-size=0.6", "report=false"
    )
    assert "each of which counts" not in promised
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["metrics"]["personal_examples"] >= 20
    assert "few-tests" not in summary["warning_keys"]


def test_a_pooled_score_counts_each_scored_link_once(own_home, tmp_path):
    words = ["simulate", "dataset=balanced-tree", "method=links", "num-supernodes=4", "seed=1"]
    words += ["partition=random", "links.trained-ends=false", "num-rounds=6", "report=false"]
    assert main([*words, f"results-dir={tmp_path}", "run-name=r"]) == 0
    clients = json.loads((tmp_path / "r" / "clients.json").read_text())["clients"]
    sizes = [client["statistics"] for client in clients]
    scored = [size["num_test"] - size["num_test_unranked"] for size in sizes]
    assert sum(scored) < sum(size["num_test"] for size in sizes)
    with (tmp_path / "r" / "clients.csv").open() as file:
        shares = [float(row["accuracy"]) for row in DictReader(file) if row["round"] == "6"]
    right = [share * number for share, number in zip(shares, scored, strict=True)]
    assert right == pytest.approx(np.round(right), abs=1e-9)
    assert max(right) > 0
    summary = json.loads((tmp_path / "r" / "summary.json").read_text())
    pooled = summary["metrics"]["personal_accuracy_pooled"]
    assert pooled == pytest.approx(sum(right) / sum(scored), abs=1e-12)


def described(statistics):
    """The reply of a client that describes its links so, as the server reads it."""
    data = Description("links", "", "mrr", 1, ("entity a", "entity b"), "d" * 64, "", statistics)
    asked = Header("run", "describe", 0)
    return decode_reply(encode_reply(Reply(asked, 0, description=data)), asked).description


@pytest.mark.parametrize("name", ["num_test_unranked", "num_test_reversed"])
def test_a_client_states_each_number_of_its_test_links(name):
    whole = {"num_test": 3, "num_test_unranked": 3, "num_test_reversed": 0}
    assert described(whole).statistics == whole
    assert not described({}).statistics
    with pytest.raises(MessageError, match=f'"{name}" is 50; links with "num_test" = 3'):
        described(whole | {name: 50})
    del whole[name]
    with pytest.raises(MessageError, match=f'"{name}" is missing; links with "num_test" = 3'):
        described(whole)


def test_below_the_trivial_answer_the_remedy_is_reported_and_helps(own_home, tmp_path, capsys):
    path = tmp_path / "tree.tsv"
    rng = np.random.default_rng(0)
    path.write_text("".join(f"n{node}\tn{rng.integers(node)}\n" for node in range(1, 127)))
    words = ["simulate", f"dataset={path}", "method=links", "num-supernodes=1", "report=false"]
    words += ["num-rounds=20", f"results-dir={tmp_path}"]
    assert main([*words, "run-name=direct"]) == 0
    direct = json.loads((tmp_path / "direct" / "summary.json").read_text())
    (warning,) = [text for text in direct["warnings"] if "trivial" in text]
    assert "links.closure=true adds the links to all ancestors; else raise num-rounds" in warning
    best = direct["best_validation"]
    assert best["round"] < 20
    rounds = (
        f", {100 * best['metrics']['mrr']:.1f}% in round {best['round']}, that of best validation"
        f" (in round 20, the last: {100 * direct['metrics']['mrr']:.1f}%), is below"
    )
    assert rounds in warning
    assert main([*words, "run-name=closed", "links.closure=true"]) == 0
    closed = json.loads((tmp_path / "closed" / "summary.json").read_text())
    assert not [text for text in closed["warnings"] if "trivial" in text]
    assert closed["metrics"]["mrr"] > closed["metrics"]["frequent_mrr"]
    capsys.readouterr()


def test_a_note_of_a_run_names_all_clients_that_share_it(own_home, tmp_path, caplog):
    path = write_tree(tmp_path / "tree.tsv")
    preflight(read_request([*SMALL, f"dataset={path}", "num-supernodes=3"]))
    notes = [text for text in caplog.messages if "direct parents alone" in text]
    assert [text.partition(": the links")[0] for text in notes] == [
        "note: clients 0, 1, 2 (of 3 checked)"
    ]


@pytest.mark.parametrize(
    ("write", "is_noted"), [(write_tree, True), (write_closure, False)], ids=["direct", "closed"]
)
def test_check_notes_direct_parents_alone(write, is_noted, own_home, tmp_path, capsys):
    path = write(tmp_path / "tree.tsv")
    words = ["check", *SMALL, f"dataset={path}", "num-supernodes=3"]
    assert main(words) == 0
    # Once, whatever the number of clients.
    assert capsys.readouterr().out.count("direct parents alone") == is_noted
    assert main([*words, "links.closure=true"]) == 0
    assert "direct parents alone" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "links",
    [
        [("a", "b"), ("b", "a"), ("b", "c")],  # no hierarchy
        [("a", "root"), ("b", "root"), ("c", "root"), ("d", "root")],  # no steps
    ],
)
def test_links_that_a_closure_does_not_help_are_not_noted(links, tmp_path):
    dataset = LinkDataset(LinkSpec("own", tmp_path))
    examples = dataset.in_memory(raw_links("own", links * 5))
    noted = replace(examples, test=torch.ones(len(examples.labels), dtype=torch.bool)).notes
    assert not any("direct parents alone" in note for note in noted)


def test_no_closure_is_recommended_where_links_have_no_direction(tmp_path):
    file = write_tree(tmp_path / "tree.tsv")
    remedies = {}
    for dataset in ("trees", "mammals", str(file)):
        remedies[dataset] = KIND.remedy_below_trivial(
            parse({"method": "links", "dataset": dataset})
        )
    assert remedies.pop("trees") == "raise num-rounds"
    assert all("links.closure=true" in remedy for remedy in remedies.values())


@pytest.mark.parametrize("returns", [False, True], ids=["hub", "both directions"])
def test_no_product_of_links_is_made_in_vain(returns, tmp_path, monkeypatch):
    """Of a hub the product has 64 million numbers."""
    number = 20 if returns else 8000
    links = [(f"below{row}", "hub") for row in range(number)]
    links += [("hub", f"above{row}") for row in range(number)]
    links += [("hub", "below0")] * returns
    dataset = LinkDataset(LinkSpec("own", tmp_path))
    direct = dataset.in_memory(raw_links("own", links))
    examples = replace(direct, test=torch.ones(len(links), dtype=torch.bool))

    def no_product(*factors):
        raise AssertionError("a product")

    monkeypatch.setattr(csr_array, "__matmul__", no_product)
    assert not any("direct parents alone" in note for note in examples.notes)

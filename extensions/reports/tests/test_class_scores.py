"""Recall by class and client, confusions, and reliability of probabilities in reports."""

import re

import numpy as np
import pytest
from app_runs import real_nodes, run
from flwr.app import ConfigRecord
from graph_fixtures import user_fields
from hull_nodes import hull_run, switched_nodes
from scipy import stats

from curvfed.extensions.reports.array_files import HullFile
from curvfed.extensions.reports.class_scores import (
    ballots,
    bands,
    client_shares,
    confusion,
    count_pairs,
    recalls,
    run_counts,
)
from curvfed.extensions.reports.intervals import wilson
from curvfed.extensions.reports.run_clients import class_names
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report.run_page import write_report
from curvfed.server_app.run import RoundError
from curvfed.strategies.wire.checks import MessageError, check_confusion


@pytest.mark.parametrize(
    ("right", "total"), [(0, 1), (0, 12), (1, 1), (3, 8), (40, 40), (977, 1000)]
)
def test_intervals_are_wilsons(right, total):
    expected = stats.binomtest(right, total).proportion_ci(0.95, "wilson")
    np.testing.assert_allclose(wilson(right, total), (expected.low, expected.high), atol=1e-6)


def test_recalls_and_bands_are_those_of_the_points(finished):
    """With every third point of the last class in the first one; the run's classifier hardly errs."""
    file = HullFile.read(finished["hulls"] / "hulls.npz")
    labels = file.test.labels
    is_right = (labels < labels.max()) | (np.arange(len(labels)) % 3 > 0)
    predicted = np.where(is_right, labels, 0)
    class_shares = recalls(count_pairs(labels, predicted), file.class_names)
    assert [share.share for share in class_shares] == sorted(share.share for share in class_shares)
    assert sum(share.total for share in class_shares) == len(labels)
    for share in class_shares:
        mine = labels == file.class_names.index(share.name)
        assert share.share == pytest.approx(is_right[mine].mean())
    parts = bands(file)
    assert sum(share.total for share in parts) == len(labels)


def test_votes_of_clients_are_in_the_report(tmp_path):
    made = hull_run(tmp_path, nodes=switched_nodes(tmp_path / "nodes"), test_data="none")
    votes = {name: votes for name, *votes in ballots(HullFile.read(made.path / "hulls.npz"))}
    assert votes == {
        "0": [4, 0.75, "0 (3), 2 (1)"],
        "2": [4, 0.75, "2 (3), 0 (1)"],
        "4": [1, 1.0, "4 (1)"],
    }
    page = write_report(made.path).read_text()
    text = re.sub("<[^>]+>", "", page.replace("</td>", " "))
    assert "4 75.0% 0 (3), 2 (1)" in text


@pytest.mark.parametrize(
    ("settings", "nothing_else"),
    [
        pytest.param({"method": "flatland"}, True, marks=pytest.mark.long),
        pytest.param({"method": "adafgl", "fine_tune_epochs": 2}, True, marks=pytest.mark.long),
        ({"method": "fedavg", "num_rounds": 3, "fraction_train": 0.4}, True),
        (
            {
                "method": "fedbabu",
                "dataset": "digits",
                "images__train_subset": 150,
                "train_size": 0.6,
            },
            False,
        ),
    ],
)
def test_every_clients_last_score_is_reported_by_class(tmp_path, settings, nothing_else):
    result = run(tmp_path, **settings)
    last = {int(row["partition"]): float(row["score"]) for row in result.clients if row["score"]}
    files = RunFiles(result.path)
    assert {f"client {partition}": score for partition, score in last.items()} == pytest.approx(
        {share.name: share.share for share in client_shares(files)}
    )
    sizes = {
        f"client {client['partition']}": client["statistics"]["num_test"]
        for client in result.described["clients"]
    }
    assert sizes == {share.name: share.total for share in client_shares(files)}
    assert [share.share for share in client_shares(files)] == sorted(last.values())
    page = write_report(result.path).read_text()
    assert "Clients, the worst first" in page
    assert "<h3>Classes</h3>" in page
    if nothing_else:
        classes = recalls(run_counts(files), class_names(files))
        pooled = result.summary["metrics"]["personal_accuracy_pooled"]
        assert sum(share.share * share.total for share in classes) / sum(
            sizes.values()
        ) == pytest.approx(pooled)
        assert confusion(files) is not None


def test_a_resumed_run_tells_the_same_and_a_longer_one_the_later(tmp_path):
    undisturbed = run(tmp_path, "whole", num_rounds=4)
    cut = run(tmp_path, "cut", num_rounds=2)
    earlier = (cut.path / "confusion.csv").read_bytes()
    longer = run(tmp_path, "cut", num_rounds=4, resume=True)
    assert (
        (longer.path / "confusion.csv").read_bytes()
        == (undisturbed.path / "confusion.csv").read_bytes()
        != earlier
    )


@pytest.mark.parametrize("value", [5, [0, 99, 7]])
def test_nothing_is_reported_in_a_secure_sum(tmp_path, value):
    settings = {"method": "fedavg", "secure_sum": True, "clients": 4}
    result = run(tmp_path, intercept=telling(value, phase="forget"), **settings)
    assert not (result.path / "confusion.csv").exists()
    assert result.summary["status"].startswith("completed")
    assert "Clients, the worst first" not in write_report(result.path).read_text()


def test_rows_that_make_no_sense_are_left_out(tmp_path):
    result = run(tmp_path, method="fedavg", num_rounds=1)
    intact = client_shares(RunFiles(result.path))
    odd = '0,"no such class",0,4\n1,0,1,-3\n1,0,1,0\n1,0,1,many\n1,0\nx,0,1,2\n'
    with (result.path / "confusion.csv").open("a") as file:
        file.write(odd)
    assert client_shares(RunFiles(result.path)) == intact
    (result.path / "confusion.csv").write_text("another,header\n0,1\n")
    assert client_shares(RunFiles(result.path)) == []
    assert write_report(result.path).exists()


def test_counts_that_cannot_be_are_refused():
    check_confusion([0, 0, 2, 0, 1, 1, 1, -1, 1], 2, 4)
    rows = ([0, 0], [0, 2, 1], [2, 0, 1], [0, -2, 1], [0, 0, 0], [0, 0, 3])
    for counts in (*rows, [0, 0, 1, 0, 0, 1], [0.0, 0, 1]):
        with pytest.raises(MessageError, match=r"confusion matrix"):
            check_confusion(counts, 2, 4)


def telling(value, partition=1, **where):
    """Change the counts in the replies of a client, or add them."""

    def intercept(message, handle):
        reply = handle(message)
        header = reply.content["header"]
        if header["partition"] == partition and all(
            header[name] == expected for name, expected in where.items()
        ):
            reply.content["parts"] = ConfigRecord({"confusion": value})
        return reply

    return intercept


@pytest.mark.parametrize("where", [{"round": 1}, {}])
def test_counts_at_another_time_or_of_a_node_that_shares_no_statistics_are_refused(tmp_path, where):
    nodes = real_nodes(tmp_path / "nodes", [user_fields(seed=seed) for seed in range(3)])
    nodes[1] |= {} if where else {"share-statistics": False}
    settings = {"method": "fedavg", "nodes": nodes, "share_statistics": True}
    result = run(tmp_path, intercept=telling([0, 0, 2**40], phase="train", **where), **settings)
    assert "are not expected" in next(
        row["dropped"] for row in result.clients if row["partition"] == "1"
    )
    assert all(share.total < 1000 for share in client_shares(RunFiles(result.path)))


def test_a_run_that_goes_on_and_fails_keeps_no_counts_of_an_earlier_round(tmp_path):
    def failing(message, handle):
        reply = handle(message)
        if reply.content["header"]["round"] == 3:
            reply.content["header"]["partition"] = 9
        return reply

    settings = {"method": "fedavg", "min_replies": 3}
    run(tmp_path, num_rounds=2, **settings)
    with pytest.raises(RoundError):
        run(tmp_path, num_rounds=4, resume=True, intercept=failing, **settings)
    assert not (tmp_path / "run" / "confusion.csv").exists()


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"method": "fedavg"}, {"round": 2}),
        (
            {
                "method": "fedbabu",
                "dataset": "digits",
                "images__train_subset": 150,
                "train_size": 0.6,
            },
            {"phase": "fine-tune"},
        ),
    ],
)
def test_a_reply_with_false_counts_is_dropped(tmp_path, settings, where):
    result = run(tmp_path, intercept=telling([0, 0, 10**9], **where), **settings)
    names = {share.name for share in client_shares(RunFiles(result.path))}
    assert names == {"client 0", "client 2"}
    dropped = [row["dropped"] for row in result.clients if row["dropped"]]
    assert "1000000000 test examples" in dropped[-1]
    assert result.summary["metrics"]["clients_left_out"] == 1

"""One configuration per start, and per state of a node's data: sums over the same nodes under two
configurations gave an honest server every single node's update."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_runs import Handle, Recorder, array_names, dotted_keys, phase_of, run
from errors import refuses
from flwr.app import Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from hull_nodes import nodes_of
from policies import with_policy
from secure_sums import watched_sums
from test_ledger import SUMMED, Observer, cells, hospitals

from curvfed.client_app.app import app
from curvfed.client_app.client import Client
from curvfed.client_app.node import ledger_file
from curvfed.client_app.node.ledger import Ledger
from curvfed.client_app.node.ledger_memory import Memory
from curvfed.server_app.run import RoundError
from curvfed.server_app.secure import masked_cohort
from curvfed.strategies.config.run_config import defaults
from curvfed.strategies.errors import ConfigError, SecureSumError
from curvfed.strategies.wire.codec import decode_arrays
from curvfed.strategies.wire.exchange import FederationError

pytestmark = pytest.mark.usefixtures("own_home")

LIMIT = r"under 1 other configuration; .* \[runs\] configurations = 1 in this node's policy"


@pytest.fixture
def observer(monkeypatch: pytest.MonkeyPatch) -> Observer:
    return Observer(monkeypatch)


def test_one_start_has_one_configuration(tmp_path, observer):
    """By weights = examples, then uniform, the server had every node's update, to 4e-6."""
    nodes = hospitals(tmp_path / "nodes", 3)
    run(tmp_path, "examples", nodes=nodes, weights="examples", **SUMMED)
    number = len(observer.sums)
    with pytest.raises(RoundError, match=LIMIT):
        run(tmp_path, "uniform", nodes=nodes, weights="uniform", **SUMMED)
    # Another method and another network are of the same seed.
    for key, value in {"method": "fedprox", "learning_rate": 0.5, "model": "mean"}.items():
        with pytest.raises(RoundError, match=LIMIT):
            run(tmp_path, key, nodes=nodes, **SUMMED | {key: value})
    assert len(observer.sums) == number
    # Another seed is another start, and a run that is repeated tells nothing new.
    run(tmp_path, "seed", nodes=nodes, seed=1, weights="uniform", **SUMMED)
    run(tmp_path, "again", nodes=nodes, weights="examples", **SUMMED)
    assert len(observer.sums) == 3 * number


def test_the_policy_allows_more(tmp_path, observer):
    nodes = with_policy(tmp_path, hospitals(tmp_path / "nodes", 3), "[runs]\nconfigurations = 2\n")
    for weights in ("examples", "uniform"):
        run(tmp_path, weights, nodes=nodes, weights=weights, **SUMMED)
    with pytest.raises(RoundError, match="under 2 other configurations"):
        run(tmp_path, "third", nodes=nodes, learning_rate=0.5, **SUMMED)


def shy_third(folder: Path, rules: str = "") -> list[dict[str, Any]]:
    """Three hospitals; the third's parameters leave it only in secure sums."""
    nodes = hospitals(folder / "nodes", 3)
    shy = with_policy(folder / "third", nodes[2:], "[leaves]\nsecure-sum = true\n")
    return [*with_policy(folder, nodes[:2], rules), *shy]


OPEN_RUN = SUMMED | {"secure_sum": False, "min_replies": 2}


def test_open_answers_of_the_others_beside_a_sum_are_the_last_members_figures(tmp_path):
    """The attack that the default limit refuses: two ordinary runs, and an honest server."""
    nodes = shy_third(tmp_path, "[runs]\nconfigurations = 2\n")
    masked = run(tmp_path, "masked", nodes=nodes, **SUMMED)
    opened = run(tmp_path, "open", nodes=nodes, **OPEN_RUN)
    truth = run(tmp_path, "truth", nodes=hospitals(tmp_path / "others", 3), **OPEN_RUN)
    losses = [float(row["loss"]) for row in opened.clients if row["phase"] == "train"]
    assert len(losses) == 2
    (summed,) = [float(row["loss"]) for row in masked.rounds if row["phase"] == "train"]
    hidden = [float(row["loss"]) for row in truth.clients if row["phase"] == "train"][2]
    assert 3 * summed - sum(losses) == pytest.approx(hidden, rel=1e-3)


@pytest.mark.parametrize("first", ["masked", "open"])
def test_a_start_is_answered_in_the_open_or_in_a_sum(first, tmp_path):
    nodes = shy_third(tmp_path)
    runs = {"masked": SUMMED, "open": OPEN_RUN}
    made = run(tmp_path, first, nodes=nodes, **runs[first])
    reasons = {
        "masked": r"sent values of its present data in masked sums.*other seeds give.*secure-sum = true, or more"
    }
    reasons["open"] = "answered in the open from the start of seed 0"
    second = "open" if first == "masked" else "masked"
    with pytest.raises(RoundError, match=reasons[first]):
        run(tmp_path, second, nodes=nodes, **runs[second])
    # The same run goes on, and open runs beside each other are free.
    again = run(tmp_path, "again", nodes=nodes, **runs[first])
    assert [row["loss"] for row in again.rounds] == [row["loss"] for row in made.rounds]
    if first == "open":
        run(tmp_path, "other", nodes=nodes, **OPEN_RUN | {"learning_rate": 0.5})
        reasons["open"] = "members whose present data have answered in the open do not count"
    with pytest.raises(RoundError, match=reasons[first]):
        run(tmp_path, "seed", nodes=nodes, **runs[second] | {"seed": 1})


def test_a_masked_run_without_a_sum_leaves_open_runs_free(tmp_path):
    nodes = shy_third(tmp_path)
    run(tmp_path, "open", nodes=nodes, **OPEN_RUN)
    with pytest.raises(RoundError, match="too few examples to hide"):
        run(tmp_path, "masked", nodes=nodes, **SUMMED | {"seed": 1})
    run(tmp_path, "open-again", nodes=nodes, **OPEN_RUN | {"seed": 2})


def test_a_node_that_answers_in_the_open_after_it_has_stated_examples_sends_no_vector(tmp_path):
    """Its peers count themselves hidden by examples that the server could then subtract."""
    nodes = hospitals(tmp_path / "nodes", 3)
    opened = []

    def open_between(request: Message, handle: Handle) -> Message:
        if phase_of(request.content) == "train" and not opened:
            opened.append(True)
            run(tmp_path, "open", nodes=nodes, **OPEN_RUN | {"seed": 1})
        return handle(request)

    with pytest.raises(RoundError, match="sent values of its present data in the open"):
        run(tmp_path, "masked", nodes=nodes, intercept=open_between, **SUMMED)


def test_nodes_that_all_have_answered_in_the_open_are_summed_from_another_seed(tmp_path):
    """Nothing is hidden of any of them; a sum after which they answer in the open all the same is
    one of no other nodes."""
    nodes = hospitals(tmp_path / "nodes", 3)
    run(tmp_path, "open", nodes=nodes, **OPEN_RUN)
    run(tmp_path, "masked", nodes=nodes, **SUMMED | {"seed": 1})
    run(tmp_path, "open-again", nodes=nodes, **OPEN_RUN | {"seed": 2})


RATE = 1e-4

FORGETFUL = {
    "num_rounds": 2,
    "optimizer": "sgd",
    "momentum": 0.0,
    "learning_rate": RATE,
    "weight_decay": 1 / RATE,
    "dropout": 0.0,
}
"""A step of this weight decay ends close to 0, whatever the start."""


@pytest.fixture
def truth(monkeypatch: pytest.MonkeyPatch) -> dict[int, np.ndarray]:
    """The training examples of each class at each client."""
    counts = {}
    fit = Client.fit

    def noted(client: Client, number: int) -> Any:
        labels = np.asarray(client.data.labels[client.data.train])
        counts[client.partition] = np.bincount(labels, minlength=2)
        return fit(client, number)

    monkeypatch.setattr(Client, "fit", noted)
    return counts


def test_a_run_from_another_seed_has_no_open_answers_beside_a_sum(tmp_path, monkeypatch, truth):
    """Networks that forget their start gave the classes of a node that is in sums alone."""
    weights = []
    decode = masked_cohort.decoded

    def weighed(*arguments: Any) -> Any:
        total, means = decode(*arguments)
        weights.append(total.weight)
        return total, means

    monkeypatch.setattr(masked_cohort, "decoded", weighed)
    sums = watched_sums(monkeypatch)
    nodes = shy_third(tmp_path)
    asked = Recorder()
    run(tmp_path, "masked", nodes=nodes, intercept=asked, **SUMMED | FORGETFUL)
    open_run = OPEN_RUN | FORGETFUL | {"seed": 7}
    with pytest.raises(RoundError, match="other seeds give the same or similar values"):
        run(tmp_path, "refused", nodes=nodes, **open_run)
    monkeypatch.setattr(Ledger, "admit_data", lambda *_: None)
    recorder = Recorder()
    run(tmp_path, "unguarded", nodes=nodes, intercept=recorder, **open_run)
    received = decode_arrays(asked.requests("train")[-1]["arrays"])["head.bias"]
    victim = sums[-1]["head.bias"] + weights[-1] * received
    number = weights[-1]
    for reply in recorder.replies("train")[-2:]:
        examples = int(reply["header"]["num_examples"])
        victim -= examples * decode_arrays(reply["arrays"])["head.bias"].astype(np.float64)
        number -= examples
    classes = number / len(victim) + victim / RATE
    np.testing.assert_allclose(classes, truth[2], atol=0.01)  # the attack is real


def test_a_resumed_run_goes_on(tmp_path):
    nodes = hospitals(tmp_path / "nodes", 3)
    run(tmp_path, nodes=nodes, **SUMMED)
    longer = SUMMED | {"num_rounds": 2, "resume": True, "round_timeout": 99.0}
    assert len(run(tmp_path, nodes=nodes, **longer).rounds) > 1
    # A schedule over the rounds depends on their number from the first one on.
    cosine = SUMMED | {"schedule": "cosine", "seed": 1}
    run(tmp_path, "short", nodes=nodes, **cosine)
    with pytest.raises(RoundError, match=LIMIT):
        run(tmp_path, "long", nodes=nodes, **cosine | {"num_rounds": 2})


def test_one_state_of_the_data_has_one_set_of_settings(tmp_path):
    parts = [cells(number) for number in range(3)]
    nodes = with_policy(tmp_path, nodes_of(tmp_path / "nodes", parts), "")
    hull = {"method": "hull", "dataset": "own", "hull__cap": 128, "hull__classifier": "depth"}
    # A dry run sums nothing.
    run(tmp_path, "dry", nodes=nodes, hull__epsilon=0.3, hull__dry_run=True, **hull)
    run(tmp_path, "hull", nodes=nodes, **hull)
    refused = f"{LIMIT}|answered 3 measurements of hull on its present data"
    for key, value in {"points__hold_out": "validation", "seed": 3, "hull__epsilon": 0.2}.items():
        with pytest.raises((RoundError, ConfigError, FederationError), match=refused):
            run(tmp_path, key, nodes=nodes, **hull | {key: value})
    # Keys of the server alone are free, and other data are another question.
    run(tmp_path, "svm", nodes=nodes, **hull | {"hull__classifier": "svm"})
    for node in nodes:
        Path(node["data-path"]).write_text(cells(node["partition-id"], 70))
    run(tmp_path, "more", nodes=nodes, seed=3, **hull)


def test_a_ledger_remembers_questions_also_after_a_restart(tmp_path):
    path = tmp_path / "ledger.jsonl"
    Ledger(path).admit("a", {"seed 0": "seed 0", "sha256:1": "it"}, "one", 1)
    for question in ({"seed 0": "seed 0"}, {"sha256:1": "it"}, {}):
        ledger_file._checked.clear()  # each message may reach a new process
        with refuses("configurations", "1 other", "configurations = 1", error=SecureSumError):
            Ledger(path).admit("a" if not question else "b", question, "two", 1)
        Ledger(path).admit("a" if not question else "b", question, "one", 1)
    Ledger(path).admit("c", {"seed 0": "seed 0"}, "two", 2)
    Ledger(path).admit("d", {"seed 1": "seed 1"}, "two", 1)
    assert [line["run"] for line in Ledger(path).lines("configuration")] == [
        "a",
        "b",
        "b",
        "c",
        "d",
    ]


OLD = ("runs", "sessions", "points", "refusals", "cohorts", "regroups", "costs", "heads")


def test_a_ledger_of_before_is_continued(tmp_path, monkeypatch):
    """Its index, which knows no configurations, is not read."""
    path = tmp_path / "ledger.jsonl"
    anchors = [tmp_path / "anchor"]
    monkeypatch.setattr(ledger_file, "INDEX_EVERY", 0)
    with monkeypatch.context() as before:
        before.setattr(ledger_file, "INDEX_FORMAT", 2)
        before.setattr(Memory, "as_json", lambda memory: {name: [] for name in OLD})
        Ledger(path, anchors).note_run("old", {"method": "fedavg", "secure-sum": True})
        Ledger(path, anchors).append("run", run="older", method="fedavg")
    ledger_file._checked.clear()
    ledger = Ledger(path, anchors)
    assert ledger.shares("nodes") == ()
    ledger.keep_shares("nodes", (0.2, 0.4), ())
    ledger.admit("new", {"seed 0": "seed 0"}, "one", 1)
    ledger_file._checked.clear()
    assert Ledger(path, anchors).shares("nodes") == (0.2, 0.4)
    assert [line["kind"] for line in ledger.lines()] == ["run", "run", "split", "configuration"]


def test_two_first_runs_at_once_have_one_split(tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.keep_shares("nodes", (0.2, 0.4), ())
    ledger.keep_shares("nodes", (0.2, 0.4), ())
    with refuses("own-split", "train-size = 0.2", error=ConfigError):
        ledger.keep_shares("nodes", (0.3, 0.4), ())
    ledger.keep_shares("nodes", (0.3, 0.4), (0.2, 0.4))  # a changed policy


def test_counts_of_holders_of_an_open_run_are_free_beside_open_answers(tmp_path):
    """Open runs count holders in a sum; it is none of updates, which the open answers could show."""
    ledger = Ledger(tmp_path / "ledger.jsonl")
    seed = {"seed 0": "the start of seed 0"}
    ledger.admit("fedavg", seed, "one", 1, is_open=True, is_sum=False)
    ledger.admit("fedproto", seed, "two", 1, is_open=True)
    ledger.admit("fedproto", seed, "two", 1, is_open=True, is_sum=False)
    with refuses("configurations", "1 other", error=SecureSumError):
        ledger.admit("links", seed, "three", 1, is_open=True)
    words = "answered in the open from the start of seed 0"
    with refuses("configurations", words, error=SecureSumError):
        ledger.admit("masked", seed, "four", 2)


def test_the_model_of_a_masked_one_shot_run_is_scored_in_its_sums_alone(tmp_path):
    """A server that asked two of three nodes again, for the scores of an open run of the same name,
    had the votes and the score of the third, which is in sums alone."""
    nodes = nodes_of(tmp_path / "nodes", [cells(number) for number in range(3)])
    nodes = with_policy(tmp_path, nodes, "")
    keys = {"method": "hull", "dataset": "own", "hull__classifier": "depth"}
    recorder = Recorder()
    run(tmp_path, nodes=nodes, intercept=recorder, secure_sum=True, **keys)
    asked = recorder.requests("evaluate")[0]
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    settings = defaults() | dotted_keys(keys) | {"results-dir": str(tmp_path), "run-name": "run"}
    for node in nodes:
        context = Context(1, 1, node, RecordDict(), settings | {"secure-sum": False})
        reply = app(Message(RecordDict(dict(asked)), 1, "evaluate"), context).content
        assert "under 1 other configuration" in reply["header"]["error"]
        assert not array_names(reply)
    # An open run scores its own model.
    other = nodes_of(tmp_path / "others", [cells(number) for number in range(3)])
    opened = run(tmp_path, "open", nodes=other, **keys)
    assert opened.summary["personal_accuracy_mean"] > 0

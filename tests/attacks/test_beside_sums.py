"""What a server learns beside the sums of an ordinary run, or by two of them: numbers of examples
behind scores and weights, errors and refusals in the open, and sums that no seed changes."""

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from app_runs import Handle, Recorder, phase_of, real_nodes, run
from flwr.app import ConfigRecord, Message, RecordDict
from graph_fixtures import user_fields
from hull_nodes import nodes_of
from image_fixtures import write_classes
from policies import costs, with_policy
from secure_sums import watched_sums
from test_ledger import SUMMED, cells, graphs_of

from curvfed.client_app import rounds, start
from curvfed.client_app.client import Client
from curvfed.server_app.run import RoundError
from curvfed.server_app.secure import masked_cohort
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.wire.codec import decode_arrays, encode_arrays
from curvfed.strategies.wire.exchange import FederationError
from curvfed.strategies.wire.messages import FINE_TUNE, TRAIN, Request

pytestmark = pytest.mark.usefixtures("own_home")

MASKED_ONLY = "[leaves]\nsecure-sum = true\n"

Sums = list[tuple[list[str], int, dict[str, tuple[float, int]]]]


@pytest.fixture
def sums(monkeypatch) -> Sums:
    """Of each decoded sum: the names of its arrays, its weight, and its figures."""
    seen: Sums = []
    decode = masked_cohort.decoded

    def watched(residues: Any, encoding: Any, like: Any) -> Any:
        total, means = decode(residues, encoding, like)
        seen.append((sorted(like), total.weight, dict(means)))
        return total, means

    monkeypatch.setattr(masked_cohort, "decoded", watched)
    return seen


def image_nodes(folder: Path, shape: tuple[int, int], **rare: int) -> list[dict[str, Any]]:
    """Three nodes with images of two classes; the first has further classes."""
    nodes = []
    for site in range(3):
        counts = {"a": 24 + site, "b": 26 - site} | (rare if site == 0 else {})
        write_classes(folder / f"data{site}", counts, shape=shape, seed=site + 1)
        place = {"data-path": str(folder / f"data{site}"), "state-path": str(folder / f"s{site}")}
        nodes.append({"partition-id": site} | place)
    return nodes


def changed(request: Message, arrays: dict[str, np.ndarray], number: int) -> Message:
    """The request with other parameters, of this round."""
    content = RecordDict(dict(request.content))
    content["arrays"] = encode_arrays(arrays)
    content["header"] = ConfigRecord(dict(content["header"]) | {"round": number})
    message = Message(content, request.metadata.dst_node_id, request.metadata.message_type)
    message.metadata.__dict__.update(request.metadata.__dict__)
    return message


def test_scores_in_sums_are_rounded_to_hundredths(tmp_path, sums, monkeypatch):
    exact = []
    scores = Client.scores

    def noted(client: Client) -> dict[str, float]:
        values = scores(client)
        exact.append(values["score"])
        return values

    monkeypatch.setattr(Client, "scores", noted)
    graphs = [user_fields(size, seed=index) for index, size in enumerate((57, 83, 119))]
    run(tmp_path, nodes=real_nodes(tmp_path / "nodes", graphs), **SUMMED)
    (figures,) = [figures for _, _, figures in sums if "loss" in figures]
    assert "steps" not in figures  # sums at several sizes of a batch give the numbers of examples
    mean, number = figures["score"]
    assert mean * number * 100 == pytest.approx(round(mean * number * 100), abs=1e-4)
    assert any(abs(100 * score - round(100 * score)) > 1e-3 for score in exact)


def test_a_small_class_is_in_no_weight_of_a_calibrated_run(tmp_path, sums):
    nodes = image_nodes(tmp_path, (28, 28), rare=5)
    keys = {"method": "fedavg", "calibration": "ffc", "dataset": "own", "secure_sum": True}
    run(tmp_path, nodes=nodes, num_rounds=1, local_epochs=1, batch_size=16, **keys)
    weights = [weight for names, weight, _ in sums if names]
    assert len(weights) == 2
    assert weights[0] == weights[1]


def test_a_node_says_in_its_log_which_number_of_classes_its_smaller_weight_leaves_out(
    tmp_path, caplog
):
    """The class of 12 would leave by its size; of a weight of about a third of the examples it has
    fewer than 5. Only the node's own log says so."""
    nodes = []
    for site, (one, two, three) in enumerate(((120, 120, 12), (20, 20, 20), (20, 20, 20))):
        counts = {"a": one, "b": two, "c": three}
        write_classes(tmp_path / f"data{site}", counts, shape=(28, 28), seed=site)
        place = {
            "data-path": str(tmp_path / f"data{site}"),
            "state-path": str(tmp_path / f"{site}"),
        }
        nodes.append({"partition-id": site} | place)
    keys = {"method": "fedavg", "calibration": "ffc", "dataset": "own", "secure_sum": True}
    made = run(tmp_path, nodes=nodes, num_rounds=1, local_epochs=1, batch_size=16, **keys)
    lost = [record.getMessage() for record in caplog.records if "weight-share" in record.msg]
    words = (
        "calibrate of round 1: 1 class is left out of the sum, because the reduced weight"
        " (weight-share) takes fewer than 5 of their examples"
    )
    assert words in lost
    assert "left out of the sum" not in str(made.summary)


def test_a_smaller_weight_shows_no_fraction_of_a_members_numbers(tmp_path, monkeypatch):
    """A class of a node with most of the examples was 30 in a sum of 40.29126213: 36 examples count
    for its 103, and continued fractions of a class or two said so."""
    nodes = []
    for site, (one, two) in enumerate(((60, 80), (20, 20), (20, 20))):
        write_classes(tmp_path / f"data{site}", {"a": one, "b": two}, shape=(28, 28), seed=site)
        place = {
            "data-path": str(tmp_path / f"data{site}"),
            "state-path": str(tmp_path / f"{site}"),
        }
        nodes.append({"partition-id": site} | place)
    vectors = watched_sums(monkeypatch)
    keys = {"method": "fedavg", "calibration": "ffc", "dataset": "own", "secure_sum": True}
    result = run(tmp_path, nodes=nodes, num_rounds=1, local_epochs=1, batch_size=16, **keys)
    (counts,) = [vector["sums"][-2:] for vector in vectors if "sums" in vector]
    assert counts == pytest.approx(np.rint(counts), abs=1e-6)
    assert "not_calibrated" not in result.summary["metrics"]


def crafted(arrays: dict[str, np.ndarray], threshold: float) -> dict[str, np.ndarray]:
    """Parameters that overflow where the first feature of a record is above a threshold."""
    zeros = {name: np.zeros_like(array) for name, array in arrays.items()}
    first = next(name for name, array in arrays.items() if array.ndim == 2)
    zeros[first][0, 0] = np.float32(3.4028e38 / threshold)
    return zeros


PRIVATE = {"dp__unit": "client", "dp__epsilon": 8.0, "dp__force": True, "dp__clip": 1.0}


def test_statistics_are_refused_before_training(tmp_path, monkeypatch):
    """After it, the refusal would tell a server that asks all the same that training did not
    fail."""
    prepare = rounds.prepare

    def prepared(client: Client, request: Request) -> Arrays:
        received = prepare(client, request)
        monkeypatch.setattr(client.learner, "reports_statistics", True, raising=False)
        return received

    monkeypatch.setattr(rounds, "prepare", prepared)
    monkeypatch.setattr(Client, "fit", lambda *arguments: pytest.fail("it trained"))
    nodes = real_nodes(tmp_path / "nodes", [user_fields(60, seed=index) for index in range(3)])
    nodes = with_policy(tmp_path, nodes, "[leaves]\nshare-statistics = false\n")
    with pytest.raises(RoundError, match="sends statistics of the data"):
        run(tmp_path, nodes=nodes, **SUMMED)


@pytest.mark.parametrize("is_private", [False, True])
def test_whether_training_fails_stays_at_the_member(tmp_path, is_private):
    graphs = [user_fields(60, seed=index) for index in range(3)]
    for graph in graphs:
        graph["edge_index"] = torch.zeros((2, 0), dtype=torch.int64)
        graph["x"] = graph["x"].abs()
    largest = max(float(graph["x"][:, 0].max()) for graph in graphs)
    policy = MASKED_ONLY + "[privacy]\nmax-epsilon = 100.0\n" * is_private
    nodes = with_policy(tmp_path, real_nodes(tmp_path / "nodes", graphs), policy)
    errors = []

    def lying(request: Message, handle: Callable[[Message], Message]) -> Message:
        if phase_of(request.content) != "train" or request.content["header"]["round"] != 2:
            return handle(request)
        arrays = {name: np.array(v.numpy()) for name, v in request.content["arrays"].items()}
        for number, threshold in ((2, largest / 2), (3, 1e3 * largest), (4, largest / 2)):
            reply = handle(changed(request, crafted(arrays, threshold), number))
            errors.append(reply.content["header"]["error"])
        return reply

    keys = SUMMED | {"num_rounds": 5, "weight_decay": 0.0, "dropout": 0.0, "normalize": "none"}
    with pytest.raises(RoundError, match=r"round 2, train: partitions .* have no sum"):
        run(tmp_path, nodes=nodes, intercept=lying, **keys | (PRIVATE if is_private else {}))
    assert errors == [""] * 9
    if is_private:  # a part without a change costs as much
        assert [len(costs(tmp_path / "nodes", member)) for member in range(3)] == [4, 4, 4]


def test_whether_a_closed_form_fails_stays_at_the_member(tmp_path):
    """Its error left in the open: with the right parameters, for the member alone that has a record
    above a threshold."""
    errors: list[str] = []

    def lie(request: Message, handle: Handle) -> Message:
        if phase_of(request.content) == FINE_TUNE:
            arrays = decode_arrays(request.content["arrays"])
            huge = {name: np.full_like(array, 3e38) for name, array in arrays.items()}
            reply = handle(changed(request, huge, 1))
            errors.append(str(reply.content["header"]["error"]))
            return reply
        return handle(request)

    keys = {"method": "spherefed", "dataset": "own", "secure_sum": True, "num_rounds": 1}
    keys |= {"fine_tune": "closed-form", "local_epochs": 1, "batch_size": 16}
    with suppress(RoundError):
        run(tmp_path, nodes=image_nodes(tmp_path, (28, 28)), intercept=lie, **keys)
    assert errors == ["", "", ""]


def test_no_length_of_a_sum_shows_who_has_no_examples(tmp_path):
    """A member without training examples sent as many zeros as asked for, the others refused."""
    errors = []

    def longer(request: Message, handle: Handle) -> Message:
        if phase_of(request.content) == TRAIN:
            parts = request.content["parts"]
            parts["length"] = int(parts["length"]) + 1  # type: ignore[arg-type,call-overload]
        reply = handle(request)
        if phase_of(request.content) == TRAIN:
            errors.append(reply.content["header"]["error"])
        return reply

    nodes = real_nodes(tmp_path / "nodes", graphs_of(30, 30, 0))
    with suppress(RoundError):
        run(tmp_path, nodes=nodes, intercept=longer, **SUMMED)
    assert len(errors) == 3
    (said,) = set(errors)
    assert "the length of the sum is" in said
    lines = [Path(node["state-path"]) / f"ledger-{n:05d}.jsonl" for n, node in enumerate(nodes)]
    assert not any('"kind": "sum"' in path.read_text() for path in lines)


def test_a_round_in_which_training_fails_everywhere_says_so(tmp_path, caplog):
    nodes = image_nodes(tmp_path, (28, 28))
    keys = {"method": "fednova", "dataset": "own", "secure_sum": True, "num_rounds": 1}
    keys |= {"learning_rate": 1e30, "local_epochs": 2, "fine_tune_epochs": 0}
    done = run(tmp_path, nodes=nodes, **keys)
    assert done.summary["status"] == "completed"
    assert "round 1: no member of the secure sum reports a loss" in caplog.text
    assert caplog.text.count("this node adds no change to the sum") == 3


def test_a_dry_run_is_answered_alike_whatever_the_classes(tmp_path):
    sizes = ((40, 90), (60, 30), (25, 71))
    policy = MASKED_ONLY + "hull-max-share = 0.12\n[data]\ntest-size = 0.2\n"
    texts = [cells(site, number=sum(pair)) for site, pair in enumerate(sizes)]
    nodes = with_policy(tmp_path, nodes_of(tmp_path / "nodes", texts), policy)
    for least in (1, 20, 40, 80):
        recorder = Recorder()
        keys = {"hull__dry_run": True, "hull__min_class_size": least, "hull__epsilon": 0.05}
        run(
            tmp_path,
            f"dry{least}",
            nodes=nodes,
            intercept=recorder,
            method="hull",
            dataset="own",
            secure_sum=True,
            **keys,
        )
        errors = [reply["header"]["error"] for reply in recorder.replies("measure")]
        assert errors == ["", "", ""]


def test_few_configurations_are_measured(tmp_path):
    """By whether a node refuses, at many values of a key, the size of a class would follow."""
    nodes = nodes_of(tmp_path / "nodes", [cells(site) for site in range(3)])
    nodes = with_policy(tmp_path, nodes, MASKED_ONLY)
    keys = {"method": "hull", "dataset": "own", "secure_sum": True, "hull__classifier": "depth"}
    errors = []
    for least in (1, 5, 6, 7, 5):
        recorder = Recorder()
        with suppress(FederationError, RoundError):
            name = f"run{least}-{len(errors)}"
            keys["hull__min_class_size"] = least
            run(tmp_path, name, nodes=nodes, intercept=recorder, **keys)
        (said,) = {reply["header"]["error"] for reply in recorder.replies("measure")}
        errors.append(said)
    assert errors[:3] == ["", "", ""]
    assert "3 measurements of hull on its present data" in errors[3]
    assert errors[4] == ""  # an earlier configuration


def test_models_are_counted_over_all_runs_of_a_sum(tmp_path):
    nodes = nodes_of(tmp_path / "nodes", [cells(site) for site in range(3)])
    errors: dict[int, list[str]] = {}

    def lying(request: Message, handle: Callable[[Message], Message]) -> Message:
        if phase_of(request.content) != "evaluate":
            return handle(request)
        arrays = {name: np.array(v.numpy()) for name, v in request.content["arrays"].items()}
        said = errors.setdefault(request.metadata.dst_node_id, [])
        for _ in range(6):
            other = arrays | {"intercepts": arrays["intercepts"] + 1 + len(said)}
            number = int(request.content["header"]["round"])
            said.append(handle(changed(request, other, number)).content["header"]["error"])
        return handle(changed(request, arrays, number))

    keys = {"method": "hull", "dataset": "own", "hull__cap": 128, "hull__classifier": "logistic"}
    run(tmp_path, "honest", nodes=nodes, **keys)
    for name in ("a", "b"):
        run(tmp_path, name, nodes=nodes, intercept=lying, **keys)
    assert len(errors) == 3
    for said in errors.values():
        assert sum(not error for error in said) == start.MODELS_PER_SUM - 1
        assert "has answered 10 models of hull on its present data" in said[-1]


@pytest.mark.parametrize(
    "crafted_model",
    [
        {"curvature": np.array(-3.0)},
        {
            "groups": np.array([-9.0, 1.0]),
            "normals": np.array([[1.0, 1.0]]),
            "intercepts": np.array([2.5]),
        },
    ],
    ids=["disc", "group"],
)
def test_no_crafted_classifier_fails_by_the_points_of_a_member(crafted_model, tmp_path):
    """A smaller disc failed in the open at the nodes with a point outside, a group below 0 at those
    with a point in it."""
    near = [re.sub(r"0\.\d+", lambda number: f"{float(number[0]) / 2:.6f}", cells(1))]
    nodes = nodes_of(tmp_path / "nodes", [cells(0), *near, cells(2)])
    errors = set()

    def lying(request: Message, handle: Handle) -> Message:
        if phase_of(request.content) != "evaluate":
            return handle(request)
        arrays = {name: np.array(v.numpy()) for name, v in request.content["arrays"].items()}
        number = int(request.content["header"]["round"])
        reply = handle(changed(request, arrays | crafted_model, number))
        errors.add(reply.content["header"]["error"])
        return reply

    keys = {"method": "hull", "dataset": "own", "hull__cap": 128, "hull__classifier": "logistic"}
    with suppress(RoundError):
        run(tmp_path, nodes=nodes, intercept=lying, secure_sum=True, **keys)
    assert len(errors) == 1


def rewritten(nodes: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """The nodes, each with a file of its policy for itself."""
    return [with_policy(folder / str(n), [node], MASKED_ONLY)[0] for n, node in enumerate(nodes)]


def test_a_stricter_policy_is_another_configuration(tmp_path):
    """The difference of two sums would be the classes that the stricter rule keeps back."""
    nodes = nodes_of(tmp_path / "nodes", [cells(site) for site in range(4)])
    nodes = rewritten(nodes, tmp_path)
    keys = {"method": "hull", "dataset": "own", "secure_sum": True, "hull__classifier": "depth"}
    run(tmp_path, "first", nodes=nodes, **keys)
    Path(nodes[2]["policy"]).write_text(MASKED_ONLY + "hull-min-class-size = 20\n")
    with pytest.raises(RoundError, match=r"partition 2: .* under 1 other configuration"):
        run(tmp_path, "second", nodes=nodes, **keys)


def test_a_larger_weight_share_does_not_raise_the_weight(tmp_path, sums):
    graphs = [user_fields(size, seed=index) for index, size in enumerate((60, 60, 400))]
    nodes = rewritten(real_nodes(tmp_path / "nodes", graphs), tmp_path)
    run(tmp_path, "first", nodes=nodes, **SUMMED)
    Path(nodes[2]["policy"]).write_text(MASKED_ONLY + "[sums]\nweight-share = 0.6\n")
    run(tmp_path, "second", nodes=nodes, **SUMMED)
    first, second = (weight for names, weight, _ in sums if names)
    assert first == second
    Path(nodes[2]["policy"]).write_text(MASKED_ONLY + "[sums]\nweight-share = 0.3\n")
    with pytest.raises(RoundError, match="or its weight-share is smaller"):
        run(tmp_path, "third", nodes=nodes, **SUMMED)

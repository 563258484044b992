"""Clients that answer wrongly or not at all: dropped with the reason, while the others go on."""

import functools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from app_runs import Fault, Handle, Recorder, Run, forged, partition_of, phase_of, run
from flwr.app import Error, Message
from flwr.proto.node_pb2 import NodeInfo

from curvfed.deployments.inprocess import InProcessGrid
from curvfed.server_app.run import RoundError
from curvfed.strategies.wire.codec import decode_arrays, encode_arrays
from curvfed.strategies.wire.exchange import FederationError
from curvfed.strategies.wire.messages import TRAIN, Reply
from curvfed.tasks.plugins import extension_files


def arrays(reply: Reply, **changes) -> Reply:
    return replace(reply, arrays={**reply.arrays, **changes})


def metrics(reply: Reply, **changes: float) -> Reply:
    return replace(reply, metrics={**reply.metrics, **changes})


NAN = np.full(8, np.nan, np.float32)
FAULTS = {
    "NaN": (forged(lambda r: arrays(r, **{"first.bias": NAN})), "first.bias has values that are"),
    "personal": (forged(lambda r: arrays(r, k=np.zeros((), np.float32))), "unexpected ['k']"),
    "metric": (forged(lambda r: metrics(r, score=math.nan)), "score is nan"),
    "examples": (forged(lambda r: replace(r, num_examples=-5)), "num_examples is -5"),
    "identity": (forged(lambda r: replace(r, partition=2)), "changed its partition-id to 2"),
    "round": (forged(lambda r: replace(r, header=replace(r.header, round=1))), "has round 1"),
    "words": (
        forged(lambda r: replace(r, error="x\ncurvfed | round 3/3\x1b[2J" + 300_000 * "A")),
        "x curvfed | round 3/3\N{REPLACEMENT CHARACTER}[2J" + 1974 * "A" + "…",
    ),
    "raises": (
        lambda request, handle: Message(Error(1, "RuntimeError"), reply_to=request),
        "Flower reports error 1",
    ),
    "silent": (lambda request, handle: None, "no reply within 600 s"),
}
"""Some of what the tests of messages list."""


@pytest.mark.usefixtures("clock")
def test_bad_replies_are_dropped_with_the_reasons_and_the_others_go_on(tmp_path, caplog):
    """Each client but the last two replies in its own wrong way."""
    faults = dict(enumerate(FAULTS.values()))
    bad = len(faults)
    clients = bad + 2

    def intercept(request, handle):
        reply = handle(request)
        header = request.content.config_records["header"]
        partition = partition_of(reply.content)
        if (header["phase"], header["round"]) != ("train", 2) or partition not in faults:
            return reply
        return faults[partition][0](request, lambda _: reply)

    result = run(tmp_path, clients=clients, num_rounds=3, intercept=intercept)
    assert result.summary["status"] == "completed"
    assert result.summary["metrics"]["replies_dropped"] == bad
    counts = [(row["replies"], row["dropped"]) for row in result.rounds]
    assert counts == [(f"{clients}", "0"), ("2", f"{bad}"), (f"{clients}", "0")]
    dropped = {int(row["partition"]): row for row in result.clients if row["dropped"]}
    assert dropped.keys() == faults.keys()
    for partition, (_, reason) in faults.items():
        row = dropped[partition]
        assert (row["round"], row["score"]) == ("2", "")
        assert reason in row["dropped"]
        line = f"partition {partition}: {row['dropped']}"
        assert line in result.rounds[1]["reasons"]
        assert f"round 2, train: dropped the reply of {line}" in caplog.text
    assert all(np.isfinite(array).all() for array in result.model.values())


def test_a_round_that_lacks_a_client_is_not_the_best(tmp_path):
    """However well the others do in it."""
    perfect = forged(lambda r: metrics(r, validation=1.0, score=1.0))
    faults = [
        Fault(0, perfect, round=2),
        Fault(1, perfect, round=2),
        Fault(2, FAULTS["NaN"][0], round=2),
    ]

    def intercept(request, handle):
        for fault in faults:
            handle = functools.partial(fault, handle=handle)
        return handle(request)

    result = run(tmp_path, num_rounds=3, intercept=intercept)
    assert [float(row["validation"]) for row in result.rounds][1] == 1.0
    best = result.summary["best_validation"]
    assert best["round"] in (1, 3)
    assert best["metrics"]["clients_left_out"] == 0


def test_who_is_dropped_has_no_part_in_the_average(tmp_path):
    recorder = Recorder()
    fault = Fault(1, FAULTS["NaN"][0])
    result = run(
        tmp_path,
        method="fedavg",
        num_rounds=1,
        intercept=lambda request, handle: recorder(request, lambda message: fault(message, handle)),
    )
    good = [reply for reply in recorder.replies("train") if partition_of(reply) != 1]
    weights = [reply["header"]["num_examples"] for reply in good]
    sent = [reply["arrays"]["head.bias"].numpy().astype(np.float64) for reply in good]
    expected = sum(weight * array for weight, array in zip(weights, sent, strict=True)) / sum(
        weights
    )
    np.testing.assert_allclose(result.model["head.bias"], expected, rtol=1e-6)


def test_too_few_good_replies_end_the_run_and_keep_the_checkpoint(tmp_path):
    settings = {"num_rounds": 4, "min_replies": 3}
    whole = run(tmp_path / "whole", **settings)
    with pytest.raises(RoundError) as caught:
        run(tmp_path, intercept=Fault(1, FAULTS["NaN"][0], round=3), **settings)
    text = str(caught.value)
    assert text.startswith("round 3, train: 2 good replies of 3, needed are 3")
    summary = Run(tmp_path / "run").summary
    assert (summary["status"], summary["error"], summary["rounds"]) == ("failed", text, 2)
    assert (tmp_path / "run" / "checkpoint" / "server" / "00000002.safetensors").exists()
    assert run(tmp_path, resume=True, **settings).figures == whole.figures


def test_a_dropped_client_is_called_by_the_name_of_its_node(tmp_path, monkeypatch, caplog):
    def nodes_with_names(grid: InProcessGrid) -> list[NodeInfo]:
        # The nodes of three clients have the ids 4, 3 and 2.
        return [NodeInfo(node_id=node, name=f"site-{node}") for node in grid.get_node_ids()]

    monkeypatch.setattr(InProcessGrid, "get_nodes", nodes_with_names)
    result = run(tmp_path, intercept=Fault(1, FAULTS["NaN"][0]), num_rounds=1)
    (row,) = [row for row in result.rounds if row["phase"] == "train"]
    assert row["reasons"].startswith("partition 1 (site-3): ")
    assert f"dropped the reply of {row['reasons']}" in caplog.text
    absences = [text for text in result.summary["warnings"] if "clients were out" in text]
    assert len(absences) == ("warnings" in extension_files())
    assert all("client 1 (site-3) in 1 of 1" in text for text in absences)


def test_a_run_in_which_everybody_fails_names_the_reasons(tmp_path):
    """A step so large that every loss is NaN in the second local epoch."""
    with pytest.raises(
        RoundError,
        match=r"round 1, train: 0 good replies of 3, needed are 1 .*\. partition 0, partition 1,"
        " partition 2: the loss is ",
    ):
        run(tmp_path, learning_rate=1e30, local_epochs=3)
    summary = Run(tmp_path / "run").summary
    assert (summary["status"], summary["rounds"]) == ("failed", 0)


def test_a_client_that_diverges_keeps_its_state_of_before(tmp_path):
    def explode(request: Message, handle) -> Message:
        sent = decode_arrays(request.content["arrays"])
        request.content["arrays"] = encode_arrays(
            sent | {"second.weight": np.full((8, 8), 1e38, np.float32)}
        )
        return handle(request)

    result = run(
        tmp_path,
        num_rounds=3,
        method="fedper",
        optimizer_state="kept",
        intercept=Fault(1, explode, round=2),
    )
    (row,) = [row for row in result.clients if row["dropped"]]
    assert row["dropped"] == "the loss is inf in local epoch 1 of 1"
    steps = {p: int(result.personal(p)["optimizer/step/head.bias"]) for p in range(3)}
    assert steps == {0: 3, 1: 2, 2: 3}


def test_a_description_that_makes_no_sense_refuses_that_node(tmp_path):
    wrong = {"class_counts": [1]}
    change = forged(lambda r: replace(r, description=replace(r.description, statistics=wrong)))
    result = run(tmp_path, intercept=Fault(2, change, "describe", 0))
    (reason,) = result.described["refused"].values()
    assert "class_counts" in reason
    assert result.summary["num_clients"] == 2


def test_a_simulation_without_one_of_its_workers_ends_and_no_node_can_end_a_run_so(
    tmp_path, monkeypatch
):
    def worker_lost(request, handle):
        text = "<class 'ray.exceptions.ActorDiedError'>:<'The actor died'>"
        return Message(Error(0, text), reply_to=request)

    fault = Fault(1, worker_lost, round=2)
    with pytest.raises(FederationError, match=r"\(ActorDiedError\).*--cpus.*resume=true"):
        run(tmp_path, num_rounds=3, intercept=fault)
    summary = json.loads(next(tmp_path.rglob("summary.json")).read_text())
    assert (summary["status"], summary["rounds"]) == ("failed", 1)
    monkeypatch.setattr("curvfed.strategies.wire.exchange.has_supernodes", lambda grid: True)
    result = run(tmp_path, "nodes", num_rounds=3, intercept=Fault(1, worker_lost, round=2))
    assert result.summary["metrics"]["replies_dropped"] == 1


@pytest.mark.usefixtures("clock")
def test_equal_reasons_are_one_line(tmp_path, caplog):
    def silent(request: Message, handle: Handle) -> Message | None:
        reply = handle(request)
        has_part = partition_of(reply.content) > 0
        return None if has_part and phase_of(request.content) == TRAIN else reply

    run(tmp_path, intercept=silent, num_rounds=1)
    assert "dropped the reply of partition 1, partition 2: no reply within" in caplog.text

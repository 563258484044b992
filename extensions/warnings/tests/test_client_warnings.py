"""Clients whose data or replies make figures mean less are in the summary of a run, by number."""

import html
from dataclasses import replace

import numpy as np
import pytest
import torch
from app_runs import QUICK, Handle, forged, partition_of, phase_of, real_nodes, run
from false_replies import LIAR, Liar
from flwr.app import Message
from graph_fixtures import user_fields
from hull_nodes import blobs, hull_run, nodes_of

import curvfed
from curvfed.extensions.warnings.figure_warnings import FigureWarnings
from curvfed.server_app.client_history import lost_text
from curvfed.server_app.directory.checkpoint import State
from curvfed.server_app.federation import Federation
from curvfed.server_app.report.run_page import write_report
from curvfed.strategies.config.parse import parse
from curvfed.strategies.wire.messages import DESCRIBE, TRAIN, Description, Facts

MILLION = 10**6
CLAIM = forged(lambda reply: replace(reply, num_examples=MILLION))


def client_2_claims_a_million(request: Message, handle: Handle) -> Message:
    """A million examples, from its description on."""
    reply = handle(request)
    is_liar = phase_of(request.content) in (DESCRIBE, TRAIN) and partition_of(reply.content) == 2
    return CLAIM(request, lambda message: reply) if is_liar else reply


def test_a_client_that_describes_nearly_all_examples(tmp_path):
    nodes = real_nodes(tmp_path / "nodes", [user_fields(40)] * 3)
    settings = {"method": "fedavg", "dataset": "own", "nodes": nodes, "num_rounds": 1}
    lied = run(tmp_path, "lied", intercept=client_2_claims_a_million, **settings)
    (warning,) = [text for text in lied.summary["warnings"] if "weights=uniform" in text]
    assert warning.startswith(f"client 2 claims {MILLION:,} of ")
    honest = run(tmp_path, "honest", **settings)
    assert "weight" not in honest.summary["warning_keys"]


def test_the_sender_of_a_huge_update(tmp_path, clock):
    settings = QUICK["nodes"] | {"num_rounds": 4, "clients": 5, "method": "flatland"}
    lie = run(tmp_path, intercept=Liar(entry=1e20), **settings)
    (warning,) = [text for text in lie.summary["warnings"] if "far longer" in text]
    assert f"client {LIAR} in 4 rounds" in warning
    assert "falls" not in lie.summary["warning_keys"]


def test_absences_and_losses_of_personal_parameters():
    loss = {"round": 2, "from": 1}
    absence = {"rounds": 3, "reason": "no answer"}
    state = State(lost={1: loss}, absences={2: absence}, train_requests={2: 5})
    described = {0: Description("nodes", "", "accuracy", 2, ("a", "b"), "", "")}
    federation = Federation({0: 1}, described, Facts("nodes", 2, ("a", "b")), {})
    texts = FigureWarnings(parse({"method": "fedavg"}), federation).so_far(state)
    assert texts["lost"] == lost_text(1, loss)
    assert "client 2 in 3 of 5 (no answer)" in texts["absences"]


def test_absences_are_on_the_page(tmp_path, clock):
    def silent(request: Message, handle: Handle) -> Message | None:
        reply = handle(request)
        is_out = phase_of(request.content) == TRAIN and partition_of(reply.content) == 1
        return None if is_out else reply

    done = run(tmp_path, intercept=silent, method="fedavg", num_rounds=2)
    assert done.summary["status"] == "completed with absences"
    assert "client 1 in 2 of 2 (" in html.unescape(write_report(done.path).read_text())


@pytest.mark.parametrize("kind", ["nodes", "graphs"])
def test_classes_of_plus_and_minus_one(kind, tmp_path):
    fields = user_fields()
    signs = 2 * (torch.arange(len(fields["y"])) % 2) - 1
    stored = fields | {"y": signs}
    if kind == "graphs":
        stored = [user_fields(12, seed=seed) | {"y": signs[seed]} for seed in range(20)]
    torch.save(stored, tmp_path / "own.pt")
    done = curvfed.simulate(
        "fedavg",
        data=[tmp_path / "own.pt"] * 2,
        results_dir=tmp_path,
        num_rounds=1,
        embedding_dim=8,
        quiet=True,
        report=False,
    )
    (text,) = [text for text in done.summary["warnings"] if "of one class" in text]
    assert "The label -1 means an unknown class: write 0 in its place if it is a class" in text


@pytest.mark.parametrize(("method", "own_tests"), [("hull", 4), ("fedavg", 0)])
def test_a_model_below_the_most_frequent_class(method, own_tests, tmp_path):
    """All points at which the clients learn a class have the other one where they are scored."""
    parts = [blobs("02", seed=seed, test=own_tests) for seed in range(3)]
    test = blobs("02", seed=9)
    for part in [*parts, test]:
        names = ("y_test",) if part is not test else ("y_train", "y_test")
        for name in names:
            part[name] = np.array(["2", "0"])[np.searchsorted(["0", "2"], part[name])]
    np.savez(tmp_path / "test.npz", **test)
    done = hull_run(
        tmp_path,
        nodes=nodes_of(tmp_path / "nodes", parts),
        test_data="none" if own_tests else str(tmp_path / "test.npz"),
        method=method,
        num_rounds=20,
        share_statistics=True,
    )
    (sentence,) = [text for text in done.summary["warnings"] if "trivial answer" in text]
    scored = "the clients' mean score" if own_tests else "the global accuracy"
    assert sentence.startswith(f"{scored}, 0.0%, is below that of the trivial answer (")

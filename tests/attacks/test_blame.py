"""A member of a secure sum whose messages do not verify: its group names it and has no sum, and the
other groups have theirs."""

import numpy as np
import pytest
from app_runs import Recorder, partition_of, phase_of, run
from errors import refuses
from flwr.app import ConfigRecord, Message

from curvfed.client_app import secure_keys
from curvfed.server_app.run import RoundError
from curvfed.strategies.secure_sum import crypto

pytestmark = pytest.mark.usefixtures("own_home", "clock")

SETTINGS = {
    "method": "fedavg",
    "dataset": "trees",
    "num_rounds": 2,
    "clients": 6,
    "secure_sum": True,
    "secure__group_size": 3,
    "secure__patience": 0,
}
"""Two groups of three."""

FIRST = {0, 1, 2}


def replies_of(run, phase: str) -> list[int]:
    """The numbers of good replies of a phase, one by one."""
    return [int(row["replies"]) for row in run.rounds if row["phase"] == phase]


def without(partitions: set[int]):
    """An interceptor by which these clients never answer in training."""

    def intercept(request: Message, handle):
        reply = handle(request)
        is_gone = partition_of(reply.content) in partitions
        return None if is_gone and phase_of(request.content) == "train" else reply

    return intercept


def is_mean_without(run_of_sums, folder, partitions: set[int], **settings) -> bool:
    """Whether the model is that of a run in the open in which these clients vanish."""
    plain = {key: value for key, value in SETTINGS.items() if not key.startswith("secure")}
    opened = run(folder, "open", intercept=without(partitions), **plain | settings)
    return all(
        np.allclose(run_of_sums.model[name], opened.model[name], rtol=0, atol=1e-6)
        for name in opened.model
    )


def turned(request: Message, handle):
    """What client 2 writes to the others cannot be read."""
    reply = handle(request)
    if phase_of(request.content) == "agree" and partition_of(reply.content) == 2:
        parts = reply.content["parts"]
        parts["values"] = [text[::-1] for text in parts["values"]]
    return reply


def test_texts_that_nobody_can_read(tmp_path, caplog):
    result = run(tmp_path, intercept=turned, **SETTINGS)
    assert "partition 2: its text cannot be decrypted" in caplog.text
    assert replies_of(result, "train") == [3, 3]
    assert is_mean_without(result, tmp_path, FIRST)


def test_nobody_trains_before_the_peers_texts_are_read(tmp_path, monkeypatch):
    trained = []
    fit = secure_keys.Client.fit
    monkeypatch.setattr(
        secure_keys.Client,
        "fit",
        lambda self, number: trained.append(self.partition) or fit(self, number),
    )
    run(tmp_path, intercept=turned, **SETTINGS | {"num_rounds": 1})
    assert sorted(trained) == [2, 3, 4, 5]  # the others cannot read what 2 wrote


def test_a_member_whose_key_is_not_the_rosters(tmp_path, caplog, monkeypatch):
    key = crypto.signing_key
    monkeypatch.setattr(
        crypto, "signing_key", lambda partition: key(99 if partition == 4 else partition)
    )
    crypto._public.cache_clear()
    roster = {partition: key(partition).public_key().public_bytes_raw() for partition in range(6)}
    monkeypatch.setattr(crypto, "roster", lambda partitions: roster)
    result = run(tmp_path, **SETTINGS)
    assert "partition 4: its key is not signed by its key in the roster" in caplog.text
    assert replies_of(result, "train") == [3, 3]
    assert is_mean_without(result, tmp_path, {3, 4, 5})


def test_a_member_that_does_not_sign(tmp_path, caplog, monkeypatch):
    key = secure_keys._signing_key
    monkeypatch.setattr(
        secure_keys, "_signing_key", lambda client: None if client.partition == 1 else key(client)
    )
    result = run(tmp_path, **SETTINGS | {"num_rounds": 1})
    assert "partitions [0, 2] sign their keys and [1] do not" in caplog.text
    assert is_mean_without(result, tmp_path, FIRST, num_rounds=1)


def test_a_vector_that_was_damaged_on_its_way(tmp_path, caplog):
    def damaged(request: Message, handle):
        reply = handle(request)
        if phase_of(request.content) == "train" and partition_of(reply.content) == 5:
            reply.content["parts"]["checksum"] = bytes(32)
        return reply

    result = run(tmp_path, intercept=damaged, **SETTINGS)
    assert "the masked vector of partition 5 was damaged on its way" in caplog.text
    assert is_mean_without(result, tmp_path, {3, 4, 5})


def test_without_any_group_the_run_ends(tmp_path):
    with refuses("no-sum", "[0, 1, 2]", "[3, 4, 5]", error=RoundError):
        run(tmp_path, intercept=without({1, 4}), **SETTINGS)


def test_a_member_that_loses_its_keys_is_asked_again_and_the_sum_is_the_same(tmp_path):
    """As after a restart of its node, in every phase in turn."""
    undisturbed = run(tmp_path, "whole", **SETTINGS)
    for phase in ("agree", "train"):
        lost = []

        def intercept(request: Message, handle, phase: str = phase, lost: list[int] = lost):
            reply = handle(request)
            if phase_of(request.content) == phase and not lost:
                lost.append(partition_of(reply.content))
                if "arrays" in reply.content:
                    del reply.content["arrays"]
                reply.content["parts"] = ConfigRecord({"without-keys": True})
            return reply

        recorder = Recorder()
        restarted = run(
            tmp_path,
            f"lost-{phase}",
            intercept=lambda request, handle, inner=intercept, record=recorder: record(
                request, lambda message: inner(message, handle)
            ),
            **SETTINGS,
        )
        assert lost
        assert restarted.model_bytes == undisturbed.model_bytes
        keys = [request["parts"]["members"] for request in recorder.requests("keys")]
        assert len(keys) == 9  # six, and the group of the one that lost its keys again


@pytest.mark.parametrize("has_worked", [False, True])
def test_a_member_that_is_away_for_a_while(has_worked, tmp_path):
    """Its group waits for it; the numbers are those of a run without the absence."""
    settings = SETTINGS | {"secure__patience": 3600, "clients": 3}
    undisturbed = run(tmp_path, "whole", **settings)
    for phase in ("keys", "agree", "train"):
        silent = [phase] * 2

        def intercept(request: Message, handle, silent: list[str] = silent):
            is_first = silent and phase_of(request.content) == silent[0]
            if not (is_first and request.metadata.dst_node_id == 2):
                return handle(request)
            silent.pop()
            if has_worked:
                handle(request)
            return None

        back = run(tmp_path, f"away-{phase}", intercept=intercept, **settings)
        assert not silent
        assert back.model_bytes == undisturbed.model_bytes
        assert back.summary["status"] == "completed"

"""A member of a secure sum whose messages do not verify is named and left out, and the sum goes on
without it."""

import copy

import numpy as np
import pytest
from app_runs import Recorder, partition_of, phase_of, run
from flwr.app import Message

from curvfed.client_app import secure
from curvfed.server_app.run import RoundError
from curvfed.strategies.secure_sum import crypto

pytestmark = pytest.mark.usefixtures("own_home", "clock")

CLIENTS = 6
SETTINGS = {"method": "fedavg", "dataset": "trees", "num_rounds": 2, "clients": CLIENTS}


def same_as_without(found, folder, partitions: set[int], **settings) -> bool:
    """Whether the model is that of a run in the open in which these clients vanish."""

    def gone(request: Message, handle):
        reply = handle(request)
        return (
            None
            if phase_of(request.content) == "train" and partition_of(reply.content) in partitions
            else reply
        )

    opened = run(folder, "open", intercept=gone, **SETTINGS | settings)
    return all(
        np.allclose(found.model[name], opened.model[name], rtol=0, atol=1e-6)
        for name in opened.model
    )


class Letters:
    """One member's letters to some of the others cannot be read."""

    def __init__(self, sender: int, receivers: set[int]) -> None:
        self.sender, self.receivers = sender, receivers
        self.recorder = Recorder()

    def __call__(self, request: Message, handle):
        reply = self.recorder(request, handle)
        if phase_of(request.content) == "shares" and partition_of(reply.content) == self.sender:
            parts = reply.content["parts"]
            pairs = zip(parts["partitions"], parts["values"], strict=True)
            parts["values"] = [text[::-1] if to in self.receivers else text for to, text in pairs]
        return reply


def phases_of(found, phase: str) -> list[int]:
    """The numbers of good replies of a phase, one by one, without the evaluation after the last
    round."""
    last = max(number for number, row in enumerate(found.rounds) if row["phase"] == "train")
    return [int(row["replies"]) for row in found.rounds[: last + 1] if row["phase"] == phase]


def test_letters_that_nobody_can_read(tmp_path, caplog):
    letters = Letters(2, {0, 1, 3, 4, 5})
    found = run(tmp_path, secure_sum=True, intercept=letters, **SETTINGS)
    assert found.summary["status"] == "completed with absences"
    assert (
        "left out partition 2 for the rest of this run: 5 of its 5 neighbours cannot verify what it"
        " sent" in caplog.text
    )
    assert phases_of(found, "keys") == [6, 5, 5]  # anew without it, and never asked again
    assert phases_of(found, "train") == [5, 5]
    complaints = [
        reply
        for reply in letters.recorder.replies("train")
        if "complaint" in reply.get("parts", {})
    ]
    assert [(set(reply), dict(reply["parts"])) for reply in complaints] == [
        ({"header", "parts"}, {"complaint": [2]})
    ] * 5
    assert same_as_without(found, tmp_path, {2})


def test_letters_that_two_of_five_cannot_read(tmp_path, caplog):
    """The two are left out of this sum alone: their sender could drive out one after the other."""
    letters = Letters(2, {0, 1})
    found = run(tmp_path, secure_sum=True, intercept=letters, **SETTINGS | {"num_rounds": 1})
    assert (
        "left out partition 0 for this sum: it cannot verify what partition 2 sent, and most"
        " others can" in caplog.text
    )
    assert phases_of(found, "keys") == [6, 4]
    assert same_as_without(found, tmp_path, {0, 1}, num_rounds=1)


def test_no_share_of_an_abandoned_attempt_is_revealed(tmp_path):
    letters = Letters(2, {0, 1, 3, 4, 5})
    run(tmp_path, secure_sum=True, intercept=letters, **SETTINGS | {"num_rounds": 1})
    asked = [len(letters.recorder.requests(phase)) for phase in ("confirm", "unmask")]
    # training, and the evaluation of those that did not train, which asks all
    assert asked == [10, 10]
    for request in letters.recorder.requests("confirm"):
        assert 2 not in request["parts"]["survivors"]


def test_training_does_not_start_before_the_letters_are_read(tmp_path, monkeypatch):
    trained = []
    fit = secure.Client.fit
    monkeypatch.setattr(
        secure.Client,
        "fit",
        lambda self, number: trained.append(self.partition) or fit(self, number),
    )
    run(
        tmp_path,
        secure_sum=True,
        intercept=Letters(2, {0, 1, 3, 4, 5}),
        **SETTINGS | {"num_rounds": 1},
    )
    assert sorted(trained) == [0, 1, 2, 3, 4, 5]  # those who complained have not trained before


def test_a_member_whose_key_is_not_the_rosters(tmp_path, caplog, monkeypatch):
    key = crypto.signing_key
    monkeypatch.setattr(
        crypto, "signing_key", lambda partition: key(99 if partition == 4 else partition)
    )
    crypto._public.cache_clear()
    roster = {
        partition: key(partition).public_key().public_bytes_raw() for partition in range(CLIENTS)
    }
    monkeypatch.setattr(crypto, "roster", lambda partitions: roster)
    recorder = Recorder()
    found = run(tmp_path, secure_sum=True, intercept=recorder, **SETTINGS)
    assert "left out partition 4 for the rest of this run: 5 of its 5 neighbours" in caplog.text
    assert phases_of(found, "keys") == [6, 5, 5]
    assert phases_of(found, "shares") == [1, 5, 5]  # five complain, and send no shares
    assert same_as_without(found, tmp_path, {4})


def test_a_member_whose_own_roster_is_off(tmp_path, caplog, monkeypatch):
    roster = crypto.roster

    def off(client, partitions):
        return {p: bytes(32) for p in partitions} if client.partition == 3 else roster(partitions)

    monkeypatch.setattr(secure, "_roster", off)
    found = run(tmp_path, secure_sum=True, **SETTINGS)
    assert (
        "left out partition 3 for the rest of this run: it cannot verify what partition"
        in caplog.text
    )
    assert phases_of(found, "keys") == [6, 5, 5]
    assert same_as_without(found, tmp_path, {3})


def test_a_member_that_does_not_sign(tmp_path, caplog, monkeypatch):
    key = secure._signing_key
    monkeypatch.setattr(
        secure, "_signing_key", lambda client: None if client.partition == 1 else key(client)
    )
    found = run(tmp_path, secure_sum=True, **SETTINGS | {"num_rounds": 1})
    assert (
        "left out partition 1, which does not sign its keys, unlike most: give every node a"
        " signing-key" in caplog.text
    )
    assert phases_of(found, "keys") == [6]
    assert phases_of(found, "shares") == [5]
    assert same_as_without(found, tmp_path, {1}, num_rounds=1)


def test_half_of_the_members_do_not_sign(tmp_path, monkeypatch):
    key = secure._signing_key
    monkeypatch.setattr(
        secure, "_signing_key", lambda client: None if client.partition % 2 else key(client)
    )
    with pytest.raises(
        RoundError,
        match=r"partitions \[0, 2, 4\] sign their keys, \[1, 3, 5\] do not: give every node",
    ):
        run(tmp_path, secure_sum=True, **SETTINGS)


def test_a_signature_of_other_survivors_is_not_counted(tmp_path, caplog, monkeypatch):
    def odd(request, handle):
        reply = handle(request)
        if phase_of(request.content) == "confirm" and partition_of(reply.content) == 5:
            reply.content["parts"]["signature"] = bytes(64)
        return reply

    found = run(tmp_path, secure_sum=True, intercept=odd, **SETTINGS | {"num_rounds": 1})
    assert (
        "dropped the reply of partition 5: partition 5: it did not sign the survivors"
        in caplog.text
    )
    assert phases_of(found, "confirm") == phases_of(found, "unmask") == [5]
    assert same_as_without(found, tmp_path, set(), num_rounds=1)  # its vector is in the sum


def test_more_liars_than_the_sum_can_lose(tmp_path):
    def spoil(request, handle):
        reply = handle(request)
        if (
            phase_of(request.content) == "shares"
            and "parts" in reply.content
            and "values" in reply.content["parts"]
        ):
            parts = reply.content["parts"]
            parts["values"] = [text[::-1] for text in parts["values"]]
        return reply

    recorder = Recorder()

    def both(request, handle):
        return spoil(request, lambda one: recorder(one, handle))

    with pytest.raises(
        RoundError,
        match=r"round 1, train: .*Left out: partition 0: 5 of its 5 neighbours cannot verify",
    ):
        run(tmp_path, secure_sum=True, intercept=both, **SETTINGS)
    assert not recorder.replies("unmask")


def test_a_sum_starts_anew_only_over_most_of_its_members_and_before_they_sign(tmp_path):
    """Once more over some of the members: refused if they are too few, the same, or have signed."""
    heard = {}

    def again(request, handle, clients):
        other = Message(copy.deepcopy(request.content), metadata=request.metadata)
        other.content["parts"]["clients"] = clients
        return handle(other).content["header"]["error"]

    opened = {}

    def intercept(request, handle):
        phase, reply = phase_of(request.content), None
        if phase == "keys":
            opened[request.metadata.dst_node_id] = request
        first = opened.get(request.metadata.dst_node_id)
        if phase == "train":
            mine = partition_of(handle(first).content)  # which refuses: it is the same sum
            for name, clients in {
                "few": [mine, (mine + 1) % 6, (mine + 2) % 6],
                "all": range(6),
            }.items():
                heard[name, mine] = again(first, handle, sorted(clients))
        reply = handle(request)
        if phase == "confirm":
            mine = partition_of(reply.content)
            heard["signed", mine] = again(first, handle, sorted({*range(6)} - {(mine + 1) % 6}))
        return reply

    found = run(tmp_path, secure_sum=True, intercept=intercept, **SETTINGS | {"num_rounds": 1})
    assert found.summary["status"] == "completed"
    assert len(heard) == 3 * CLIENTS
    for case, error in heard.items():
        assert error.startswith("this secure sum was begun before"), case


def test_who_has_no_training_examples_stays_out(tmp_path, monkeypatch, caplog):
    idle = secure.Client.contributes
    monkeypatch.setattr(
        secure.Client,
        "contributes",
        lambda self, target: self.partition not in (1, 4) and idle(self, target),
    )
    recorder = Recorder()
    found = run(
        tmp_path, secure_sum=True, intercept=recorder, min_replies=6, **SETTINGS | {"num_rounds": 1}
    )
    assert phases_of(found, "keys") == [6]
    assert phases_of(found, "shares") == phases_of(found, "train") == [4]
    assert {partition_of(reply) for reply in recorder.replies("evaluate")} == {0, 2, 3, 5}
    assert not [row for row in found.clients if row["phase"] == "keys" and row["dropped"]]
    assert same_as_without(found, tmp_path, {1, 4}, num_rounds=1)

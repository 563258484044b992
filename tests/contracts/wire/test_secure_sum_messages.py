"""What a secure sum refuses, by whom it is said, and that nothing is lost or revealed by it."""

import copy
import math
from collections.abc import Callable

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from errors import refuses
from flwr.app import ConfigRecord
from secure_sums import BASIS, STEPS, Run, entropy, plain_sum, session, vectors

from curvfed.strategies.config.secure_phases import Opening
from curvfed.strategies.errors import SecureSumError
from curvfed.strategies.secure_sum import Session, checksum, crypto
from curvfed.strategies.secure_sum.client import SecureSumClient
from curvfed.strategies.secure_sum.client_state import STEPS as CLIENT_STEPS
from curvfed.strategies.secure_sum.client_state import ClientState
from curvfed.strategies.secure_sum.fixed_point import FixedPoint
from curvfed.strategies.secure_sum.messages import (
    Advertisement,
    BytesByPartition,
    Complaint,
    Confirmation,
    EncryptedShares,
    MaskedInput,
    PublicKeys,
    Survivors,
    public_keys_in,
    public_keys_message,
)
from curvfed.strategies.secure_sum.server import SecureSumServer


def refused(message: str):
    return pytest.raises(SecureSumError, match=message)


def flipped(data: bytes, bit: int) -> bytes:
    return (int.from_bytes(data) ^ 1 << bit).to_bytes(len(data))


def keys_of(mask_key: bytes, encryption_key: bytes) -> PublicKeys:
    return PublicKeys(mask_key=mask_key, encryption_key=encryption_key, signature=b"")


def run_of(num: int = 4, **changes: object) -> Run:
    what = session(num, **changes)
    return Run(what, vectors(what))


# --- The session
# -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"modulus": 1}, "modulus 1: it must be odd, from 3"),
        ({"modulus": 2**61}, "must be odd"),
        ({"modulus": 2**63 + 1}, r"to 2\^63 - 1"),
        ({"length": 0}, "length 0"),
        ({"round": -1}, "round -1"),
        ({"clients": ()}, "a sum over 0 hides"),
        ({"clients": (5,)}, "a sum over 1 hides nothing: it must be over two clients or more"),
        ({"clients": (1, 0)}, "ascending"),
        ({"clients": (1, 1)}, "different"),
        ({"clients": (-1, 1)}, "from 0"),
        ({"clients": (1, 2**32)}, "to 4294967295"),
        (
            {"threshold": 2},
            (
                "secure.threshold = 2 for 4 clients: it must be from 3, more than half of them, to"
                " 4, all of them, or auto"
            ),
        ),
        (
            {"threshold": 5},
            (
                "secure.threshold = 5 for 4 clients: it must be from 3, more than half of them, to"
                " 4, all of them, or auto"
            ),
        ),
        ({"threshold": -1}, "secure.threshold = -1"),
        ({"neighbours": -1}, "neighbours -1"),
        ({"asked": 3}, "3 clients were asked: they must be 4 or more"),
    ],
)
def test_what_is_no_session(changes, message):
    with refused(message):
        session(4, **changes)


@pytest.mark.parametrize(("num", "needed"), [(2, 2), (3, 2), (4, 3), (10, 7), (50, 34)])
def test_the_threshold_is_two_thirds_by_default(num, needed):
    assert session(num).needed == session(num).shares_needed == needed


def test_every_field_of_a_session_tells_it_apart():
    plain = session(10)
    changed = [
        session(10, run="other"),
        session(10, phase="other"),
        session(10, round=2),
        session(10, modulus=97),
        session(10, length=6),
        session(11, clients=(*range(9), 10)),
        session(10, threshold=8),
        session(10, neighbours=4),
        session(10, asked=11),
        session(10, signed=False),
        session(10, members="00"),
        session(10, run="run,sum", phase=""),
    ]
    assert len({one.digest for one in [plain, *changed]}) == len(changed) + 1
    assert session(10, threshold=7, neighbours=9).digest == plain.digest  # the same in other words
    assert session(10, neighbours=3).degree == 4
    assert session(10, neighbours=30).degree == 9


# --- The steps
# -------------------------------------------------------------------------------------------------------


def clients_steps(run: Run) -> dict[str, Callable[[SecureSumClient], object]]:
    return {
        "share keys": lambda client: client.share_keys(run.keys, roster=run.roster),
        "receive shares": lambda client: client.receive_shares({}),
        "mask input": lambda client: client.mask_input(run.values[0], BASIS),
        "confirm": lambda client: client.confirm(run.session.clients, run.signers[0]),
        "unmask": lambda client: client.unmask(run.signatures, run.roster),
    }


@pytest.mark.parametrize("stored", [False, True])
def test_a_clients_steps_come_once_and_in_order(stored):
    what = session(3)
    run = Run(what, vectors(what), stored=stored)
    for place, step in enumerate(CLIENT_STEPS):
        getattr(run, f"_{STEPS[place]}")()
        assert run.clients[0].state.step == step
        for other, take in clients_steps(run).items():
            if other != step:
                reason = (
                    "it was taken before"
                    if CLIENT_STEPS.index(other) < place
                    else f"the next is {step}"
                )
                with refuses(
                    "step-order", f"step {other} of partition 0", reason, error=SecureSumError
                ):
                    take(run.clients[0])
    with refuses("step-order", "step share keys of partition 0", error=SecureSumError):
        run.clients[0].advertise_keys()
    assert run.server.total().tolist() == plain_sum(what, run.values, what.clients)


def test_a_message_of_a_step_that_is_closed_not_yet_open_or_was_taken():
    run, late = run_of(), run_of().until("unmask")  # of equal entropy
    server = run.server
    receive: dict[str, Callable[[int], None]] = {
        "public keys": lambda p: server.receive_keys(p, late.keys[p % 9], late.signing_key(p % 9)),
        "encrypted shares": lambda p: server.receive_shares(p, late.shares[p % 9]),
        "masked inputs": lambda p: server.receive_masked_input(
            p, late.masked[p % 9], late.checks[p % 9], BASIS
        ),
        "signatures": lambda p: server.receive_signature(p, late.signatures[p % 9]),
        "revealed shares": lambda p: server.receive_revealed_shares(p, late.revealed[p % 9]),
    }
    close: dict[str, Callable[[], object]] = {
        "public keys": server.close_keys,
        "encrypted shares": server.close_shares,
        "masked inputs": server.close_masked_inputs,
        "signatures": server.close_signatures,
        "revealed shares": server.total,
    }
    names = list(receive)
    for place, step in enumerate([*names, "done"]):
        assert server.step == step
        for other in names:
            if other != step:
                when = "late" if names.index(other) < place else "early"
                with refuses("step-order", "partition 1", error=SecureSumError):
                    receive[other](1)
                with refuses("step-order", other, when, error=SecureSumError):
                    close[other]()
        if step == "done":
            break
        with refuses("not-a-member", "partition 9", error=SecureSumError):
            receive[step](9)
        for p in run.session.clients:
            receive[step](p)
        with refuses("repeated", "partition 2", error=SecureSumError):
            receive[step](2)
        total = close[step]()
    assert total.tolist() == plain_sum(run.session, run.values, run.session.clients)


def test_who_did_not_take_the_step_before():
    what = session(5)
    run = Run(what, vectors(what), {1: "share"}).until("deliver")
    with refuses("not-a-member", "partition 1", error=SecureSumError):
        run.server.receive_masked_input(1, run.values[1], checksum(run.values[1], what, 1), BASIS)
    assert run.delivered.keys() == {0, 2, 3, 4}


@pytest.mark.parametrize("step", ["keys", "share", "mask", "confirm", "unmask"])
def test_too_few_clients_at_a_step(step):
    what = session(10)
    run = Run(what, vectors(what), dict.fromkeys(range(4), step))
    with refused(r"6 of 10 clients .*; needed 7"):
        run.total()
    assert step == "unmask" or not run.revealed


def test_clients_hold_to_the_threshold_themselves():
    run = run_of(threshold=3).until("keys")
    with refuses("too-few-clients", 2, 4, 3, error=SecureSumError):
        run.clients[0].share_keys({p: run.keys[p] for p in (0, 1)})
    run._share()
    with refuses("too-few-clients", 2, 4, 3, error=SecureSumError):
        run.clients[0].receive_shares({1: run.delivered[0][1]})
    run._deliver()
    run._mask()
    confirm, key = run.clients[0].confirm, run.signers[0]
    with refuses("too-few-clients", 2, 4, 3, error=SecureSumError):
        confirm([0, 1], key)
    with refuses("too-few-clients", 2, 4, error=SecureSumError):
        confirm([0, 1, 1, 0], key)
    with refuses("not-a-survivor", "partition 0", error=SecureSumError):
        confirm([1, 2, 3], key)
    with refused(r"survivors \[7\] who never sent shares"):
        confirm([0, 1, 2, 7], key)
    with refuses("no-signing-key", "partition 0", error=SecureSumError):
        confirm([0, 1, 2])
    run._confirm()  # none of these was an answer
    few = {p: run.signatures[p] for p in (0, 1)}
    for signatures, roster in (
        (few, run.roster),
        ({}, run.roster),
        (run.signatures, None),
        (few | {2: bytes(64)}, run.roster),
    ):
        with refused(r"[12] of 4 clients signed these survivors and .*; needed 3"):
            run.clients[0].unmask(signatures, roster)
    run._unmask()
    assert run.server.total().tolist() == plain_sum(run.session, run.values, run.session.clients)


def test_a_client_without_enough_neighbours():
    what = session(70, neighbours=6)
    run = Run(what, vectors(what)).until("share")
    near = run.bound.graph[0]
    delivered = dict(run.delivered[0])
    for peer in near[:4]:
        del delivered[peer]
    with refuses("too-few-shares", 3, 7, 4, error=SecureSumError):
        run.clients[0].receive_shares(delivered)
    delivered[near[0]] = run.delivered[0][near[0]]
    run.clients[0].receive_shares(delivered)


# --- Malformed messages
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        (np.zeros(4, np.uint64), r"shape \(4,\); it must be \(5,\)"),
        (np.zeros((1, 5), np.uint64), r"shape \(1, 5\)"),
        (np.zeros(5), "a vector of float64; it must be an array of uint64"),
        (np.zeros(5, np.int64), "a vector of int64"),
        ([0] * 5, "a vector of list"),
        (np.full(5, 2**61 - 1, np.uint64), "entries that are not below the modulus"),
        (np.full(5, 2**64 - 1, np.uint64), "entries that are not below the modulus"),
    ],
)
def test_vectors_that_are_refused(vector, message):
    run = run_of().until("deliver")
    with refused(message):
        run.clients[1].mask_input(vector, BASIS)
    with refuses("vector", "partition 1", error=SecureSumError):
        run.server.receive_masked_input(1, vector, bytes(32), BASIS)
    run._mask(), run._confirm(), run._unmask()
    assert run.server.total().tolist() == plain_sum(run.session, run.values, run.session.clients)


def test_keys_that_a_client_refuses():
    run = run_of().until("keys")
    other = SecureSumClient.begin(run.session, 1).advertise_keys()
    member, keys = run.clients[0], dict(run.keys)
    with refused(r"keys of partitions \[9\], who are not among the clients"):
        member.share_keys(keys | {9: other})
    with refuses("other-keys", 0, error=SecureSumError):
        member.share_keys(keys | {0: other})
    with refuses("other-keys", 0, error=SecureSumError):
        member.share_keys({p: keys[p] for p in (1, 2, 3)})
    with refuses("repeated-key", error=SecureSumError):
        member.share_keys(keys | {1: keys[2]})
    with refuses("repeated-key", error=SecureSumError):
        member.share_keys(keys | {1: keys_of(other.mask_key, other.mask_key)})
    for degenerate in (bytes(32), (1).to_bytes(32, "little")):
        with refuses("degenerate-key", "partition 1", error=SecureSumError):
            member.share_keys(keys | {1: keys_of(other.mask_key, degenerate)})
    run._share()


def test_a_degenerate_mask_key_is_refused_by_the_client_that_would_use_it():
    run = run_of(2).until("keys")
    odd = keys_of(bytes(32), run.keys[1].encryption_key)
    run.clients[1].state = run.clients[1].state.model_copy(update={"keys": {1: odd}})
    book = {0: run.keys[0], 1: odd}
    delivered = {p: run.clients[p].share_keys(book).by_partition[1 - p] for p in (0, 1)}
    run.clients[0].receive_shares({1: delivered[1]})
    with refuses("degenerate-key", "partition 1", error=SecureSumError):
        run.clients[0].mask_input(run.values[0], BASIS)


def test_keys_that_the_server_refuses():
    run = run_of().until("keys")
    server = SecureSumServer(run.session, BASIS)
    server.receive_keys(0, run.keys[0], run.signing_key(0))
    for keys in (
        run.keys[0],
        keys_of(run.keys[0].encryption_key, run.keys[1].encryption_key),
        keys_of(run.keys[1].encryption_key, run.keys[1].encryption_key),
    ):
        with refuses("repeated-key", "partition 1", error=SecureSumError):
            server.receive_keys(1, keys)
    for degenerate in (bytes(32), (1).to_bytes(32, "little")):
        with refuses("degenerate-key", "partition 1", error=SecureSumError):
            server.receive_keys(1, keys_of(degenerate, run.keys[1].encryption_key))
        with refuses("degenerate-key", "partition 1", error=SecureSumError):
            server.receive_keys(1, keys_of(run.keys[1].mask_key, degenerate))
    for key in (b"", run.signing_key(2)):
        with refuses("unsigned-keys", "partition 1", error=SecureSumError):
            server.receive_keys(1, run.keys[1], key)
    server.receive_keys(1, run.keys[1], run.signing_key(1))


def test_degenerate_keys_are_those_whose_exchange_fails():
    """All points of the list, their neighbours, what is not reduced, and each with the bit that is
    ignored."""
    secret = X25519PrivateKey.from_private_bytes(b"\x07" * 32)
    listed = [int.from_bytes(key, "little") for key in crypto._DEGENERATE]
    near = (
        {point + step for point in listed for step in (-1, 0, 1)}
        | {*range(20)}
        | {*range(2**255 - 40, 2**255)}
    )
    found = set()
    for point in near - {-1}:
        for top in (0, 2**255):
            key = (point + top).to_bytes(32, "little")
            assert crypto.is_degenerate(key) == (crypto.agree(secret, key, b"") is None), hex(point)
            found |= {point} if crypto.is_degenerate(key) else set()
    assert found == set(listed)
    assert len(found) == 7


def test_shares_that_the_server_refuses():
    what = session(70, neighbours=4)
    run = Run(what, vectors(what), payload=b"n").until("keys")
    good = run.clients[0].share_keys(run.keys, b"payload", run.roster)
    sent = good.by_partition
    near = run.bound.graph[0]
    far = next(p for p in sent if p not in near)
    take = run.server.receive_shares
    for encrypted in (
        {p: text for p, text in sent.items() if p != far},
        {p: text for p, text in sent.items() if p in near[1:]},
        sent | {0: sent[near[0]]},
        sent | {99: sent[near[0]]},
        {},
    ):
        with refuses("receivers", "partition 0", error=SecureSumError):
            take(0, EncryptedShares.of(encrypted, commitment=good.commitment))
    for encrypted in (
        sent | {far: b""},
        sent | {far: sent[near[0]]},
        sent | {near[0]: sent[near[0]] + b"0"},
        {p: bytes(93) for p in near},
    ):
        with refuses("size", "partition 0", error=SecureSumError):
            take(0, EncryptedShares.of(encrypted, commitment=good.commitment))
    take(0, good)


def test_encrypted_shares_that_a_client_refuses():
    run = run_of().until("share")
    member, delivered = run.clients[0], run.delivered[0]
    with refused(r"shares from partitions \[0\]"):
        member.receive_shares(delivered | {0: delivered[1]})
    with refused(r"shares from partitions \[9\]"):
        member.receive_shares(delivered | {9: delivered[1]})
    for odd in (b"", bytes(10), delivered[2], run.delivered[3][1], run.shares[0].by_partition[1]):
        with refuses("peers", "partition 1", error=SecureSumError):
            member.receive_shares(delivered | {1: odd})
    member.receive_shares(delivered)


@pytest.mark.parametrize("text", [b"", bytes(65), b"\xff" * 66])
def test_a_plaintext_that_holds_no_shares(monkeypatch, text):
    run = run_of().until("share")
    monkeypatch.setattr(crypto, "decrypt", lambda *_: text)
    with refuses("peers", "partition 1", error=SecureSumError):
        run.clients[0].receive_shares(run.delivered[0])


def test_a_payload_cannot_be_withheld():
    what = session(70, neighbours=4)
    run = Run(what, vectors(what), payload=b"payload").until("share")
    far = next(p for p in what.clients[1:] if p not in run.bound.graph[0])
    with refuses("peers", f"partition {far}", error=SecureSumError):
        run.clients[0].receive_shares(run.delivered[0] | {far: b""})


def test_revealed_shares_that_the_server_refuses():
    what = session(5)
    run = Run(what, vectors(what), {4: "mask"}).until("confirm")
    good = run.clients[0].unmask(run.signatures, run.roster)
    take = run.server.receive_revealed_shares
    for odd in ({}, {p: good[p] for p in range(4)}, good | {9: good[1]}):
        with refuses("receivers", "partition 0", error=SecureSumError):
            take(0, odd)
    for odd in (good[4], b"", b"x" + good[1][1:]):
        with refuses("share-kind", "partition 0", error=SecureSumError):
            take(0, good | {1: odd})
    with refuses("share-kind", "partition 0", error=SecureSumError):
        take(0, good | {4: good[1]})
    with refuses("share", "partition 0", error=SecureSumError):
        take(0, good | {1: good[1][:-1]})
    with refuses("share", "partition 0", error=SecureSumError):
        take(0, good | {1: b"s" + b"\xff" * 33})
    with refuses("not-a-member", "partition 4", error=SecureSumError):
        take(4, good)
    take(0, good)


# --- Flipped bits and replays
# ----------------------------------------------------------------------------------------


def signed_clients(
    what: Session, **options: object
) -> tuple[dict[int, SecureSumClient], dict[int, bytes]]:
    signers = {p: Ed25519PrivateKey.from_private_bytes(bytes([p + 1] * 32)) for p in what.clients}
    members = {p: SecureSumClient.begin(what, p, signers[p], entropy(p)) for p in what.clients}
    return members, {p: key.public_key().public_bytes_raw() for p, key in signers.items()}


def test_any_bit_of_signed_keys():
    what = session(2)
    members, roster = signed_clients(what)
    keys = {p: member.advertise_keys() for p, member in members.items()}
    for name, value in keys[1].as_parts().items():
        for bit in range(8 * len(value)):
            odd = keys[1].model_copy(update={name: flipped(value, bit)})
            with refuses("unsigned-keys", "partition 1", error=SecureSumError):
                SecureSumServer(what, BASIS).receive_keys(1, odd, roster[1])
            with refused(
                "partition 1: its keys are not signed"
                if odd.signature
                else "only if all members sign"
            ):
                members[0].share_keys(keys | {1: odd}, roster=roster)
    members[0].share_keys(keys, roster=roster)


@pytest.mark.parametrize("name", ["mask_key", "encryption_key"])
def test_any_bit_of_unsigned_keys_ends_in_a_refusal_at_the_peers(name):
    run = run_of(2).until("keys")
    saved = {p: member.state for p, member in run.clients.items()}
    encrypted = run.clients[1].share_keys(run.keys).by_partition[0]
    for bit in range(0, 256, 3):
        odd = run.keys | {
            1: run.keys[1].model_copy(update={name: flipped(getattr(run.keys[1], name), bit)})
        }
        with refuses("other-keys", 1, error=SecureSumError):
            SecureSumClient(saved[1]).share_keys(odd)
        member = SecureSumClient(saved[0])
        member.share_keys(odd)
        with refuses("peers", "partition 1", error=SecureSumError):
            member.receive_shares({1: encrypted})


def test_any_bit_of_encrypted_shares():
    run = run_of(2).until("share")
    delivered = run.delivered[0]
    for bit in range(8 * len(delivered[1])):
        with refuses("peers", "partition 1", error=SecureSumError):
            run.clients[0].receive_shares({1: flipped(delivered[1], bit)})


def test_any_bit_of_a_masked_vector_and_of_its_checksum():
    run = run_of(2, length=3).until("deliver")
    vector = run.clients[0].mask_input(run.values[0], BASIS)
    check = checksum(vector, run.bound, 0)
    for bit in range(64 * 3):
        odd = np.frombuffer(flipped(vector.tobytes(), bit), np.uint64)
        with refused(r"partition 0: (the masked input|a vector)"):
            run.server.receive_masked_input(0, odd, check, BASIS)
    for bit in range(8 * 32):
        with refuses("checksum", "partition 0", error=SecureSumError):
            run.server.receive_masked_input(0, vector, flipped(check, bit), BASIS)
    run.server.receive_masked_input(0, vector, check, BASIS)


def test_any_bit_of_a_commitment():
    run = run_of(2).until("unmask")
    for bit in range(8 * 32):
        server = copy.deepcopy(run.server)
        server._commitments[1] = flipped(run.shares[1].commitment, bit)
        with refuses("unfit-shares", "partition 1", error=SecureSumError):
            server.total()


@pytest.mark.parametrize("dropped", [None, 3])
def test_any_bit_of_revealed_shares_is_refused_or_found_and_named(dropped):
    """Of five clients with threshold three: one answer more than is needed, or two."""
    what = session(5, threshold=3)
    run = Run(what, vectors(what), {} if dropped is None else {dropped: "mask"}).until("confirm")
    answers = {p: run.clients[p].unmask(run.signatures, run.roster) for p in run.survivors}
    expected = plain_sum(what, run.values, run.survivors)
    for client in (2, 3):
        for bit in range(0, 8 * 34, 3):
            server = copy.deepcopy(run.server)
            bad = answers[1] | {client: flipped(answers[1][client], bit)}
            server.receive_revealed_shares(0, answers[0])
            if bit >= 8 * 33:
                with refuses("share-kind", "partition 1", error=SecureSumError):
                    server.receive_revealed_shares(1, bad)
            else:
                server.receive_revealed_shares(1, bad)
            for p in answers.keys() - {0, 1}:
                server.receive_revealed_shares(p, answers[p])
            assert server.total().tolist() == expected
            assert server.suspects == (set() if bit >= 8 * 33 else {1})


def test_a_wrong_share_without_one_to_spare():
    what = session(4)
    run = Run(what, vectors(what), {3: "unmask"})
    run.until("confirm")
    for p in (0, 1, 2):
        answer = run.clients[p].unmask(run.signatures, run.roster)
        run.server.receive_revealed_shares(p, answer if p else answer | {2: flipped(answer[2], 0)})
    with refuses("unfit-shares", "partition 2", error=SecureSumError):
        run.server.total()
    # which makes good for it
    run.server.receive_revealed_shares(3, run.clients[3].unmask(run.signatures, run.roster))
    assert run.server.total().tolist() == plain_sum(what, run.values, what.clients)
    assert run.server.suspects == {0}


def test_two_who_spoil_different_clients_shares_are_both_named():
    what = session(7, threshold=4)
    run = Run(what, vectors(what)).until("confirm")
    for p, member in run.clients.items():
        answer = member.unmask(run.signatures, run.roster)
        spoilt = {0: 2, 1: 5}.get(p)
        run.server.receive_revealed_shares(
            p, answer if spoilt is None else answer | {spoilt: flipped(answer[spoilt], 9)}
        )
    assert run.server.total().tolist() == plain_sum(what, run.values, what.clients)
    assert run.server.suspects == {0, 1}


def test_messages_of_an_earlier_session():
    """Of the same clients, alike but for the run's name."""
    old, new = run_of(run="earlier").until("unmask"), run_of(run="later")
    new.clients = {
        p: SecureSumClient.begin(new.session, p, new.signers[p]) for p in new.session.clients
    }
    new.until("keys")
    with refuses("other-keys", 0, error=SecureSumError):
        new.clients[0].share_keys(old.keys)
    stale = copy.deepcopy(new.server)
    shares = {
        p: member.share_keys(new.keys, roster=new.roster) for p, member in new.clients.items()
    }
    for p in shares:
        new.server.receive_shares(p, shares[p])
        stale.receive_shares(p, old.shares[p] if p == 1 else shares[p])
    delivered, wrong = new.server.close_shares(), stale.close_shares()
    for p in (0, 2, 3):
        with refuses("peers", "partition 1", error=SecureSumError):
            new.clients[p].receive_shares(wrong[p])
    for p, member in new.clients.items():
        member.receive_shares(delivered[p])
        masked = member.mask_input(new.values[p], BASIS)
        with refuses("checksum", f"partition {p}", error=SecureSumError):
            new.server.receive_masked_input(
                p, old.masked[p], checksum(old.masked[p], old.bound, p), BASIS
            )
        new.server.receive_masked_input(p, masked, checksum(masked, new.bound, p), BASIS)
    new.survivors = new.server.close_masked_inputs()
    for p in old.signatures:
        with refuses("unsigned-survivors", f"partition {p}", error=SecureSumError):
            new.server.receive_signature(p, old.signatures[p])
    new._confirm()
    with refuses("too-few-clients", 1, 4, 3, error=SecureSumError):
        new.clients[0].unmask(old.signatures, new.roster)
    for p, member in new.clients.items():
        new.server.receive_revealed_shares(
            p, old.revealed[p] if p == 1 else member.unmask(new.signatures, new.roster)
        )
    assert new.server.total().tolist() == plain_sum(new.session, new.values, new.session.clients)
    assert new.server.suspects == {1}


def test_signed_keys_of_an_earlier_session():
    old, new = session(2, run="earlier"), session(2, run="later")
    before, roster = signed_clients(old)
    members, _ = signed_clients(new)
    keys = {p: member.advertise_keys() for p, member in members.items()}
    stale = before[1].advertise_keys()
    with refuses("peers", "partition 1", error=SecureSumError):
        members[0].share_keys(keys | {1: stale}, roster=roster)
    with refuses("unsigned-keys", "partition 1", error=SecureSumError):
        SecureSumServer(new, BASIS).receive_keys(1, stale, roster[1])


# --- The roster
# ------------------------------------------------------------------------------------------------------


def test_a_server_in_the_middle():
    """It hands out keys of its own in a client's place: seen by the roster, or by nobody."""
    what = session(3)
    members, roster = signed_clients(what)
    keys = {p: member.advertise_keys() for p, member in members.items()}
    for key in (None, Ed25519PrivateKey.generate()):
        swapped = keys | {1: SecureSumClient.begin(what, 1, key).advertise_keys()}
        with refused(
            "partition 1: its keys are not signed by its key in the roster"
            if key
            else "only if all members sign"
        ):
            members[0].share_keys(swapped, roster=roster)
    renamed = keys | {1: keys[1].model_copy(update={"signature": keys[2].signature})}
    with refuses("peers", "partition 1", error=SecureSumError):
        members[0].share_keys(renamed, roster=roster)
    with refuses("peers", "partition 2", error=SecureSumError):
        members[0].share_keys(keys, roster={p: roster[p] for p in (0, 1)})
    with refuses("peers", "partition 2", error=SecureSumError):
        members[0].share_keys(keys, roster=roster | {2: b"no key"})
    members[0].share_keys(keys, roster=roster)


def test_a_sum_without_signatures():
    what = session(4)
    run = Run(what, vectors(what), {2: "mask"}, signed=False)
    assert run.total().tolist() == plain_sum(what, run.values, (0, 1, 3))
    assert not run.bound.signed
    assert set(run.signatures.values()) == {b""}


def test_a_graph_without_signatures_is_complete():
    assert Run(session(70), vectors(session(70)), signed=False).until("keys").bound.degree == 69
    sparse = session(70, neighbours=8)
    with refuses("neighbours", 8, 69, error=SecureSumError):
        Run(sparse, vectors(sparse), signed=False).until("keys")


@pytest.mark.parametrize(("unsigned", "left"), [((0,), (1, 2, 3, 4)), ((0, 1, 2, 4), (3,))])
def test_members_that_do_not_sign_as_most_do_are_left_out(unsigned, left):
    run = run_of(5)
    for p in run.session.clients:
        key = None if p in unsigned else run.signers[p]
        member = SecureSumClient.begin(run.session, p, key)
        run.server.receive_keys(p, member.advertise_keys(), run.signing_key(p))
    assert set(run.server.close_keys()) == set(max(left, unsigned, key=len))
    assert run.server.unlike == set(min(left, unsigned, key=len))


def test_half_of_the_members_do_not_sign():
    run = run_of(4)
    for p in run.session.clients:
        member = SecureSumClient.begin(run.session, p, run.signers[p] if p < 2 else None)
        run.server.receive_keys(p, member.advertise_keys(), run.signing_key(p))
    with refused(
        r"partitions \[0, 1\] sign their keys, \[2, 3\] do not: give every node a signing-key and a"
        r" roster"
    ):
        run.server.close_keys()


# --- Stored clients
# --------------------------------------------------------------------------------------------------


def test_a_stored_client_fits_a_flower_record_and_holds_no_more_than_it_needs():
    run = run_of()
    state = run.clients[0].state
    secret = [state.mask_secret, state.encryption_secret, state.seed]
    for step in STEPS:
        state = run.clients[0].state
        assert ClientState.from_parts(dict(ConfigRecord(state.as_parts()))) == state
        kept = [
            value in (state.mask_secret, state.encryption_secret, state.seed) for value in secret
        ]
        assert kept == {
            "mask": [True, False, True],
            "confirm": [False] * 3,
            "unmask": [False] * 3,
        }.get(step, [True] * 3)
        getattr(run, f"_{step}")()
    state = run.clients[0].state
    assert state == ClientState(session=run.bound, me=0, step="done")
    with refuses("step-order", "step unmask of partition 0", error=SecureSumError):
        SecureSumClient(run.clients[0].state).unmask(run.signatures, run.roster)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"step":"share keys"', '"step":"later"', "step: .*'share keys'"),
        ('"step":"share keys"', '"step":1', "step: "),
        ('"me":0', '"me":true', "me: .* integer"),
        ('"me":0', '"me":0,"more":1', "more: "),
        ('"me":0,', "", "me: Field required"),
        ('"clients":[0,', '"clients":["0",', "session.clients.0: .* integer"),
        ('"clients":[0,', '"clients":[1,', "clients must be different"),
        ('"threshold":0', '"threshold":1', "secure.threshold = 1"),
        ('"signature":""', '"signature":"AAAA"', "signature: .* 64 bytes"),
    ],
)
def test_what_is_no_stored_client(old, new, message):
    stored = SecureSumClient.begin(session(4), 0).state.as_parts()
    assert stored["state"].count(old) == 1
    with refused(message):
        ClientState.from_parts({"state": stored["state"].replace(old, new)})
    with refuses("message", error=SecureSumError):
        ClientState.from_parts({})


def test_a_client_that_is_not_asked():
    with refuses("not-a-member", "partition 4", error=SecureSumError):
        SecureSumClient.begin(session(4), 4)


def test_no_secret_in_any_text():
    run = run_of()
    seen: set[bytes] = set()
    texts = []
    for step in STEPS:
        for member in run.clients.values():
            state = member.state
            seen.update(
                (state.mask_secret, state.encryption_secret, state.seed, *state.shares.values())
            )
            texts += [repr(member), str(member), repr(member.state), str(member.state)]
            for take in clients_steps(run).values():
                try:
                    take(SecureSumClient(state))
                except SecureSumError as error:
                    texts.append(repr(error))
        getattr(run, f"_{step}")()
    texts += [repr(run.server), repr(list(run.shares.values()))]
    seen.discard(b"")
    assert len(seen) > 20
    whole = "\n".join(texts)
    for secret in seen:
        for form in (repr(secret)[2:-1], secret.hex(), str(int.from_bytes(secret))):
            assert form not in whole


# --- The messages
# ----------------------------------------------------------------------------------------------------


def test_messages_fit_flower_records_and_come_back():
    run = run_of().until("unmask")
    messages = [
        *run.keys.values(),
        *run.shares.values(),
        *map(BytesByPartition.of, run.revealed.values()),
    ]
    for message in [*messages, BytesByPartition.of({})]:
        assert type(message).from_parts(dict(ConfigRecord(message.as_parts()))) == message
    assert [BytesByPartition.of(one).by_partition for one in run.revealed.values()] == list(
        run.revealed.values()
    )
    assert public_keys_in(public_keys_message(run.keys)) == run.keys


GOOD_KEYS = {"mask_key": bytes(32), "encryption_key": bytes(32), "signature": b""}
GOOD_SHARES = {"partitions": [1], "values": [b""], "commitment": bytes(32)}


@pytest.mark.parametrize(
    ("kind", "parts", "message"),
    [
        (PublicKeys, {}, "mask_key: .*required; encryption_key: .*required; signature: .*required"),
        (PublicKeys, GOOD_KEYS | {"mask_key": b""}, "mask_key: .* 32 bytes"),
        (PublicKeys, GOOD_KEYS | {"encryption_key": bytes(33)}, "encryption_key: .* 32 bytes"),
        (PublicKeys, GOOD_KEYS | {"signature": b"1"}, "signature: .* 64 bytes"),
        (PublicKeys, GOOD_KEYS | {"mask_key": 1}, "mask_key: .* bytes"),
        (PublicKeys, GOOD_KEYS | {"mask_key": "a" * 32}, "mask_key: .* bytes"),
        (EncryptedShares, GOOD_SHARES | {"commitment": b""}, "commitment: .* 32 bytes"),
        (EncryptedShares, GOOD_SHARES | {"values": b""}, "values: .* list"),
        (EncryptedShares, GOOD_SHARES | {"values": []}, "different lengths"),
        (BytesByPartition, {"partitions": [1, 1], "values": [b"", b""]}, "a partition comes twice"),
        (BytesByPartition, {"partitions": [1, 2], "values": [b""]}, "lists of different lengths"),
        (BytesByPartition, {"partitions": [True], "values": [b""]}, "partitions.0: .* integer"),
        (BytesByPartition, {"partitions": ["1"], "values": [b""]}, "partitions.0: .* integer"),
        (BytesByPartition, {"partitions": [1.0], "values": [b""]}, "partitions.0: .* integer"),
        (BytesByPartition, {"partitions": [1], "values": [b""], "more": 1}, "more: "),
        (
            Opening,
            {"target": "train", "modulus": "97", "length": 5, "clients": [0, 1]},
            "modulus: .* integer",
        ),
        (Survivors, {"survivors": [0, None]}, "survivors.1: .* integer"),
        (Advertisement, GOOD_KEYS, "signing_key: .*required"),
        (Advertisement, GOOD_KEYS | {"signing_key": bytes(33)}, "signing_key: .* 32 bytes"),
        (Confirmation, {"signature": b"1"}, "signature: .* 64 bytes"),
        (Complaint, {"complaint": []}, "complaint: .* at least 1"),
        (Complaint, {"complaint": [True]}, "complaint.0: .* integer"),
        (MaskedInput, BASIS.model_dump() | {"checksum": bytes(31)}, "checksum: .* 32 bytes"),
    ],
)
def test_messages_that_are_refused(kind, parts, message):
    with refused(f"{kind.__name__}: .*{message}"):
        kind.from_parts(parts)


@pytest.mark.parametrize("size", [0, 63, 65, 127, 129])
def test_public_keys_of_a_wrong_size(size):
    with refuses("message", error=SecureSumError):
        public_keys_in(BytesByPartition.of({1: bytes(size)}))


def test_a_refusal_shows_no_value_and_is_short():
    with refused("values") as caught:
        BytesByPartition.from_parts({"partitions": [0], "values": ["secret"] * 1000})
    assert "secret" not in str(caught.value)
    assert len(str(caught.value)) < 300


# --- Fixed point
# -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "terms", "modulus", "message"),
    [
        (0.0, 1, 97, "limit 0.0; it must be positive and finite"),
        (-1.0, 1, 97, "limit -1.0"),
        (math.inf, 1, 97, "limit inf"),
        (math.nan, 1, 97, "limit nan"),
        (1.0, 0, 97, "0 terms; there must be at least one"),
        (1.0, 49, 97, "the modulus 97 is too small for a sum of 49 terms"),
        (1.0, 1, 2**63 + 1, "modulus"),
        (1e-300, 1, 2**61 - 1, "beyond float64"),
    ],
)
def test_what_is_no_fixed_point(limit, terms, modulus, message):
    with refused(message):
        FixedPoint(limit, terms, modulus)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_without_a_residue(value):
    with refuses("not-finite", error=SecureSumError):
        FixedPoint(1.0, 2, 2**61 - 1).encode([0.0, value])

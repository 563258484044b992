"""What a secure sum refuses, by whom it is said, and that nothing is lost or revealed by it."""

import copy
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import ConfigRecord
from secure_sums import STEPS, Run, entropy, plain_sum, session, vectors

from curvfed.strategies.secure_sum import (
    Collector,
    FixedPoint,
    Keys,
    Member,
    SecureSumError,
    Session,
    Shares,
    by_partition,
    by_partition_parts,
    checksum,
    key_book,
    key_book_parts,
)
from curvfed.strategies.secure_sum import keys as crypto


def refused(message: str):
    return pytest.raises(SecureSumError, match=message)


def flipped(data: bytes, bit: int) -> bytes:
    return (int.from_bytes(data) ^ 1 << bit).to_bytes(len(data))


def run_of(num: int = 4, **changes: object) -> Run:
    what = session(num, **changes)
    return Run(what, vectors(what))


# --- The session -----------------------------------------------------------------------------------------------------


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
            "threshold 2 of 4 clients: it must be from 3, more than half of them, to 4, all of them, or 0",
        ),
        (
            {"threshold": 5},
            "threshold 5 of 4 clients: it must be from 3, more than half of them, to 4, all of them, or 0",
        ),
        ({"threshold": -1}, "threshold -1"),
        ({"neighbours": -1}, "neighbours -1"),
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
        session(10, run="run,sum", phase=""),
    ]
    assert len({one.digest for one in [plain, *changed]}) == len(changed) + 1
    assert session(10, threshold=7, neighbours=9).digest == plain.digest  # the same in other words
    assert session(10, neighbours=3).degree == 4
    assert session(10, neighbours=30).degree == 9


# --- The steps -------------------------------------------------------------------------------------------------------


def members_steps(run: Run) -> dict[str, Callable[[Member], object]]:
    return {
        "keys": lambda member: member.keys(),
        "share": lambda member: member.share(run.keys),
        "deliver": lambda member: member.deliver({}),
        "mask": lambda member: member.mask(run.values[0]),
        "unmask": lambda member: member.unmask(run.session.clients),
    }


@pytest.mark.parametrize("stored", [False, True])
def test_a_members_steps_come_once_and_in_order(stored):
    what = session(3)
    run = Run(what, vectors(what), stored=stored)
    for place, step in enumerate([*STEPS, "done"]):
        assert run.members[0].step == step
        for other, take in members_steps(run).items():
            if other != step:
                reason = "it was taken before" if STEPS.index(other) < place else f"the next is {step}"
                with refused(f"step {other} of partition 0 is out of order: {reason}"):
                    take(run.members[0])
        if step != "done":
            getattr(run, f"_{step}")()
    assert run.collector.total().tolist() == plain_sum(what, run.values, what.clients)


def test_a_message_of_a_step_that_is_closed_not_yet_open_or_was_taken():
    run = run_of()
    late = run_of().until("unmask")
    takes: dict[str, Callable[[int], None]] = {
        "keys": lambda p: run.collector.take_keys(p, late.keys[p]),
        "shares": lambda p: run.collector.take_shares(p, late.shares[p]),
        "masked": lambda p: run.collector.take_masked(p, late.masked[p], checksum(late.masked[p], run.session, p)),
        "revealed": lambda p: run.collector.take_revealed(p, late.revealed[p]),
    }
    foreign: dict[str, Callable[[], None]] = {
        "keys": lambda: run.collector.take_keys(9, late.keys[1]),
        "shares": lambda: run.collector.take_shares(9, late.shares[1]),
        "masked": lambda: run.collector.take_masked(9, late.masked[1], bytes(32)),
        "revealed": lambda: run.collector.take_revealed(9, late.revealed[1]),
    }
    closes = {"keys": "close_keys", "shares": "close_shares", "masked": "close_masked"}
    names = list(takes)
    for place, step in enumerate([*names, "done"]):
        assert run.collector.step == step
        for other in names:
            if other != step:
                with refused(f"partition 1: {other} are {'late' if names.index(other) < place else 'early'}"):
                    takes[other](1)
        for other, close in closes.items():
            if other != step:
                with refused(f"{other} are"):
                    getattr(run.collector, close)()
        if step == "done":
            break
        with refused("partition 9 is not in the session"):
            foreign[step]()
        for p in run.session.clients:
            takes[step](p)
        with refused(f"partition 2: {step} that came before"):
            takes[step](2)
        if step in closes:
            getattr(run.collector, closes[step])()
        else:
            run.collector.total()
    assert run.collector.total().tolist() == plain_sum(run.session, run.values, run.session.clients)


def test_what_is_asked_for_too_early():
    run = run_of().until("keys")
    collector = Collector(run.session)
    with refused("keys are still being gathered"):
        _ = collector.keys
    with refused("masked are still being gathered"):
        _ = run.collector.survivors
    with refused("letters are delivered while masked vectors are gathered, not shares"):
        run.collector.delivery(0)
    with refused("revealed are early"):
        run.collector.total()


def test_who_did_not_take_the_step_before():
    what = session(5)
    run = Run(what, vectors(what), {1: "share"}).until("deliver")
    with refused("partition 1 did not take the step before"):
        run.collector.take_masked(1, run.values[1], checksum(run.values[1], what, 1))
    with refused("partition 1 sent no shares"):
        run.collector.delivery(1)


@pytest.mark.parametrize("step", ["keys", "share", "mask", "unmask"])
def test_too_few_clients_at_a_step(step):
    what = session(10)
    run = Run(what, vectors(what), dict.fromkeys(range(4), step))
    with refused(r"6 of 10 clients .*; needed 7"):
        run.total()
    assert step == "unmask" or not run.revealed


def test_members_hold_to_the_threshold_themselves():
    run = run_of().until("keys")
    few = {p: run.keys[p] for p in (0, 1)}
    with refused("2 of 4 clients sent keys; needed 3"):
        run.members[0].share(few)
    run._share()
    letters = run.collector.delivery(0)
    with refused("2 of 4 clients sent shares; needed 3"):
        run.members[0].deliver({1: letters[1]})
    run._deliver()
    run._mask()
    with refused("2 of 4 clients survive; needed 3"):
        run.members[0].unmask([0, 1])
    with refused("2 of 4 clients survive"):
        run.members[0].unmask([0, 1, 1, 0])
    with refused("partition 0 is not among the survivors and reveals nothing"):
        run.members[0].unmask([1, 2, 3])
    with refused(r"survivors \[7\] who never sent shares"):
        run.members[0].unmask([0, 1, 2, 7])
    run._unmask()  # none of these was an answer
    assert run.collector.total().tolist() == plain_sum(run.session, run.values, run.session.clients)


def test_a_member_without_enough_neighbours():
    what = session(70, neighbours=6)
    run = Run(what, vectors(what)).until("share")
    near = what.graph(what.clients)[0]
    letters = run.collector.delivery(0)
    for peer in near[:4]:
        del letters[peer]
    with refused("3 of 7 holders of my shares are left; needed 4"):
        run.members[0].deliver(letters)
    letters[near[0]] = run.collector.delivery(0)[near[0]]
    run.members[0].deliver(letters)


# --- Malformed messages ----------------------------------------------------------------------------------------------


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
        run.members[1].mask(vector)
    with refused(f"partition 1: .*{message}"):
        run.collector.take_masked(1, vector, bytes(32))
    run._mask()
    run._unmask()
    assert run.collector.total().tolist() == plain_sum(run.session, run.values, run.session.clients)


def test_keys_that_a_member_refuses():
    run = run_of().until("keys")
    other = Member.begin(run.session, 1).keys()
    member, keys = run.members[0], dict(run.keys)
    with refused(r"keys of partitions \[9\], who are not among the clients"):
        member.share(keys | {9: other})
    with refused("the keys of partition 0 are not those that it sent"):
        member.share(keys | {0: other})
    with refused("the keys of partition 0 are not those that it sent"):
        member.share({p: keys[p] for p in (1, 2, 3)})
    with refused("the same key twice"):
        member.share(keys | {1: keys[2]})
    with refused("the same key twice"):
        member.share(keys | {1: Keys(other.mask_key, other.mask_key)})
    for degenerate in (bytes(32), (1).to_bytes(32, "little")):
        with refused("partition 1: a degenerate key for sealing"):
            member.share(keys | {1: Keys(other.mask_key, degenerate)})
    run._share()


def test_a_degenerate_mask_key_is_refused_by_the_member_that_would_use_it():
    run = run_of(2).until("keys")
    odd = Keys(bytes(32), run.keys[1].seal_key)
    run.members[1]._state = replace(run.members[1]._state, keys={1: odd})
    book = {0: run.keys[0], 1: odd}
    letters = {p: run.members[p].share(book).sealed[1 - p] for p in (0, 1)}
    run.members[0].deliver({1: letters[1]})
    with refused("partition 1: a degenerate mask key"):
        run.members[0].mask(run.values[0])


def test_keys_that_the_collector_refuses():
    run = run_of().until("keys")
    collector = Collector(run.session)
    collector.take_keys(0, run.keys[0])
    for keys in (
        run.keys[0],
        Keys(run.keys[0].seal_key, run.keys[1].seal_key),
        Keys(run.keys[1].seal_key, run.keys[1].seal_key),
    ):
        with refused("partition 1: a key that was sent before"):
            collector.take_keys(1, keys)
    for degenerate in (bytes(32), (1).to_bytes(32, "little")):
        with refused("partition 1: a degenerate key"):
            collector.take_keys(1, Keys(degenerate, run.keys[1].seal_key))
        with refused("partition 1: a degenerate key"):
            collector.take_keys(1, Keys(run.keys[1].mask_key, degenerate))
    collector.take_keys(1, run.keys[1])


def test_shares_that_the_collector_refuses():
    what = session(70, neighbours=4)
    run = Run(what, vectors(what), note=b"n").until("keys")
    good = run.members[0].share(run.collector.keys, b"note")
    near = what.graph(what.clients)[0]
    far = next(p for p in good.sealed if p not in near)
    take = run.collector.take_shares
    for sealed in (
        {p: letter for p, letter in good.sealed.items() if p != far},
        {p: letter for p, letter in good.sealed.items() if p in near[1:]},
        good.sealed | {0: good.sealed[near[0]]},
        good.sealed | {99: good.sealed[near[0]]},
        {},
    ):
        with refused("partition 0: shares for others than its peers"):
            take(0, replace(good, sealed=sealed))
    for sealed in (
        good.sealed | {far: b""},
        good.sealed | {far: good.sealed[near[0]]},
        good.sealed | {near[0]: good.sealed[near[0]] + b"0"},
        {p: bytes(93) for p in near},
    ):
        with refused("partition 0: shares of a wrong size"):
            take(0, replace(good, sealed=sealed))
    take(0, good)


def test_letters_that_a_member_refuses():
    run = run_of().until("share")
    member, letters = run.members[0], run.collector.delivery(0)
    with refused(r"shares from partitions \[0\]"):
        member.deliver(letters | {0: letters[1]})
    with refused(r"shares from partitions \[9\]"):
        member.deliver(letters | {9: letters[1]})
    for odd in (b"", bytes(10), letters[2], run.collector.delivery(3)[1], run.shares[0].sealed[1]):
        with refused("partition 1: what it sent does not open"):
            member.deliver(letters | {1: odd})
    member.deliver(letters)


@pytest.mark.parametrize("text", [b"", bytes(65), b"\xff" * 66])
def test_a_letter_that_opens_but_holds_no_shares(monkeypatch, text):
    run = run_of().until("share")
    monkeypatch.setattr(crypto, "unseal", lambda *_: text)
    with refused("partition 1: a share"):
        run.members[0].deliver(run.collector.delivery(0))


def test_a_note_cannot_be_withheld():
    what = session(70, neighbours=4)
    run = Run(what, vectors(what), note=b"note").until("share")
    far = next(p for p in what.clients[1:] if p not in what.graph(what.clients)[0])
    with refused(f"partition {far}: what it sent does not open"):
        run.members[0].deliver(run.collector.delivery(0) | {far: b""})


def test_revealed_shares_that_the_collector_refuses():
    what = session(5)
    run = Run(what, vectors(what), {4: "mask"}).until("mask")
    good = run.members[0].unmask(run.collector.survivors)
    take = run.collector.take_revealed
    for odd in ({}, {p: good[p] for p in range(4)}, good | {9: good[1]}):
        with refused("partition 0: shares of others than its peers"):
            take(0, odd)
    for odd in (good[4], b"", b"x" + good[1][1:]):
        with refused("partition 0: a share of the wrong kind"):
            take(0, good | {1: odd})
    with refused("partition 0: a share of the wrong kind"):
        take(0, good | {4: good[1]})
    with refused("partition 0: a share of 32 bytes"):
        take(0, good | {1: good[1][:-1]})
    with refused("partition 0: a share that is no element"):
        take(0, good | {1: b"s" + b"\xff" * 33})
    with refused("partition 4 did not take the step before"):
        take(4, good)
    take(0, good)


# --- Flipped bits and replays ----------------------------------------------------------------------------------------


def signed_members(what: Session, **options: object) -> tuple[dict[int, Member], dict[int, bytes]]:
    signers = {p: Ed25519PrivateKey.from_private_bytes(bytes([p + 1] * 32)) for p in what.clients}
    members = {p: Member.begin(what, p, signers[p], entropy(p)) for p in what.clients}
    return members, {p: key.public_key().public_bytes_raw() for p, key in signers.items()}


def test_any_bit_of_signed_keys():
    what = session(2)
    members, roster = signed_members(what)
    keys = {p: member.keys() for p, member in members.items()}
    for name, value in keys[1].as_parts().items():
        for bit in range(8 * len(value)):
            odd = replace(keys[1], **{name: flipped(value, bit)})
            with refused("partition 1: "):
                Collector(what, roster).take_keys(1, odd)
            with refused("partition 1: its keys are not signed"):
                members[0].share(keys | {1: odd}, roster=roster)
    members[0].share(keys, roster=roster)


@pytest.mark.parametrize("name", ["mask_key", "seal_key"])
def test_any_bit_of_unsigned_keys_ends_in_a_refusal_at_the_peers(name):
    run = run_of(2).until("keys")
    saved = {p: member.save() for p, member in run.members.items()}
    letter = run.members[1].share(run.keys).sealed[0]
    for bit in range(0, 256, 3):
        odd = run.keys | {1: replace(run.keys[1], **{name: flipped(getattr(run.keys[1], name), bit)})}
        with refused("the keys of partition 1 are not those that it sent"):
            Member.load(saved[1]).share(odd)
        member = Member.load(saved[0])
        member.share(odd)
        with refused("partition 1: what it sent does not open"):
            member.deliver({1: letter})


def test_any_bit_of_a_letter():
    run = run_of(2).until("share")
    letters = run.collector.delivery(0)
    for bit in range(8 * len(letters[1])):
        with refused("partition 1: what it sent does not open"):
            run.members[0].deliver({1: flipped(letters[1], bit)})


def test_any_bit_of_a_masked_vector_and_of_its_checksum():
    run = run_of(2, length=3).until("deliver")
    vector = run.members[0].mask(run.values[0])
    check = checksum(vector, run.session, 0)
    for bit in range(64 * 3):
        odd = np.frombuffer(flipped(vector.tobytes(), bit), np.uint64)
        with refused(r"partition 0: a (masked )?vector"):
            run.collector.take_masked(0, odd, check)
    for bit in range(8 * 32):
        with refused("partition 0: a masked vector that is not as it was sent"):
            run.collector.take_masked(0, vector, flipped(check, bit))
    run.collector.take_masked(0, vector, check)


def test_any_bit_of_a_commitment():
    run = run_of(2).until("unmask")
    for bit in range(8 * 32):
        collector = copy.deepcopy(run.collector)
        collector._commitments[1] = flipped(run.shares[1].commitment, bit)
        with refused("partition 1: its shares do not fit together, or not what it sent before"):
            collector.total()


@pytest.mark.parametrize("dropped", [None, 3])
def test_any_bit_of_revealed_shares_is_refused_or_found_and_named(dropped):
    """Of five clients with threshold three: one answer more than is needed, or two."""
    what = session(5, threshold=3)
    run = Run(what, vectors(what), {} if dropped is None else {dropped: "mask"}).until("mask")
    answers = {p: run.members[p].unmask(run.collector.survivors) for p in run.collector.survivors}
    expected = plain_sum(what, run.values, run.collector.survivors)
    for client in (2, 3):
        for bit in range(0, 8 * 34, 3):
            collector = copy.deepcopy(run.collector)
            bad = answers[1] | {client: flipped(answers[1][client], bit)}
            collector.take_revealed(0, answers[0])
            if bit >= 8 * 33:
                with refused("partition 1: a share of the wrong kind"):
                    collector.take_revealed(1, bad)
            else:
                collector.take_revealed(1, bad)
            for p in answers.keys() - {0, 1}:
                collector.take_revealed(p, answers[p])
            assert collector.total().tolist() == expected
            assert collector.suspects == (() if bit >= 8 * 33 else (1,))


def test_a_wrong_share_without_one_to_spare():
    what = session(4)
    run = Run(what, vectors(what), {3: "unmask"})
    run.until("mask")
    for p in (0, 1, 2):
        answer = run.members[p].unmask(run.collector.survivors)
        run.collector.take_revealed(p, answer if p else answer | {2: flipped(answer[2], 0)})
    with refused("partition 2: its shares do not fit together"):
        run.collector.total()
    run.collector.take_revealed(3, run.members[3].unmask(run.collector.survivors))  # which makes good for it
    assert run.collector.total().tolist() == plain_sum(what, run.values, what.clients)
    assert run.collector.suspects == (0,)


def test_two_who_spoil_different_clients_shares_are_both_named():
    what = session(7, threshold=4)
    run = Run(what, vectors(what)).until("mask")
    for p, member in run.members.items():
        answer = member.unmask(what.clients)
        spoilt = {0: 2, 1: 5}.get(p)
        run.collector.take_revealed(p, answer if spoilt is None else answer | {spoilt: flipped(answer[spoilt], 9)})
    assert run.collector.total().tolist() == plain_sum(what, run.values, what.clients)
    assert run.collector.suspects == (0, 1)


def test_messages_of_an_earlier_session():
    """Of the same clients, alike but for the run's name."""
    old, new = run_of(run="earlier").until("unmask"), run_of(run="later")
    new.members = {p: Member.begin(new.session, p) for p in new.session.clients}
    for p, member in new.members.items():
        new.keys[p] = member.keys()
        new.collector.take_keys(p, new.keys[p])
    new.collector.close_keys()
    with refused("the keys of partition 0 are not those that it sent"):
        new.members[0].share(old.keys)
    stale = copy.deepcopy(new.collector)
    shares = {p: member.share(new.keys) for p, member in new.members.items()}
    for p in shares:
        new.collector.take_shares(p, shares[p])
        stale.take_shares(p, old.shares[p] if p == 1 else shares[p])
    new.collector.close_shares(), stale.close_shares()
    for p in (0, 2, 3):
        with refused("partition 1: what it sent does not open"):
            new.members[p].deliver(stale.delivery(p))
    for p, member in new.members.items():
        member.deliver(new.collector.delivery(p))
        masked = member.mask(new.values[p])
        with refused(f"partition {p}: a masked vector that is not as it was sent"):
            new.collector.take_masked(p, old.masked[p], checksum(old.masked[p], old.session, p))
        new.collector.take_masked(p, masked, checksum(masked, new.session, p))
    new.collector.close_masked()
    for p, member in new.members.items():
        new.collector.take_revealed(p, old.revealed[p] if p == 1 else member.unmask(new.session.clients))
    assert new.collector.total().tolist() == plain_sum(new.session, new.values, new.session.clients)
    assert new.collector.suspects == (1,)


def test_signed_keys_of_an_earlier_session():
    old, new = session(2, run="earlier"), session(2, run="later")
    before, roster = signed_members(old)
    members, _ = signed_members(new)
    keys = {p: member.keys() for p, member in members.items()}
    stale = before[1].keys()
    with refused("partition 1: its keys are not signed by its key in the roster"):
        members[0].share(keys | {1: stale}, roster=roster)
    with refused("partition 1: its keys are not signed by its key in the roster"):
        Collector(new, roster).take_keys(1, stale)


# --- The roster ------------------------------------------------------------------------------------------------------


def test_a_server_in_the_middle():
    """It hands out keys of its own in a client's place: seen by the roster, or by nobody."""
    what = session(3)
    members, roster = signed_members(what)
    keys = {p: member.keys() for p, member in members.items()}
    for key in (None, Ed25519PrivateKey.generate()):
        swapped = keys | {1: Member.begin(what, 1, key).keys()}
        with refused("partition 1: its keys are not signed by its key in the roster"):
            members[0].share(swapped, roster=roster)
    renamed = keys | {1: replace(keys[1], signature=keys[2].signature)}
    with refused("partition 1: its keys are not signed"):
        members[0].share(renamed, roster=roster)
    with refused("partition 2 is not in the roster"):
        members[0].share(keys, roster={p: roster[p] for p in (0, 1)})
    with refused("partition 2: its keys are not signed"):
        members[0].share(keys, roster=roster | {2: b"no key"})
    with refused("partition 2: its keys are not signed"):
        Collector(what, {p: roster[p] for p in (0, 1)}).take_keys(2, keys[2])
    members[0].share(keys, roster=roster)


def test_a_sum_with_a_roster():
    what = session(4)
    run = Run(what, vectors(what), {2: "mask"})
    run.members, roster = signed_members(what)
    run.collector = Collector(what, roster)
    run.until("keys")
    for p, member in run.members.items():
        run.collector.take_shares(p, member.share(run.collector.keys, roster=roster))
    run.collector.close_shares()
    run._deliver(), run._mask(), run._unmask()
    assert run.collector.total().tolist() == plain_sum(what, run.values, (0, 1, 3))


# --- Stored members --------------------------------------------------------------------------------------------------


def test_a_stored_member_fits_a_flower_record_and_holds_no_more_than_it_needs():
    run = run_of()
    secret = [value for name, value in run.members[0].save().items() if name in ("mask_secret", "seal_secret", "seed")]
    for step in STEPS:
        stored = dict(ConfigRecord(run.members[0].save()))
        assert Member.load(stored).save() == run.members[0].save()
        kept = [value in stored.values() for value in secret]
        assert kept == {"mask": [True, False, True], "unmask": [False] * 3}.get(step, [True] * 3)
        getattr(run, f"_{step}")()
    tombstone = run.members[0].save()
    assert tombstone["step"] == "done"
    assert not any(tombstone[name] for name in ("mask_secret", "seal_secret", "seed", "note", "shares", "mask_keys"))
    with refused("step unmask of partition 0 is out of order: it was taken before"):
        Member.load(tombstone).unmask(run.session.clients)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"step": "later"}, "a stored state of no known step"),
        ({"step": 1}, "step is of type int; it must be str"),
        ({"me": True}, "me is of type bool; it must be int"),
        ({"seed": "text"}, "seed is of type str; it must be bytes"),
        ({"clients": [0, "1"]}, "clients must be a list of int"),
        ({"clients": (0, 1)}, "clients must be a list of int"),
        ({"share_senders": [1]}, "lists of different lengths"),
        ({"threshold": 1}, "threshold 1"),
        ({"more": 1}, "a message with the parts"),
    ],
)
def test_what_is_no_stored_member(changes, message):
    with refused(message):
        Member.load(run_of().members[0].save() | changes)
    with refused("a message with the parts"):
        Member.load({})


def test_a_client_that_is_not_asked():
    with refused("partition 4 is not among the clients of the session"):
        Member.begin(session(4), 4)


def test_no_secret_in_any_text():
    run = run_of()
    seen: set[bytes] = set()
    texts = []
    for step in STEPS:
        for member in run.members.values():
            stored = member.save()
            seen.update(value for name, value in stored.items() if name in ("mask_secret", "seal_secret", "seed"))
            seen.update(stored["shares"])
            texts += [repr(member), str(member), repr(member._state), str(member._state)]
            for take in members_steps(run).values():
                try:
                    take(Member.load(stored | {"step": stored["step"]}))
                except SecureSumError as error:
                    texts.append(repr(error))
        getattr(run, f"_{step}")()
    texts += [repr(run.collector), repr(list(run.shares.values()))]
    seen.discard(b"")
    assert len(seen) > 20
    whole = "\n".join(texts)
    for secret in seen:
        for form in (repr(secret)[2:-1], secret.hex(), str(int.from_bytes(secret))):
            assert form not in whole


# --- The wire --------------------------------------------------------------------------------------------------------


def test_messages_fit_flower_records_and_come_back():
    run = run_of().until("unmask")
    for keys in run.keys.values():
        assert Keys.from_parts(dict(ConfigRecord(keys.as_parts()))) == keys
    for shares in run.shares.values():
        assert Shares.from_parts(dict(ConfigRecord(shares.as_parts()))) == shares
    for revealed in run.revealed.values():
        assert by_partition(dict(ConfigRecord(by_partition_parts(revealed)))) == revealed
    assert key_book(dict(ConfigRecord(key_book_parts(run.keys)))) == run.keys
    assert by_partition(dict(ConfigRecord(by_partition_parts({})))) == {}


@pytest.mark.parametrize(
    ("read", "parts", "message"),
    [
        (Keys.from_parts, {}, r"parts \[\]; it must have \['mask_key', 'seal_key', 'signature'\]"),
        (Keys.from_parts, {"mask_key": b"", "seal_key": bytes(32), "signature": b""}, "mask_key has 0 bytes"),
        (Keys.from_parts, {"mask_key": bytes(32), "seal_key": bytes(33), "signature": b""}, "seal_key has 33 bytes"),
        (Keys.from_parts, {"mask_key": bytes(32), "seal_key": bytes(32), "signature": b"1"}, "signature has 1 bytes"),
        (Keys.from_parts, {"mask_key": 1, "seal_key": bytes(32), "signature": b""}, "mask_key is of type int"),
        (Shares.from_parts, {"partitions": [1], "values": [b""], "commitment": b""}, "commitment has 0 bytes"),
        (Shares.from_parts, {"partitions": [1], "values": b"", "commitment": bytes(32)}, "values must be a list of b"),
        (Shares.from_parts, {"partitions": [1], "values": [], "commitment": bytes(32)}, "different lengths"),
        (by_partition, {"partitions": [1, 1], "values": [b"", b""]}, "a partition that comes twice"),
        (by_partition, {"partitions": [1, 2], "values": [b""]}, "lists of different lengths"),
        (by_partition, {"partitions": [True], "values": [b""]}, "partitions must be a list of int"),
        (by_partition, {"partitions": ["1"], "values": [b""]}, "partitions must be a list of int"),
        (by_partition, {"partitions": [1], "values": [b""], "more": 1}, "'more'"),
        (key_book, {"partitions": [1], "mask_keys": [bytes(32)], "seal_keys": [], "signatures": [b""]}, "different l"),
        (key_book, {"partitions": [1], "mask_keys": [bytes(9)], "seal_keys": [b""], "signatures": [b""]}, "9 bytes"),
    ],
)
def test_what_does_not_come_back_from_the_wire(read, parts, message):
    with refused(message):
        read(parts)


# --- Fixed point -----------------------------------------------------------------------------------------------------


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
    with refused("numbers that are not finite"):
        FixedPoint(1.0, 2, 2**61 - 1).encode([0.0, value])

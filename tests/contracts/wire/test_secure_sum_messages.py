"""What a secure sum refuses, by whom it is refused, and that nothing is lost or revealed by it."""

import math
from dataclasses import fields

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from errors import refuses
from flwr.app import ConfigRecord
from secure_sums import BASIS, Run, group_of, masked_input, other_basis, plain_sum, session, vectors

from curvfed.strategies.config.masked import HARMLESS, TARGETS, basis_of, sum_number
from curvfed.strategies.config.secure_phases import Opening
from curvfed.strategies.errors import PeerError, SecureSumError
from curvfed.strategies.secure_sum import Group, crypto
from curvfed.strategies.secure_sum.fixed_point import FixedPoint
from curvfed.strategies.secure_sum.member import Member
from curvfed.strategies.secure_sum.messages import (
    Basis,
    BytesByPartition,
    MaskedInput,
    PublicKey,
    public_keys_in,
    public_keys_message,
)
from curvfed.strategies.secure_sum.server import SumOfGroup, unsigned
from curvfed.strategies.wire.messages import Request


def refused(message: str):
    return pytest.raises(SecureSumError, match=message)


def run_of(num: int = 4, **changes: object) -> Run:
    what = session(num, **changes)
    return Run(what, vectors(what))


# The session


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"modulus": 1}, "modulus 1: it must be odd, from 3"),
        ({"modulus": 2**63 + 1}, r"to 2\^63 - 1"),
        ({"length": 0}, "length 0"),
        ({"round": -1}, "round -1"),
        ({"clients": (5,)}, "a sum over 1 hides nothing: it must be over two clients or more"),
        ({"clients": (1, 0)}, "ascending"),
        ({"clients": (-1, 1)}, "from 0"),
        ({"clients": (1, 2**32)}, "to 4294967295"),
    ],
)
def test_what_is_no_session(changes, message):
    with refused(message):
        session(4, **changes)


def test_every_field_changes_the_digest_of_a_session():
    plain = session(10)
    changed = [
        session(10, run="other"),
        session(10, phase="other"),
        session(10, round=2),
        session(10, modulus=97),
        session(10, length=6),
        session(11, clients=(*range(9), 10)),
        session(10, run="run,sum", phase=""),
    ]
    assert len({item.digest for item in [plain, *changed]}) == len(changed) + 1


def test_the_numbers_of_sums_rise():
    places = [(phase, number) for number in range(4) for phase in TARGETS]
    numbers = [sum_number(phase, number) for phase, number in places]
    assert numbers == sorted(set(numbers))
    assert numbers[0] > 0


@pytest.mark.parametrize("name", [item.name for item in fields(Request)])
def test_every_field_of_a_request_is_in_the_basis_or_harmless(name):
    """A server that sends some members another value must get no sum."""
    assert (name in basis_of.__annotations__) != (name in HARMLESS)


def test_every_part_of_a_masked_request_is_in_the_session_or_sealed():
    assert set(Opening.model_fields) == {"modulus", "length", "partitions", "values"}


# The exchange of keys


def test_keys_that_a_member_refuses():
    run = run_of()
    keys = {p: member.announcement(crypto.signing_key(p)) for p, member in run.members.items()}
    member = run.members[0]
    other = Member.begin(run.group, 1).announcement(crypto.signing_key(1))
    roster = run.roster
    with refuses("not-a-member", "[0, 1, 2, 3]", error=SecureSumError):
        member.agree(keys | {9: other}, roster)
    with refuses("not-a-member", error=SecureSumError):
        member.agree({p: keys[p] for p in (0, 1, 2)}, roster)
    with refuses("other-keys", "partition 0", error=SecureSumError):
        member.agree(keys | {0: other}, roster)
    with refuses("repeated-key", error=SecureSumError):
        member.agree(keys | {1: keys[2]}, roster)
    for degenerate in (bytes(32), (1).to_bytes(32, "little")):
        with refuses("peers", "partition 1", error=PeerError):
            member.agree(keys | {1: PublicKey(key=degenerate, signature=b"")}, None)
    agreed = member.agree(keys, roster)
    assert agreed.agree(keys, roster) == agreed
    renewed = Member.begin(run.group, 1).announcement(crypto.signing_key(1))
    with refuses("repeated-keys", error=SecureSumError):
        agreed.agree(keys | {1: renewed}, roster)


def test_a_server_in_the_middle():
    """It hands out keys of its own in a member's place: noticed by the roster, or by nobody."""
    run = run_of(3)
    keys = {p: member.announcement(crypto.signing_key(p)) for p, member in run.members.items()}
    member = run.members[0]
    for key in (None, Ed25519PrivateKey.generate()):
        swapped = keys | {1: Member.begin(run.group, 1).announcement(key)}
        with refuses("peers", "partition 1", error=PeerError):
            member.agree(swapped, run.roster)
    renamed = keys | {1: keys[1].model_copy(update={"signature": keys[2].signature})}
    for shown, roster in (
        (renamed, run.roster),
        (keys, {p: run.roster[p] for p in (0, 2)}),
        (keys, run.roster | {1: b"no key"}),
    ):
        with refuses("peers", "partition 1", error=PeerError) as caught:
            member.agree(shown, roster)
        assert caught.value.partitions == [1]
    member.agree(keys, run.roster)


def test_signed_keys_of_another_run_or_group():
    group = group_of(session(3))
    for other in (Group("earlier", group.members), Group(group.run, (0, 1, 3))):
        members = {p: Member.begin(group, p) for p in group.members}
        keys = {p: item.announcement(crypto.signing_key(p)) for p, item in members.items()}
        stale = Member.begin(other, 1).announcement(crypto.signing_key(1))
        with refuses("peers", "partition 1", error=PeerError):
            members[0].agree(keys | {1: stale}, crypto.roster(group.members))


def test_members_that_see_other_keys_share_no_secret():
    """The keys of all members are in the secret of each pair."""
    what = session(3)
    first = Run(what, vectors(what), signed=False)
    keys = {p: member.announcement(None) for p, member in first.members.items()}
    swapped = keys | {2: Member.begin(first.group, 2).announcement(None)}
    honest = first.members[0].agree(keys, None)
    fooled = first.members[1].agree(swapped, None)
    assert honest.shared_secrets[1] != fooled.shared_secrets[0]


def test_who_signs():
    assert unsigned({0: b"", 1: b""})
    assert not unsigned({0: b"s", 1: b"s"})
    with refuses("unlike-members", "[0, 2] sign", "[1, 3] do not", error=SecureSumError):
        unsigned({0: b"s", 1: b"", 2: b"s", 3: b""})


def test_texts_that_a_member_refuses():
    run = run_of().agreed()
    member = run.members[0]
    sent = run.sent_to(0)
    with refuses("no-text", "partition 1", error=SecureSumError):
        member.read({p: text for p, text in sent.items() if p != 1})
    turned = sent[1][:-1] + bytes([sent[1][-1] ^ 1])
    for wrong in (turned, b"", run.written[2][0], run.written[1][2], run.written[0][1]):
        with refuses("peers", "partition 1", error=PeerError) as caught:
            member.read(sent | {1: wrong})
        assert caught.value.partitions == [1]
    again = Run(run.session, run.values, seed=1).agreed()
    with refuses("peers", error=PeerError):  # of another exchange
        member.read(again.sent_to(0))


SMALL_ORDER = (
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    2**255 - 20,
    2**255 - 19,
    2**255 - 18,
)
"""The points of order 1, 2, 4 and 8 on Curve25519 and its twist; the last two are 0 and 1 again."""


@pytest.mark.parametrize("top", [0, 2**255])
def test_no_secret_comes_of_a_degenerate_key(top):
    """Nor of one with the bit that X25519 ignores; their neighbours are keys like others."""
    secret = X25519PrivateKey.from_private_bytes(b"\x07" * 32)
    near = {point + step for point in SMALL_ORDER for step in (-1, 0, 1)} - {-1}
    for point in near:
        key = (point + top).to_bytes(32, "little")
        assert (crypto.agree(secret, key, b"") is None) == (point in SMALL_ORDER), hex(point)


# Masked vectors


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        (np.zeros(4, np.uint64), r"shape \(4,\); it must be \(5,\)"),
        (np.zeros(5), "a vector of float64; it must be an array of uint64"),
        ([0] * 5, "a vector of list"),
        (np.full(5, 2**61 - 1, np.uint64), "entries that are not below the modulus"),
    ],
)
def test_vectors_that_are_refused(vector, message):
    run = run_of().agreed()
    with refused(message):
        run.members[1].mask(vector, run.session, BASIS)
    with refused(message):
        message_of = masked_input(np.zeros(5, np.uint64), run.session, 1, BASIS)
        run.server.receive(1, vector, message_of)
    run.mask()
    assert run.server.total().tolist() == plain_sum(run.session, run.values)


def test_sums_that_a_member_refuses():
    run = run_of().agreed()
    for other in (session(3), session(5), session(4, run="other")):
        with refuses("other-group", error=SecureSumError):
            run.members[0].mask(run.values[0], other, BASIS)
    with refuses("no-keys", error=SecureSumError):
        Member.begin(run.group, 0).mask(run.values[0], run.session, BASIS)


def test_vectors_that_the_server_refuses():
    run = run_of().agreed().mask()
    server = SumOfGroup(run.session, BASIS)
    masked = run.masked[1]
    with refuses("not-a-member", "partition 9", error=SecureSumError):
        server.receive(9, masked, masked_input(masked, run.session, 9, BASIS))
    changed = masked.copy()
    changed[0] ^= np.uint64(1)
    for vector, what, partition in (
        (changed, run.session, 1),
        (masked, session(4, round=2), 1),
        (masked, run.session, 2),
    ):
        message = masked_input(masked, what, partition, BASIS)
        with refuses("checksum", "partition 1", error=SecureSumError):
            server.receive(1, vector, message)
    for name in Basis.model_fields:
        message = masked_input(masked, run.session, 1, other_basis(name))
        with refuses("other-basis", name, error=SecureSumError):
            server.receive(1, masked, message)
    assert server.missing == [0, 1, 2, 3]
    for p, vector in run.masked.items():
        server.receive(p, vector, masked_input(vector, run.session, p, BASIS))
    assert server.total().tolist() == plain_sum(run.session, run.values)


# Stored members


def test_a_stored_member_fits_a_flower_record():
    run = run_of()
    for member in (run.members[0], run.agreed().members[0]):
        assert Member.from_parts(dict(ConfigRecord(member.as_parts()))) == member


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"me":0', '"me":true', "me: .* integer"),
        ('"me":0', '"me":0,"more":1', "more: "),
        ('"me":0,', "", "me: Field required"),
        ('"members":[0,', '"members":["0",', "group.members.0: .* integer"),
        ('"members":[0,', '"members":[1,', "clients must be different"),
    ],
)
def test_what_is_no_stored_member(old, new, message):
    stored = Member.begin(group_of(session(4)), 0).as_parts()
    assert stored["state"].count(old) == 1
    with refused(message):
        Member.from_parts({"state": stored["state"].replace(old, new)})
    with refuses("message", error=SecureSumError):
        Member.from_parts({})


def test_a_client_that_is_no_member():
    with refuses("not-a-member", "partition 4", error=SecureSumError):
        Member.begin(group_of(session(4)), 4)


def test_no_secret_in_any_text():
    run = run_of().agreed().mask()
    texts = [repr(run.server)]
    secrets = set()
    for member in run.members.values():
        secrets |= {member.secret, *member.shared_secrets.values()}
        texts += [repr(member), str(member)]
    for wrong in (b"", bytes(60)):
        with pytest.raises(SecureSumError) as caught:
            run.members[0].read(dict.fromkeys(run.session.clients, wrong))
        texts.append(repr(caught.value))
    texts += [repr(BytesByPartition.of(written)) for written in run.written.values()]
    assert len(secrets) > 4
    whole = "\n".join(texts)
    for secret in secrets:
        for form in (repr(secret)[2:-1], secret.hex(), str(int.from_bytes(secret))):
            assert form not in whole


# The messages


def test_messages_fit_flower_records_and_come_back():
    run = run_of().agreed()
    written = [BytesByPartition.of(texts) for texts in run.written.values()]
    for message in [*run.keys.values(), *written, BytesByPartition.of({})]:
        assert type(message).from_parts(dict(ConfigRecord(message.as_parts()))) == message
    assert [message.by_partition for message in written] == list(run.written.values())
    assert public_keys_in(public_keys_message(run.keys)) == run.keys


GOOD_KEY = {"key": bytes(32), "signature": b""}
GOOD_OPENING = {"modulus": 97, "length": 5, "partitions": [1], "values": [b""]}


@pytest.mark.parametrize(
    ("kind", "parts", "message"),
    [
        (PublicKey, {}, "key: .*required; signature: .*required"),
        (PublicKey, GOOD_KEY | {"key": b""}, "key: .* 32 bytes"),
        (PublicKey, GOOD_KEY | {"signature": b"1"}, "signature: .* 64 bytes"),
        (PublicKey, GOOD_KEY | {"key": "a" * 32}, "key: .* bytes"),
        (PublicKey, GOOD_KEY | {"more": b""}, "more: "),
        (BytesByPartition, {"partitions": [1, 1], "values": [b"", b""]}, "a partition comes twice"),
        (BytesByPartition, {"partitions": [1, 2], "values": [b""]}, "lists of different lengths"),
        (BytesByPartition, {"partitions": [True], "values": [b""]}, "partitions.0: .* integer"),
        (BytesByPartition, {"partitions": [1], "values": [b""], "more": 1}, "more: "),
        (Opening, GOOD_OPENING | {"modulus": "97"}, "modulus: .* integer"),
        (Opening, GOOD_OPENING | {"asked": 5}, "asked: "),
        (Opening, GOOD_OPENING | {"values": []}, "different lengths"),
        (MaskedInput, BASIS.model_dump() | {"checksum": bytes(31)}, "checksum: .* 32 bytes"),
    ],
)
def test_messages_that_are_refused(kind, parts, message):
    with refused(f"{kind.__name__}: .*{message}"):
        kind.from_parts(parts)


@pytest.mark.parametrize("size", [0, 31, 33, 95, 97])
def test_public_keys_of_a_wrong_size(size):
    with refuses("message", error=SecureSumError):
        public_keys_in(BytesByPartition.of({1: bytes(size)}))


def test_a_refusal_shows_no_value_and_is_short():
    with refused("values") as caught:
        BytesByPartition.from_parts({"partitions": [0], "values": ["secret"] * 1000})
    assert "secret" not in str(caught.value)
    assert len(str(caught.value)) < 300


# Fixed point


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

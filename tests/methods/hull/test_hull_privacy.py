"""What the server sees of a client in a one-shot run, what stays, and what a log tells."""

import logging

import numpy as np
import pytest
from app_runs import Recorder, all_bytes, partition_of, value_names
from hull_nodes import blobs, decoded, expected, hull_run, nodes_of, parts_of, training
from policies import with_policy
from scipy import stats

import curvfed.client_app.secure
import curvfed.client_app.secure_keys
import curvfed.strategies.methods.hull.client
from curvfed.strategies.config.secure_phases import MASKED
from curvfed.strategies.hull.codec import PublicParameters, encode_hulls
from curvfed.strategies.hull.local import local_hulls
from curvfed.strategies.secure_sum.member import Member
from curvfed.strategies.secure_sum.messages import Basis

RARE = 1e-7
"""Masks are fresh in every run: a good one fails a test of them as seldom."""

HEADER = {f"header.{name}" for name in ("run", "phase", "round")}
FACTS = (
    "task",
    "num_features",
    "class_names",
    "shape",
    "bits",
    "own_ends",
    "figures",
    "partitions",
)
ASKED = HEADER | {"header.stamp"} | {f"facts.{name}" for name in FACTS}
TOLD = HEADER | {"header.partition", "header.error", "header.num_examples"}
PARTS = {
    "measure": ({"clients", "digest"}, set()),
    "keys": ({"members"}, {"key", "signature"}),
    "agree": ({"partitions", "values"}, {"partitions", "values"}),
    "hulls": ({"modulus", "length", "partitions", "values"}, {"checksum", *Basis.model_fields}),
    "holders": ({"modulus", "length", "partitions", "values"}, {"checksum", *Basis.model_fields}),
    "evaluate": (set(), set()),
}
"""What travels in the two ways besides header and facts: nothing else can hide a secret."""


def test_the_messages_have_these_values_and_no_others(tmp_path):
    recorder = Recorder()
    nodes = nodes_of(tmp_path / "nodes", [blobs("02"), blobs("02", seed=1)])
    hull_run(tmp_path, nodes=nodes, intercept=recorder)
    for phase, (asked, notes) in PARTS.items():
        arrays = (
            {"arrays.*"} if phase == "evaluate" else set(),
            {"arrays.*"} if phase in ("holders", "hulls", "evaluate") else set(),
        )
        count = {"holders.needed", "holders.counts"} if phase in ("hulls", "evaluate") else set()
        for request in recorder.requests(phase):
            parts = {f"parts.{name}" for name in asked}
            assert value_names(request) == ASKED | count | parts | arrays[0]
        for reply in recorder.replies(phase):
            own = {"metrics.score"} if phase == "evaluate" else set()
            assert (
                value_names(reply) == TOLD | {f"parts.{name}" for name in notes} | arrays[1] | own
            )


def masked(recorder: Recorder) -> dict[int, np.ndarray]:
    return {
        partition_of(reply): reply["arrays"][MASKED].numpy() for reply in recorder.replies("hulls")
    }


def is_uniform(vector: np.ndarray, modulus: int) -> bool:
    """Chi-square over 64 cells, and Kolmogorov and Smirnov's."""
    shares = vector.astype(np.float64) / modulus
    cells = np.bincount((shares * 64).astype(int), minlength=64)
    return min(stats.chisquare(cells).pvalue, stats.kstest(shares, "uniform").pvalue) > RARE


DENSE = {"hull__epsilon": 3.0, "hull__cap": 2000}
"""So few bins that one number is sent for each, most of them 0 before they are masked."""


@pytest.mark.parametrize("settings", [{}, DENSE], ids=["symbols", "dense"])
def test_masked_vectors_are_uniform(settings, tmp_path):
    recorder = Recorder()
    run = hull_run(tmp_path, intercept=recorder, clients=4, **settings)
    modulus, vectors = run.summary["metrics"]["hull_prime"], masked(recorder)
    assert len(vectors) == 4
    for vector in vectors.values():
        assert vector.max() < modulus
        assert is_uniform(vector, modulus)
    assert is_uniform((vectors[0] + vectors[1]) % np.uint64(modulus), modulus)
    # All of them together are the sum, were it not for the masks that each client adds for itself.
    for missing in vectors:  # the sum of all is the sum of the hulls
        others = sum(vector for p, vector in vectors.items() if p != missing)
        assert is_uniform(others % np.uint64(modulus), modulus)


def test_a_vector_without_masks_is_not():
    values = PublicParameters(-1.0, 0.999, 3.0, 2, 4, 2000)
    points, labels = parts_of(4)[0]
    vector = encode_hulls(local_hulls(points, labels, values).hulls, 0, [0, 1], values)
    assert values.is_dense
    assert not is_uniform(vector, values.prime)


def test_data_sets_with_one_sum_look_alike(tmp_path):
    """Clients who exchange their points leave the sum as it is, and nothing tells who had which."""
    parts, seen = [blobs("02", 30), blobs("24", 5, seed=1), blobs("40", 9, seed=2)], []
    for name, order in (("one", (0, 1, 2)), ("two", (1, 2, 0))):
        recorder = Recorder()
        nodes = with_policy(
            tmp_path,
            nodes_of(tmp_path / f"nodes-{name}", [parts[number] for number in order]),
            "[sums]\nmin-holders = 1\n",
        )
        run = hull_run(tmp_path, name, nodes=nodes, intercept=recorder, **DENSE)
        seen.append((run, masked(recorder)))
    (one, first), (two, second) = seen
    assert decoded(one) == decoded(two)
    for name, array in one.model.items():
        np.testing.assert_array_equal(array, two.model[name])
    for partition in range(3):
        assert stats.ks_2samp(first[partition], second[partition]).pvalue > RARE


class Watched:
    """The keys that clients kept between the messages of a run, each as they were stored."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.members: list[Member] = []
        keep = curvfed.client_app.secure.store_member

        def watched(member, state) -> None:
            self.members.append(member)
            keep(member, state)

        for module in (curvfed.client_app.secure, curvfed.client_app.secure_keys):
            monkeypatch.setattr(module, "store_member", watched)

    def secrets(self) -> set[bytes]:
        """Secret keys, secrets of pairs, order numbers."""
        secrets: set[bytes] = set()
        for member in self.members:
            secrets |= {member.secret, member.note}
            if member.keys:
                secrets |= set(member.shared_secrets.values())
        return secrets - {b""}


@pytest.fixture
def watched(monkeypatch) -> Watched:
    return Watched(monkeypatch)


FINE = {"hull__epsilon": 1e-4, "points__num": 100}
"""So many bins that a random number is none of them."""


def test_no_secret_and_no_point_is_in_a_message(watched, tmp_path):
    recorder = Recorder()
    run = hull_run(tmp_path, intercept=recorder, **FINE)
    sent = {
        phase: b"".join(
            all_bytes(record) for record in [*recorder.requests(phase), *recorder.replies(phase)]
        )
        for phase in PARTS
    }
    everything = b"".join(sent.values())
    assert len(watched.secrets()) == 3 + 3 + 3  # keys, pairs, order numbers
    assert not [
        secret
        for secret in watched.secrets()
        if secret in everything or repr(secret)[2:-1].encode() in everything
    ]
    parts = parts_of(3, **FINE)
    hulls = expected(parts, FINE["hull__epsilon"])
    assert decoded(run) == hulls
    numbers = {number for client in hulls for hull in client for number in hull}
    words = np.concatenate(list(masked(recorder).values()))
    assert not numbers & set(words.tolist())
    assert not [number for number in numbers if str(number).encode() in everything]
    # The classifier comes from points, and is sent when all is over.
    before = b"".join(text for phase, text in sent.items() if phase != "evaluate")
    for points, _ in parts:
        assert not [
            value
            for value in points.ravel()
            if value.tobytes() in before or repr(float(value)).encode() in before
        ]


@pytest.mark.usefixtures("clock")
def test_no_log_and_no_file_tells_a_secret_or_a_point(watched, tmp_path, caplog):
    """The disc is so wide that no coordinate looked for can be a time that was measured."""
    wide = {"points__num": 100, "points__curvature": -1e-8, "hull__epsilon": 1.0}
    with caplog.at_level(logging.DEBUG):
        run = hull_run(tmp_path, hull__radius=0.9, hull__cap=4, **wide)
    files = [
        path.read_bytes()
        for path in sorted(run.path.rglob("*"))
        if path.is_file() and path.suffix != ".npz"
    ]
    notes = caplog.text.encode() + b"".join(files)
    assert b"moved onto it" in notes
    for secret in watched.secrets():
        assert secret not in notes
        assert secret.hex().encode() not in notes
        assert repr(secret)[2:-1].encode() not in notes
    values = np.concatenate([points.ravel() for points, _ in parts_of(3, **wide)])
    far = values[np.abs(values) > 1000]
    assert len(far) > 100
    assert not [value for value in far if f"{value:.1f}".encode() in notes]


def test_places_and_slots_are_drawn_afresh(tmp_path, monkeypatch):
    """Eight runs with one order come once in 300,000, clients with the same slots once in 8 million."""
    drawn = []

    def spy(hulls, position, slots, public):
        drawn.append((position, tuple(slots)))
        return encode_hulls(hulls, position, slots, public)

    monkeypatch.setattr(curvfed.strategies.methods.hull.client, "encode_hulls", spy)
    settings = {"points__num": 60, "hull__epsilon": 0.5, "hull__classifier": "depth"}
    for number in range(8):
        hull_run(tmp_path, str(number), **settings)
    orders = [
        tuple(position for position, _ in drawn[start : start + 3]) for start in range(0, 24, 3)
    ]
    assert all(sorted(order) == [0, 1, 2] for order in orders)
    assert len(set(orders)) > 1
    assert {slots for _, slots in drawn} == {(0, 1), (1, 0)}


def test_of_an_error_nobody_foresaw_only_its_kind_leaves(tmp_path, monkeypatch):
    def fail(points, labels, public):
        if len(points) == len(training(blobs("02", 30))[0]):
            raise RuntimeError(f"Qhull: {points[0]}") from None
        return local_hulls(points, labels, public)

    monkeypatch.setattr(curvfed.strategies.methods.hull.client, "local_hulls", fail)
    parts = [blobs("02"), blobs("02", 30), blobs("02", seed=2)]
    run = hull_run(tmp_path, nodes=nodes_of(tmp_path / "nodes", parts))
    (row,) = [row for row in run.clients if row["dropped"]]
    assert row["dropped"] == "RuntimeError at the client; its own log says more"

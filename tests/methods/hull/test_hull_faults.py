"""One-shot runs in which clients vanish, err or are lied to, and messages are damaged or come from
elsewhere."""

import copy
import functools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from app_runs import Fault, Recorder, Run, forged, partition_of, phase_of
from flwr.app import Array, Error, Message, RecordDict
from hull_nodes import PHASES, Silent, chain, decoded, expected, hull_run, parts_of

from curvfed.server_app.run import RoundError
from curvfed.strategies.config.secure_phases import MASKED
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.secure_sum.messages import KEY_TAG, SEED_TAG
from curvfed.strategies.wire.exchange import FederationError

pytestmark = pytest.mark.long  # damage at random, many runs each

FIVE = {"clients": 5, "hull__epsilon": 0.1, "secure__threshold": 3}
TINY = {"clients": 3, "points__num": 60, "hull__epsilon": 0.5}


def hulls_of(gone: tuple[int, ...] = (), **settings) -> list:
    """What a run must decode without those who are gone."""
    parts = parts_of(
        **{key: value for key, value in settings.items() if not key.startswith("secure")}
    )
    return expected(
        [part for number, part in enumerate(parts) if number not in gone], settings["hull__epsilon"]
    )


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("gone", [(1,), (0, 4)], ids=str)
@pytest.mark.parametrize("phase", ["describe", *PHASES])
def test_clients_vanish_and_the_sum_of_the_others_is_exact(phase, gone, tmp_path):
    run = hull_run(tmp_path, intercept=Silent(dict.fromkeys(gone, phase), works=True), **FIVE)
    missed = () if phase in ("confirm", "unmask", "evaluate") else gone
    assert decoded(run) == hulls_of(missed, **FIVE)
    metrics = run.summary["metrics"]
    assert run.summary["status"] == "completed"
    assert run.summary["global_accuracy"] > 0.9
    assert metrics["hulls_exact"] is True
    assert metrics["dropouts"] == (0 if phase in ("describe", "evaluate") else len(gone))
    assert metrics["clients_summed"] == 5 - len(missed)
    assert metrics["nodes_refused"] == (len(gone) if phase == "describe" else 0)
    rows = {row["phase"]: (int(row["replies"]), int(row["dropped"])) for row in run.rounds}
    if phase != "describe":
        assert rows[phase] == (5 - len(gone), len(gone))
        assert rows["evaluate"][0] == 5 - len(gone)
        reasons = {
            row["dropped"]
            for row in run.clients
            if int(row["partition"]) in gone and row["phase"] == phase
        }
        assert reasons == {"no reply within 600 s"}


@pytest.mark.usefixtures("clock")
def test_three_of_ten_vanish_at_three_phases(tmp_path):
    run = hull_run(
        tmp_path,
        clients=10,
        hull__epsilon=0.1,
        intercept=Silent({2: "keys", 5: "shares", 9: "hulls"}),
    )
    assert decoded(run) == hulls_of((2, 5, 9), clients=10, hull__epsilon=0.1)
    assert run.summary["metrics"]["dropouts"] == 3


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("phase", ["keys", "shares", "hulls", "confirm", "unmask"])
def test_fewer_than_the_threshold_end_the_run_and_nothing_is_revealed(phase, tmp_path):
    recorder = Recorder()
    silent = Silent(dict.fromkeys((0, 2, 4), phase))
    with pytest.raises(
        RoundError, match=r"2 of 5 clients .*needed 3.* partition 0: no reply within 600 s"
    ) as caught:
        hull_run(tmp_path, intercept=chain(silent, recorder), **FIVE)
    run = Run(tmp_path / "run")
    assert (run.summary["status"], run.summary["error"]) == ("failed", str(caught.value))
    assert len(recorder.replies("unmask")) == (2 if phase == "unmask" else 0)
    assert not (run.path / "hulls.npz").exists()
    assert not run.model_bytes


@pytest.mark.parametrize("phase", [phase for phase in PHASES if phase != "evaluate"])
def test_a_client_that_errs_is_left_out_with_the_reason(phase, tmp_path):
    def fail(request: Message, handle) -> Message:
        return Message(Error(1, "RuntimeError"), reply_to=request)

    run = hull_run(tmp_path, intercept=Fault(1, fail, phase, 0), **TINY)
    assert decoded(run) == hulls_of(() if phase in ("confirm", "unmask") else (1,), **TINY)
    (row,) = [row for row in run.clients if row["phase"] == phase and row["dropped"]]
    assert (
        row["dropped"]
        == "Flower reports error 1 for this client; its log, or that of the simulation, has details"
    )


class Flip:
    """Flips one bit of one value of the messages with one client; before that it lists what there
    is to flip."""

    def __init__(self, site: tuple | None = None) -> None:
        self.site, self.sites = site, []
        self._nodes: dict[int, int] = {}

    def __call__(self, request, handle):
        node, phase = request.metadata.dst_node_id, phase_of(request.content)
        if phase == "describe":
            self._nodes[node] = partition_of(handle(copy.deepcopy(request)).content)
        if self._nodes[node] != 1:
            return handle(request)
        self._visit(phase, "request", request.content)
        reply = handle(request)
        self._visit(phase, "reply", reply.content)
        return reply

    def _visit(self, phase: str, way: str, content: RecordDict) -> None:
        for record, values in content.items():
            for name in list(values):
                for part in parts_in(values[name]):
                    site = (phase, way, record, name, part)
                    self.sites.append(site)
                    if site == self.site:
                        values[name] = flipped(values[name], part)


def parts_in(value: object) -> Iterator[int]:
    """Which parts of a value are flipped: the entries of a list, an array's header and its
    content.
    """
    if isinstance(value, Array):
        yield from range(2)
    elif isinstance(value, list):
        yield from range(len(value))
    elif value not in ("", b""):
        yield 0


def flipped(value, part: int):
    if isinstance(value, Array):
        at = 20 if part == 0 else len(value.data) - 5
        return Array(value.dtype, value.shape, value.stype, flipped(value.data, at))
    if isinstance(value, list):
        return [flipped(one, 0) if number == part else one for number, one in enumerate(value)]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value ^ 1
    if isinstance(value, float):
        return -value
    if isinstance(value, str):
        return chr(ord(value[0]) ^ 1) + value[1:]
    at = part if part else len(value) // 2
    return value[:at] + bytes([value[at] ^ 4]) + value[at + 1 :] if value else b"\1"


@functools.cache
def sites() -> list[tuple]:
    import tempfile

    flip = Flip()
    with tempfile.TemporaryDirectory() as folder:
        hull_run(Path(folder), intercept=flip, **TINY)
    return flip.sites


@pytest.mark.parametrize("phase", ["describe", *PHASES])
def test_a_flipped_bit_in_any_message_never_makes_a_wrong_hull(phase, tmp_path):
    # whom a damaged letter reaches drops out
    allowed = [hulls_of(gone, **TINY) for gone in ((), (0,), (1,), (2,))]
    for number, site in enumerate(one for one in sites() if one[0] == phase):
        flip = Flip(site)
        try:
            run = hull_run(tmp_path, f"flip-{number}", intercept=flip, **TINY)
        except (RoundError, FederationError, ConfigError):
            assert Run(tmp_path / f"flip-{number}").summary["status"] == "failed"
        else:
            assert decoded(run) in allowed, site


def test_only_one_kind_of_share_of_a_client_is_ever_revealed(tmp_path):
    recorder = Recorder()
    fault = Fault(
        3,
        lambda request, handle: forged(lambda reply: replace(reply, partition=9))(request, handle),
        "hulls",
        0,
    )
    run = hull_run(tmp_path, intercept=chain(fault, recorder), **FIVE)
    assert decoded(run) == hulls_of((3,), **FIVE)
    revealed = [
        dict(zip(reply["parts"]["partitions"], reply["parts"]["values"], strict=True))
        for reply in recorder.replies("unmask")
    ]
    assert len(revealed) == 4
    for shares in revealed:
        assert {partition: share[:1] for partition, share in shares.items()} == {
            partition: KEY_TAG if partition == 3 else SEED_TAG for partition in range(5)
        }


def ask_again(change):
    """Answers of the client itself, which is then asked once more; the second reply is kept in
    `again`."""

    def answer(request: Message, handle) -> Message:
        other = Message(copy.deepcopy(request.content), metadata=request.metadata)
        reply = handle(request)
        change(other.content)
        answer.again.append(handle(other).content)
        return reply

    answer.again = []
    return answer


@pytest.mark.parametrize(
    ("phase", "change", "reason"),
    [
        ("keys", lambda content: None, "this secure sum was begun before"),
        (
            "keys",
            lambda content: content["parts"].update(clients=[0, 1, 2, 3], asked=4),
            "this secure sum was begun",
        ),
        (
            "shares",
            lambda content: None,
            "step share keys of partition 1 is out of order: it was taken before",
        ),
        (
            "hulls",
            lambda content: None,
            "step receive shares of partition 1 is out of order: it was taken before",
        ),
        (
            "confirm",
            lambda content: None,
            "step confirm of partition 1 is out of order: it was taken before",
        ),
        (
            "confirm",
            lambda content: content["parts"].update(survivors=[0, 1]),
            "step confirm of partition 1 is out of",
        ),
        (
            "unmask",
            lambda content: None,
            "step unmask of partition 1 is out of order: it was taken before",
        ),
    ],
)
def test_no_client_answers_twice(phase, change, reason, tmp_path):
    answer = ask_again(change)
    run = hull_run(tmp_path, intercept=Fault(1, answer, phase, 0), **TINY)
    assert decoded(run) == hulls_of(**TINY)
    (again,) = answer.again
    assert set(again) == {"header"}
    assert again["header"]["error"].startswith(reason)


REFUSED = {
    "a shorter vector": (
        "hulls",
        lambda r: replace(r, arrays={MASKED: r.arrays[MASKED][:-1]}),
        "expected uint64",
    ),
    "a longer vector": (
        "hulls",
        lambda r: replace(r, arrays={MASKED: np.append(r.arrays[MASKED], np.uint64(1))}),
        "expected uint64",
    ),
    "another dtype": (
        "hulls",
        lambda r: replace(r, arrays={MASKED: r.arrays[MASKED].astype(np.int64)}),
        "masked is int64",
    ),
    "no residues": (
        "hulls",
        lambda r: replace(r, arrays={MASKED: r.arrays[MASKED] | np.uint64(2**62)}),
        "entries that are not below the modulus",
    ),
    "no vector": ("hulls", lambda r: replace(r, arrays={}), "missing ['masked']"),
    "a vector of another": (
        "hulls",
        lambda r: replace(r, arrays={MASKED: r.arrays[MASKED][::-1].copy()}),
        "the masked input does not fit its checksum",
    ),
    "shares for a stranger": (
        "shares",
        lambda r: replace(r, parts={**r.parts, "partitions": [0, 7]}),
        "shares for others than its peers",
    ),
    "a foreign partition": (
        "shares",
        lambda r: replace(r, partition=7),
        "it has changed its partition-id to 7",
    ),
    "half the keys": (
        "keys",
        lambda r: replace(r, parts={"mask_key": bytes(32)}),
        "encryption_key: Field required",
    ),
    "a degenerate key": (
        "keys",
        lambda r: replace(r, parts={**r.parts, "mask_key": bytes(32)}),
        "a degenerate key",
    ),
    "arrays too many": (
        "keys",
        lambda r: replace(r, arrays={"points": np.zeros(2)}),
        "arrays are not expected",
    ),
    "the run before": (
        "shares",
        lambda r: replace(r, header=replace(r.header, run="other")),
        "the reply has run other",
    ),
}


@pytest.mark.parametrize(
    "told", [{"points": 5.0}, {"points": 1e308, "revealed": 1e308}, {"vertices": -1.0}], ids=str
)
def test_figures_of_hulls_that_are_none_cost_that_client_alone(told, tmp_path):
    run = hull_run(
        tmp_path,
        intercept=Fault(1, forged(lambda r: replace(r, metrics=told)), "measure", 0),
        **TINY,
    )
    assert decoded(run) == hulls_of((1,), **TINY)
    (row,) = [row for row in run.clients if row["phase"] == "measure" and row["dropped"]]
    assert row["partition"] == "1"


@pytest.mark.parametrize("case", REFUSED)
def test_a_reply_that_is_none_is_dropped_with_the_reason(case, tmp_path):
    phase, change, reason = REFUSED[case]
    run = hull_run(tmp_path, intercept=Fault(1, forged(change), phase, 0), **TINY)
    assert decoded(run) == hulls_of((1,), **TINY)
    (row,) = [row for row in run.clients if row["phase"] == phase and row["dropped"]]
    assert reason in row["dropped"]


class Replay:
    """One client's message of a phase is that of an earlier run."""

    def __init__(self, phase: str, way: str, earlier: Recorder) -> None:
        self.phase, self.way = phase, way
        ((self.asked, self.told),) = [
            (asked, told)
            for asked, told in earlier.pairs
            if phase_of(asked) == phase and partition_of(told) == 1
        ]

    def __call__(self, request: Message, handle) -> Message:
        if self.way == "reply":
            handle(request)
            return Message(copy.deepcopy(self.told), reply_to=request)
        return handle(Message(copy.deepcopy(self.asked), metadata=request.metadata))


@pytest.fixture(
    scope="module", params=[{}, {"hull__cap": 500, "hull__epsilon": 3.0}], ids=["symbols", "dense"]
)
def earlier(request, tmp_path_factory) -> tuple[dict, Recorder]:
    """The messages of a run, and its settings."""
    recorder, settings = Recorder(), TINY | request.param
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("curvfed.server_app.app._report", lambda directory: None)
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        hull_run(tmp_path_factory.mktemp("earlier"), intercept=recorder, **settings)
    return settings, recorder


@pytest.mark.parametrize("way", ["request", "reply"])
@pytest.mark.parametrize("phase", PHASES)
def test_a_message_of_an_earlier_run_of_the_same_name(phase, way, earlier, tmp_path):
    settings, recorder = earlier
    try:
        run = hull_run(
            tmp_path, intercept=Fault(1, Replay(phase, way, recorder), phase, 0), **settings
        )
    except RoundError:
        assert (phase, way) in {("shares", "reply"), ("hulls", "reply"), ("unmask", "reply")}
        assert not (tmp_path / "run" / "hulls.npz").exists()
    else:
        assert decoded(run) in (hulls_of(**settings), hulls_of((1,), **settings))

"""One-shot runs in which clients vanish, err or are lied to, and messages are damaged."""

import copy
import functools
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from app_runs import Fault, Recorder, Run, forged, partition_of, phase_of
from flwr.app import Array, Error, Message, RecordDict
from hull_nodes import PHASES, Silent, decoded, expected, hull_run, parts_of

from curvfed.server_app.run import RoundError
from curvfed.strategies.config.secure_phases import MASKED
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.secure_sum.messages import Basis
from curvfed.strategies.wire.exchange import FederationError

pytestmark = pytest.mark.long  # damage at random, many runs each

FIVE = {"clients": 5, "hull__epsilon": 0.1, "secure__patience": 0}
TINY = {"clients": 3, "points__num": 60, "hull__epsilon": 0.5, "secure__patience": 0}


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
@pytest.mark.parametrize("phase", ["measure", "keys", "agree", "hulls"])
def test_clients_that_vanish_end_the_run_and_a_resumed_one_is_the_whole_one(phase, gone, tmp_path):
    """The group sums with all its members."""
    if phase == "measure":  # who cannot take part is in no group
        run = hull_run(tmp_path, intercept=Silent(dict.fromkeys(gone, phase)), **FIVE)
        assert decoded(run) == hulls_of(gone, **FIVE)
        assert run.summary["metrics"]["dropouts"] == len(gone)
        return
    silent = Silent(dict.fromkeys(gone, phase), works=True)
    with pytest.raises(RoundError, match=f"partition {gone[-1]}: no reply within 600 s"):
        hull_run(tmp_path, intercept=silent, **FIVE)
    failed = Run(tmp_path / "run")
    assert failed.summary["status"] == "failed"
    assert not (failed.path / "hulls.npz").exists()
    resumed = hull_run(tmp_path, resume=True, **FIVE)
    assert decoded(resumed) == hulls_of(**FIVE)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("phase", ["keys", "agree", "hulls"])
def test_clients_that_vanish_cost_their_group_alone(phase, tmp_path):
    settings = {"clients": 9, "hull__epsilon": 0.1, "hull__groups": 3, "secure__patience": 0}
    run = hull_run(tmp_path, intercept=Silent({4: phase}), **settings)
    parts = parts_of(9)
    assert decoded(run) == expected([*parts[:3], *parts[6:]], 0.1)
    metrics = run.summary["metrics"]
    assert (metrics["groups_left_out"], metrics["clients_summed"]) == (1, 6)
    assert metrics["dropouts"] == 3


@pytest.mark.usefixtures("clock")
def test_a_group_without_a_count_of_holders_is_not_asked_for_hulls(tmp_path):
    settings = {"clients": 9, "hull__epsilon": 0.1, "hull__groups": 3, "secure__patience": 0}
    silent = Silent({4: "holders"}, works=True)
    run = hull_run(tmp_path, intercept=silent, secure__min_holders=3, **settings)
    metrics = run.summary["metrics"]
    assert (metrics["groups_left_out"], metrics["clients_summed"]) == (1, 6)
    (of_hulls,) = (row for row in run.rounds if row["phase"] == "hulls")
    assert (of_hulls["replies"], of_hulls["dropped"]) == ("6", "3")
    assert "partition 4: no reply within" in of_hulls["reasons"]
    asked = {int(row["partition"]) for row in run.clients if row["phase"] == "hulls"}
    assert asked == {0, 1, 2, 6, 7, 8}


@pytest.mark.parametrize("phase", ["keys", "agree", "hulls"])
def test_a_client_that_errs_ends_the_sum_with_the_reason(phase, tmp_path):
    def fail(request: Message, handle) -> Message:
        return Message(Error(1, "RuntimeError"), reply_to=request)

    with pytest.raises(RoundError, match="partition 1: Flower reports error 1 for this client"):
        hull_run(tmp_path, intercept=Fault(1, fail, phase, 0), **TINY)


class Flip:
    """Flips one bit of one value of one client's messages; first it lists what there is."""

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
    """Parts of a value to flip: the entries of a list, an array's header and content."""
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


def test_a_client_that_is_asked_again_sends_a_vector_of_the_same_hulls(tmp_path):
    again = []

    def twice(request: Message, handle) -> Message:
        other = Message(copy.deepcopy(request.content), metadata=request.metadata)
        reply = handle(request)
        again.append(handle(other).content)
        return reply

    run = hull_run(tmp_path, intercept=Fault(1, twice, "hulls", 0), **TINY)
    assert decoded(run) == hulls_of(**TINY)
    (reply,) = again
    assert set(reply["parts"]) == {"checksum", *Basis.model_fields}


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
        "was damaged on its way",
    ),
    "texts for a stranger": (
        "agree",
        lambda r: replace(r, parts={**r.parts, "partitions": [0, 7]}),
        "it did not write to each of its peers",
    ),
    "a foreign partition": (
        "agree",
        lambda r: replace(r, partition=7),
        "it has changed its partition-id to 7",
    ),
    "no signature": (
        "keys",
        lambda r: replace(r, parts={"key": bytes(32)}),
        "signature: Field required",
    ),
    "a degenerate key": (
        "keys",
        lambda r: replace(r, parts={**r.parts, "key": bytes(32)}),
        "the key of partition 1 is not the one that it sent",
    ),
    "arrays too many": (
        "keys",
        lambda r: replace(r, arrays={"points": np.zeros(2)}),
        "arrays are not expected",
    ),
    "the run before": (
        "agree",
        lambda r: replace(r, header=replace(r.header, run="other")),
        "the reply has run other",
    ),
}
"""Replies that end the sum: the phase, the change, the reason."""


@pytest.mark.parametrize(
    "metrics", [{"points": 5.0}, {"points": 1e308, "revealed": 1e308}, {"vertices": -1.0}], ids=str
)
def test_figures_of_hulls_that_are_none_cost_that_client_alone(metrics, tmp_path):
    run = hull_run(
        tmp_path,
        intercept=Fault(1, forged(lambda r: replace(r, metrics=metrics)), "measure", 0),
        **TINY,
    )
    assert decoded(run) == hulls_of((1,), **TINY)
    (row,) = [row for row in run.clients if row["phase"] == "measure" and row["dropped"]]
    assert row["partition"] == "1"


@pytest.mark.parametrize("case", REFUSED)
def test_a_reply_that_is_none_ends_the_sum_with_the_reason(case, tmp_path):
    phase, change, reason = REFUSED[case]
    with pytest.raises(RoundError, match=re.escape(reason)):
        hull_run(tmp_path, intercept=Fault(1, forged(change), phase, 0), **TINY)


class Replay:
    """One client's message of a phase is that of an earlier run."""

    def __init__(self, phase: str, way: str, earlier: Recorder) -> None:
        self.phase, self.way = phase, way
        ((self.asked, self.reply),) = [
            (asked, reply)
            for asked, reply in earlier.pairs
            if phase_of(asked) == phase and partition_of(reply) == 1
        ]

    def __call__(self, request: Message, handle) -> Message:
        if self.way == "reply":
            handle(request)
            return Message(copy.deepcopy(self.reply), reply_to=request)
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
        assert phase in ("keys", "agree", "hulls")
        assert not (tmp_path / "run" / "hulls.npz").exists()
    else:
        assert decoded(run) in (hulls_of(**settings), hulls_of((1,), **settings))

"""Runs whose parameters travel in 16 bits train with half the bytes."""

from dataclasses import replace

import numpy as np
import pytest
from app_runs import QUICK, Fault, Recorder, Run, forged, phase_of, run
from errors import refuses
from tiers import only

from curvfed.server_app.run import RoundError
from curvfed.strategies.base.learner import Learner
from curvfed.strategies.config.parse import parse
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.codec import decode_arrays, encode_arrays
from curvfed.strategies.wire.precision import Precision

METHODS = [
    *((name, "nodes") for name in ("fedavg", "flatland", "flatland-shared", "fedper", "fed-pub")),
    *((name, "images") for name in ("fedavg", "scaffold", "feddyn", "hyperfed", "spherefed")),
    *((name, "images") for name in ("apple", "fedmtl", "fedopt")),
    ("gcfl", "nodes"),
]
NARROW = ["bfloat16", "float16"]
SHARE = {"bfloat16": 2.0**-8, "float16": 2.0**-11}

both = pytest.mark.parametrize("name", NARROW)


def wire_bytes(records):
    """Bytes of the arrays of messages, with NumPy's headers and without them."""
    arrays = [
        array for content in records for array in content.array_records.get("arrays", {}).values()
    ]
    return sum(len(array.data) for array in arrays), sum(array.numpy().nbytes for array in arrays)


# The average, personal parameters, a second array per parameter, and a fixed head; the others are
# sums of these.
@pytest.mark.parametrize(
    ("method", "task"), only(METHODS, lambda case: case[0] in ("flatland", "scaffold"))
)
def test_it_trains_with_half_the_bytes(method, task, tmp_path):
    settings = {"method": method, "num_rounds": 4, **QUICK[task]}
    if method == "scaffold":  # its own rate takes more rounds
        settings["learning_rate"] = 0.02
    whole = run(tmp_path, "float32", **settings)
    scores = "personal_accuracy_mean"
    for name in NARROW:
        recorder = Recorder()
        result = run(tmp_path, name, wire_precision=name, intercept=recorder, **settings)
        assert result.summary["status"] == "completed"
        assert result.summary["metrics"]["replies_dropped"] == 0
        losses = [float(row["loss"]) for row in result.rounds if row["phase"] == "train"]
        exact = [float(row["loss"]) for row in whole.rounds if row["phase"] == "train"]
        assert losses == pytest.approx(exact, rel=0.2)
        assert losses[-1] < losses[0]
        assert abs(result.summary[scores] - whole.summary[scores]) <= 0.1
        for direction, records in (
            ("bytes_up", recorder.replies("train")),
            ("bytes_down", recorder.requests("train")),
        ):
            with_headers, without = wire_bytes(records)
            assert result.summary[direction] <= 0.51 * whole.summary[direction]
            # The first requests hold fixed parameters too, which are counted and are not among the
            # arrays here.
            fixed = wire_fixed(records)
            assert result.summary[direction] * len(records) == pytest.approx(
                without + fixed, rel=1e-12
            )
            assert with_headers - without <= 192 * sum(
                len(r.array_records.get("arrays", {})) for r in records
            )


def rounded(precision, name, array):
    """An array as the other side has it."""
    return precision.widen(name, precision.narrow(name, array))


def wire_fixed(records):
    return sum(
        array.numpy().nbytes for r in records for array in r.array_records.get("fixed", {}).values()
    )


@both
def test_the_server_keeps_float32_and_sends_it_rounded(name, tmp_path):
    recorder = Recorder()
    result = run(tmp_path, num_rounds=1, method="fedavg", wire_precision=name, intercept=recorder)
    model = result.model
    precision = Precision(name, frozenset(model))
    start, *_ = [decode_arrays(one["arrays"], precision) for one in recorder.requests("train")]
    assert all(array.dtype == np.float32 for array in model.values())
    replies = [decode_arrays(r["arrays"], precision) for r in recorder.replies("train")]
    examples = np.array(
        [r["header"]["num_examples"] for r in recorder.replies("train")], np.float64
    )
    weights = examples / examples.sum()
    unrounded = run(tmp_path, "start", num_rounds=0, method="fedavg").model
    for key, array in model.items():
        step = sum(
            w * (r[key].astype(np.float64) - start[key])
            for w, r in zip(weights, replies, strict=True)
        )
        assert np.array_equal(start[key], rounded(precision, key, unrounded[key]))
        np.testing.assert_allclose(
            array, unrounded[key] + step, rtol=4 * np.finfo(np.float32).eps, atol=1e-9
        )
    assert any((array != rounded(precision, key, array)).any() for key, array in model.items())


@both
def test_steps_of_less_than_the_rounding_add_up(name):
    """Clients that answer with the next number move the model, though their mean rounds back."""
    precision = Precision(name, frozenset({"w"}))
    model, step = np.ones(3, np.float32), np.float32(2 * SHARE[name])
    moved = 0
    for _ in range(8):
        received = rounded(precision, "w", model)
        replies = [received + step * (client == 0) for client in range(4)]
        lost = precision.lost({"w": model})["w"]
        updates = [reply + lost for reply in replies]
        for update, reply in zip(updates[1:], replies[1:], strict=True):
            np.testing.assert_array_equal(update - model, reply - received)
        model = np.mean(updates, axis=0)
        moved += step / 4
        np.testing.assert_allclose(model, 1 + moved, rtol=1e-6)


@pytest.mark.parametrize(
    "settings",
    only(
        [
            {"method": "flatland"},
            {"method": "fedavg", "aggregation": "flower:FedAdam"},
            {"method": "scaffold", **QUICK["images"]},
            {"method": "feddyn", **QUICK["images"]},
        ],
        lambda settings: settings["method"] == "flatland",
    ),
)
def test_interrupted_and_resumed_to_the_bit(settings, tmp_path):
    settings = {"wire_precision": "bfloat16", "num_rounds": 3, "fraction_train": 0.7, **settings}

    def stop(request, handle):
        if request.content.config_records["header"]["round"] == 3:
            raise KeyboardInterrupt
        return handle(request)

    whole = run(tmp_path, "whole", **settings)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "stopped", intercept=stop, **settings)
    assert Run(tmp_path / "stopped").summary["status"] == "failed"
    assert run(tmp_path, "stopped", resume=True, **settings).figures == whole.figures


LARGE = np.full(8, 70_000, np.float32)
FAULTS = {
    "float32": (lambda array: array.astype(np.float32), "first.bias is float32"),
    "marker": (lambda array: array.view([("bfloat16", "<u2")]), "first.bias is [('bfloat16'"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_reply_in_another_form_is_dropped_with_the_reason(fault, tmp_path):
    change, reason = FAULTS[fault]
    answer = forged(
        lambda r: replace(r, arrays={**r.arrays, "first.bias": change(r.arrays["first.bias"])})
    )
    result = run(tmp_path, method="fedavg", wire_precision="float16", intercept=Fault(1, answer))
    assert result.summary["metrics"]["replies_dropped"] == 1
    (dropped,) = [row["dropped"] for row in result.clients if row["dropped"]]
    assert dropped.startswith(reason)


def test_a_request_in_float32_is_refused_by_the_client(tmp_path):
    def widened(request, handle):
        if phase_of(request.content) == "train":
            arrays = decode_arrays(request.content["arrays"])
            request.content["arrays"] = encode_arrays(
                {name: a.astype(np.float32) for name, a in arrays.items()}
            )
        return handle(request)

    with pytest.raises(RoundError, match=r"is float32, expected float16, for wire-precision"):
        run(tmp_path, method="fedavg", wire_precision="float16", intercept=widened)


def test_a_client_whose_parameters_are_too_large_says_which(tmp_path, monkeypatch):
    share = Learner.share

    def too_large(self):
        arrays = share(self)
        return arrays | {"first.bias": LARGE} if self.local.partition == 1 else arrays

    monkeypatch.setattr(Learner, "share", too_large)
    result = run(tmp_path, method="fedavg", wire_precision="float16", num_rounds=1)
    (dropped,) = [
        row["dropped"] for row in result.clients if row["phase"] == "train" and row["dropped"]
    ]
    assert dropped.startswith("first.bias has values of up to 70000")
    wide = run(tmp_path, "wide", method="fedavg", wire_precision="bfloat16", num_rounds=1)
    assert wide.summary["metrics"]["replies_dropped"] == 0


@both
@pytest.mark.parametrize("settings", [{"method": "fedavg", "secure-sum": True}, {"method": "hull"}])
def test_masked_sums_are_refused(name, settings):
    key = "wire-precision-with-secure-sum-with-method"
    with refuses(key, f'"{name}"', "float32", error=ConfigError):
        parse({"wire-precision": name, **settings})

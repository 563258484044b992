"""Runs that start from a file: a run's model, or an encoder of one's own."""

import json

import numpy as np
import pytest
from app_runs import QUICK, Recorder, run
from errors import refuses
from safetensors.numpy import load_file, save_file
from test_resume import interrupted
from tiers import only

from curvfed.server_app.start import warm_start
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.codec import decode_arrays, decode_request
from curvfed.strategies.wire.store import file_parts


def first_sent(recorder):
    return decode_arrays(decode_request(recorder.requests("train")[0]).arrays)


@pytest.mark.parametrize("method", only(["flatland", "fedavg", "scaffold"], "flatland".__eq__))
def test_it_starts_where_the_other_ended_and_resumes_to_the_bit(method, tmp_path):
    before = run(tmp_path, "before", method="flatland" if method == "flatland" else "fedavg")
    settings = {
        "method": method,
        "init_from": str(before.path / "model.safetensors"),
        "num_rounds": 4,
        "dataset": "trees",
    }
    recorder = Recorder()
    whole = run(tmp_path, "whole", intercept=recorder, **settings)
    sent = first_sent(recorder)
    assert all(np.array_equal(sent[name], array) for name, array in before.model.items())
    interrupted(tmp_path, 9, True, name="stopped", **settings)
    assert run(tmp_path, "stopped", resume=True, **settings).figures == whole.figures


def test_an_encoder_without_a_classifier(tmp_path):
    before = run(tmp_path, "before", method="fedavg")
    encoder = {name: array for name, array in before.model.items() if not name.startswith("head.")}
    save_file(encoder, tmp_path / "own.safetensors")
    recorder = Recorder()
    run(tmp_path, method="fedavg", init_from=str(tmp_path / "own.safetensors"), intercept=recorder)
    sent = first_sent(recorder)
    assert all(np.array_equal(sent[name], array) for name, array in encoder.items())
    assert not np.array_equal(sent["head.weight"], before.model["head.weight"])


def test_what_stays_at_the_clients_is_left_out(tmp_path):
    before = run(tmp_path, "before", method="fedavg")
    recorder = Recorder()
    run(
        tmp_path,
        method="fedper",
        init_from=str(before.path / "model.safetensors"),
        intercept=recorder,
    )
    assert not any(name.startswith("head.") for name in first_sent(recorder))


@pytest.mark.parametrize(
    "method",
    only(["feddyn", "fedhpro", "scaffold", "fedopt"], {"scaffold", "fedopt"}.__contains__),
)
def test_the_rest_of_the_servers_state_starts_fresh(method, tmp_path):
    settings = QUICK["images"] | {"method": method}
    cold = Recorder()
    before = run(tmp_path, "before", intercept=cold, **settings)
    warm = Recorder()
    run(
        tmp_path,
        "after",
        intercept=warm,
        init_from=str(before.path / "model.safetensors"),
        **settings,
    )
    fresh = first_sent(cold)
    parameters = {name for name in fresh if name.startswith(("body.", "head."))}
    for name, array in first_sent(warm).items():
        expected = before.model if name in parameters else fresh
        np.testing.assert_array_equal(array, expected[name], err_msg=name)


def test_what_differs_is_named(tmp_path):
    before = run(tmp_path, "before", method="fedavg", embedding_dim=4)
    arrays = load_file(before.path / "model.safetensors") | {"third.bias": np.zeros(3, np.float32)}
    save_file(arrays, tmp_path / "own.safetensors")
    with pytest.raises(
        ConfigError,
        match=r"third.bias \(not in the model\), first.bias \(is \[4\], the model's \[8\]\)",
    ):
        run(tmp_path, "other", method="fedavg", init_from=str(tmp_path / "own.safetensors"))
    for name, text in (("absent", None), ("damaged", "x")):
        if text:
            (tmp_path / name).write_text(text)
        with refuses("unreadable", "init-from", "safetensors", error=ConfigError):
            run(tmp_path, f"of-{name}", method="fedavg", init_from=str(tmp_path / name))
    with pytest.raises(ConfigError, match="starts from no model"):
        run(tmp_path, method="hull", init_from="x", **QUICK["points"])


def test_a_file_that_cannot_be_right_is_refused(tmp_path):
    path, shared = tmp_path / "own.safetensors", {"w": np.zeros(4, np.float32)}

    def start():
        return warm_start(str(path), shared, frozenset(), ("a", "b"))

    content = bytearray(
        b"".join(file_parts({"w": np.arange(4, dtype=np.float32)}, {"curvfed": "{}"}))
    )
    path.write_bytes(content)
    np.testing.assert_array_equal(start()["w"], np.arange(4))
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="it is damaged, or was changed by hand"):
        start()
    for metadata in ("[1]", '{"facts": [1]}', "{"):
        save_file(shared, path, {"curvfed": metadata})
        with refuses("unreadable", "init-from", "safetensors", error=ConfigError):
            start()
    save_file({"w": np.full(4, 1e300)}, path)
    with refuses("other-parameters", "w (", "finite", error=ConfigError):
        start()
    save_file({"w": np.arange(4.0)}, path, {"format": "pt"})
    assert start()["w"].dtype == np.float32


def test_another_order_of_classes_is_another_classifier(tmp_path):
    before = run(tmp_path, "before", method="fedavg")
    about = {"facts": {"class_names": ["b", "a"]}}
    save_file(before.model, tmp_path / "own.safetensors", metadata={"curvfed": json.dumps(about)})
    with refuses("other-parameters", "head.*", "b, a", error=ConfigError):
        run(tmp_path, method="fedavg", init_from=str(tmp_path / "own.safetensors"))

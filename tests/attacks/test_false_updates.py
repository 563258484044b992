"""Clients that send false updates in the open: the run goes on and names them."""

import numpy as np
import pytest
from app_runs import QUICK, partition_of, phase_of, run
from false_replies import LIAR, Liar
from flwr.app import Message

pytestmark = pytest.mark.usefixtures("own_home", "clock")

CLIENTS = 5
SETTINGS = {"num_rounds": 4, "clients": CLIENTS}


class SmallNumbers(Liar):
    """Claims a tiny share of the examples for each class, so that the mean of its sums is huge."""

    def false(self, array):
        return array * 1e-30 if array.ndim == 1 else array


@pytest.mark.parametrize(
    ("method", "liar"),
    [("flatland", Liar(entry=1e20)), ("gcfl", Liar(entry=1e20)), ("fedtgp", SmallNumbers())],
)
def test_a_huge_reply_ends_no_run_and_its_sender_is_named(method, liar, tmp_path, caplog):
    task = "images" if method == "fedtgp" else "nodes"
    settings = QUICK[task] | SETTINGS | {"method": method}
    if method == "fedtgp":
        settings["fedtgp__epochs"] = 10
    lie = run(tmp_path, intercept=liar, **settings)
    assert lie.summary["status"] == "completed"
    assert f"the update of client {LIAR} is" in caplog.text

    def silent(request: Message, handle):
        reply = handle(request)
        is_liar = phase_of(request.content) == "train" and partition_of(reply.content) == LIAR
        return None if is_liar else reply

    absent = run(tmp_path, "absent", intercept=silent, **settings)
    for name, array in absent.model.items():
        np.testing.assert_array_equal(lie.model[name], array, err_msg=name)


def test_a_resumed_run_names_the_same_clients(tmp_path):
    settings = SETTINGS | {"method": "fedavg", "update_bound": 5.0}
    undisturbed = run(tmp_path, "whole", intercept=Liar(factor=-10.0), **settings)
    run(tmp_path, "parts", intercept=Liar(factor=-10.0), **settings | {"num_rounds": 2})
    parts = run(tmp_path, "parts", resume=True, intercept=Liar(factor=-10.0), **settings)
    assert parts.model_bytes.partition(b"}}")[2] == undisturbed.model_bytes.partition(b"}}")[2]
    assert parts.summary["warnings"] == undisturbed.summary["warnings"]

"""What holds for every method of rounds: its messages hold what docs/methods.md says, and a run that
was stopped and resumed has the bits of one that was not."""

import shutil

import pytest
from app_runs import EVERY, QUICK, Recorder, run
from method_page import check_fixed, check_parameters
from tiers import only

from curvfed.client_app.clients_in_memory import forget_all
from curvfed.strategies.base.aggregation import Aggregation
from curvfed.strategies.base.learner import Learner
from curvfed.strategies.base.method import ONE_SHOT
from curvfed.strategies.config.build_method import learner_class, server_class
from curvfed.strategies.methods import METHODS

IN_ROUNDS = [name for name, row in METHODS.items() if row.aggregation != ONE_SHOT]
FIRST = {name: next(task for task in QUICK if task in row.tasks) for name, row in METHODS.items()}
"""Each method has its state on every task; the others of its tasks are left to the longer tier."""
CASES = only(
    [(name, task) for name, task in EVERY if name in IN_ROUNDS],
    lambda case: FIRST[case[0]] == case[1],
)
ROUNDS = 3
OWN = {"adafgl": {"fine_tune_epochs": 3}, "ditto": {"optimizer": "adam"}}
"""Settings that save time, or by which a client keeps all that it may keep."""


@pytest.mark.parametrize(("method", "task"), CASES)
def test_messages_are_those_of_the_page_and_a_resumed_run_has_the_same_bits(method, task, tmp_path):
    """Two of three clients train in a round, so that what the others keep is older than what they
    are sent. What lies on the disk once a client of the last round has trained and written its
    state is what a run that is killed then leaves; it is gone on with."""
    settings = QUICK[task] | {
        "method": method,
        "num_rounds": ROUNDS,
        "local_epochs": 1,
        "fraction_train": 0.67,
        "fine_tune_every": 2,
    }
    settings |= OWN.get(method, {})
    recorder, killed = Recorder(), tmp_path / "killed"

    def record(request, handle):
        reply = recorder(request, handle)
        header = request.content["header"]
        if (header["round"], header["phase"], killed.exists()) == (ROUNDS, "train", False):
            shutil.copytree(tmp_path / "run", killed / "run")
        return reply

    whole = run(tmp_path, intercept=record, **settings)
    check_parameters(method, whole, recorder)
    check_fixed(method, recorder)
    assert whole.summary["status"] == "completed"
    forget_all()
    resumed = run(killed, resume=True, **settings)
    figures, expected = resumed.figures, whole.figures
    for table in (figures, expected):
        # What is fixed may be sent once more, or once less: the bytes of messages are no result.
        for row in table["rounds"] + table["clients"]:
            row.pop("bytes_down", None)
        table["summary"].pop("bytes_down")
    assert figures == expected


@pytest.mark.parametrize("method", IN_ROUNDS)
def test_the_parts_of_a_row_are_there(method):
    row = METHODS[method]
    assert issubclass(learner_class(row), Learner)
    assert issubclass(server_class(row), Aggregation)
    assert set(row.settings) <= set(row.tasks)

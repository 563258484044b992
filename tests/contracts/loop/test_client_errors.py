"""An error in a client's half: its traceback once in the log, and the cause of the run's error."""

import pickle
import traceback

import pytest

import curvfed
from curvfed.client_app import failures
from curvfed.server_app.run import RoundError
from curvfed.strategies.base.learner import Learner


class Broken(Learner):
    def train(self):
        raise ZeroDivisionError(f"a fault of client {self.local.partition}")


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_a_client_is_logged_once_and_is_the_cause(workers, tmp_path, capfd):
    keys = {"num_supernodes": 4, "num_rounds": 2, "report": False, "quiet": True}
    with pytest.raises(RoundError, match="ZeroDivisionError at the client") as error:
        curvfed.simulate(
            Broken, dataset="trees", workers=workers, results_dir=tmp_path, run_name="r", **keys
        )
    cause = error.value.__cause__
    assert isinstance(cause, ZeroDivisionError)
    assert "a fault of client" in str(cause)
    logged = "".join(capfd.readouterr())
    assert logged.count("Traceback (most recent call last)") == 1
    assert "test_client_errors.py" in logged
    assert "test_client_errors.py" in "".join(traceback.format_exception(cause))


def test_an_error_of_another_process_has_its_frames_as_text():
    def fail():
        {}["absent"]

    kept = []
    failures.receive_failures(kept.append)
    try:
        fail()
    except KeyError as error:
        failures.note_failure(error, "partition 0")
    failures.receive_failures(failures.log_once)
    sent = pickle.dumps(kept[0].portable)
    error = pickle.loads(sent).received.error
    assert isinstance(error, KeyError)
    assert "in fail" in str(error.__cause__)

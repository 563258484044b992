"""An error of a client in a worker: one traceback in the log, the cause of the run's."""

import threading
import traceback

import pytest

import curvfed
from curvfed.server_app.run import RoundError
from curvfed.strategies.base.learner import Learner


@pytest.fixture(autouse=True)
def no_threads(monkeypatch):
    """Other tests may have left threads, with which no worker is forked."""
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.main_thread()])


def fails(learner, folder, text):
    keys = {"num_supernodes": 4, "num_rounds": 2, "report": False, "quiet": True, "workers": 2}
    with pytest.raises(RoundError, match=text) as error:
        curvfed.simulate(learner, dataset="trees", results_dir=folder, run_name="r", **keys)
    return error.value.__cause__


class Broken(Learner):
    def train(self):
        raise ZeroDivisionError(f"a fault of client {self.local.partition}")


def test_an_error_of_a_client_is_logged_once_and_is_the_cause(tmp_path, capfd):
    cause = fails(Broken, tmp_path, "ZeroDivisionError at the client")
    assert isinstance(cause, ZeroDivisionError)
    assert "a fault of client" in str(cause)
    logged = "".join(capfd.readouterr())
    assert logged.count("Traceback (most recent call last)") == 1
    assert "test_errors_in_workers.py" in logged
    assert "test_errors_in_workers.py" in "".join(traceback.format_exception(cause))


class Unpicklable(Learner):
    def train(self):
        class LocalError(Exception):
            pass

        raise LocalError("a fault that only its function knows")


def test_an_error_that_cannot_be_pickled_ends_no_worker(tmp_path, capfd):
    cause = fails(Unpicklable, tmp_path, "LocalError at the client")
    assert "LocalError: a fault that only" in str(cause)
    assert "has ended" not in "".join(capfd.readouterr())

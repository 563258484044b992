"""An error in a client's half: its traceback once in the log, and the cause of the run's error."""

import pickle
import traceback

import pytest

import curvfed
from curvfed.client_app import failures
from curvfed.server_app.run import RoundError
from curvfed.strategies.base.aggregation import Average
from curvfed.strategies.base.learner import Learner
from curvfed.strategies.base.method import Method
from curvfed.strategies.base.training import TrainingError


class Broken(Learner):
    def train(self):
        raise ZeroDivisionError(f"a fault of client {self.local.partition}")


def test_an_error_of_a_client_is_logged_once_and_is_the_cause(tmp_path, capfd):
    keys = {"num_supernodes": 4, "num_rounds": 2, "report": False, "quiet": True}
    with pytest.raises(RoundError, match="ZeroDivisionError at the client") as error:
        curvfed.simulate(Broken, dataset="trees", results_dir=tmp_path, run_name="r", **keys)
    cause = error.value.__cause__
    assert isinstance(cause, ZeroDivisionError)
    assert "a fault of client" in str(cause)
    assert (cause.__traceback__, cause.__context__) == (None, None)
    logged = "".join(capfd.readouterr())
    assert logged.count("Traceback (most recent call last)") == 1
    assert "test_client_errors.py" in logged
    assert "test_client_errors.py" in "".join(traceback.format_exception(cause))


def local_error():
    class LocalError(Exception):
        pass

    return LocalError("a fault that only its function knows")


class Demanding(Exception):
    """Its arguments are not those of `Exception`."""

    def __init__(self, place, *, value):
        super().__init__(f"{place} is {value}")


class Mute(Exception):
    """Without a text."""

    def __str__(self):
        raise LookupError("no text")


UNPICKLED = {
    "local": (local_error, "LocalError: a fault that only its function knows"),
    "argument": (lambda: ValueError("a value", lambda: 0), "ValueError: ('a value', <function"),
    "arguments": (lambda: Demanding("w", value=3), "Demanding: w is 3"),
    "mute": (lambda: Mute(lambda: 0), "Mute: "),
}


@pytest.mark.parametrize("name", UNPICKLED)
def test_an_error_that_cannot_be_pickled_reaches_the_server_as_text(name):
    make, text = UNPICKLED[name]
    failure = failures.Failure(make(), "partition 0", "its traceback", (), 1)
    error = pickle.loads(pickle.dumps(failure.portable)).error
    assert type(error) is RuntimeError
    assert text in str(error)


class BrokenAtFirst(Learner):
    """Client 0 has a fault in round 1, and all clients refuse round 2."""

    def train(self):
        if self.round == 2:
            raise TrainingError("refused")
        if self.local.partition == 0:
            raise ZeroDivisionError("a fault of client 0")
        return super().train()


class Failing(Average):
    """A server with a fault of its own."""

    def aggregate(self, replies):
        raise LookupError("a fault of the server")


@pytest.mark.parametrize(
    ("server", "kind", "text"),
    [(Average, RoundError, "0 good replies of 3"), (Failing, LookupError, "a fault of the server")],
)
def test_a_failure_is_no_cause_of_an_error_of_the_server_or_of_another_round(
    server, kind, text, tmp_path
):
    row = Method("with a fault", space="flat", client=BrokenAtFirst, server=server)
    keys = {"num_supernodes": 3, "num_rounds": 2, "report": False, "quiet": True}
    with pytest.raises(kind, match=text) as error:
        curvfed.simulate(row, dataset="trees", results_dir=tmp_path, run_name="r", **keys)
    assert error.value.__cause__ is None


def test_an_error_of_another_process_has_its_frames_as_text():
    def fail():
        {}["absent"]

    kept = []
    failures.receive_failures(kept.append)
    try:
        fail()
    except KeyError as error:
        failures.note_failure(error, "partition 0", 1)
    failures.receive_failures(failures.log_once)
    sent = pickle.dumps(kept[0].portable)
    error = pickle.loads(sent).received.error
    assert isinstance(error, KeyError)
    assert "in fail" in str(error.__cause__)

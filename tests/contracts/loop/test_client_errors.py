"""An error in a client's half: its traceback once in the log, and the cause of the run's error."""

import pytest

import curvfed
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
    if workers > 1:
        assert "test_client_errors.py" in str(cause.__cause__)

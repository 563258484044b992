"""A learner may take as many epochs as its class says, and a run without keys says so."""

import pytest

import curvfed
import curvfed.server_app.app
from curvfed.server_app.run import RoundError
from curvfed.strategies.base.learner import Learner, run_epochs

TREES = {"dataset": "trees", "num_supernodes": 2, "num_rounds": 2, "report": False, "quiet": True}


class OnePassMore(Learner):
    def train(self):
        return run_epochs(self, self.local.config.local_epochs * (2 if self.round == 1 else 1))


class TwoPasses(OnePassMore):
    epoch_factor = 2


def test_a_learner_takes_the_epochs_that_its_class_allows(tmp_path):
    made = curvfed.simulate(TwoPasses, results_dir=tmp_path, **TREES)
    assert made.rounds.replies.tolist()[-2:] == [2, 2]
    with pytest.raises(RoundError, match=r"steps is 2.0; allowed .* 1 to 1, by epoch_factor = 1"):
        curvfed.simulate(OnePassMore, results_dir=tmp_path, **TREES)


def test_a_second_pass_over_a_single_batch_has_the_proximal_term(tmp_path):
    """The first step has none, since the parameters are still those received."""
    keys = TREES | {"method": TwoPasses, "local_epochs": 1}
    plain = curvfed.simulate(**keys, results_dir=tmp_path)
    proximal = curvfed.simulate(**keys, proximal=5.0, results_dir=tmp_path)
    assert plain.rounds.loss.iloc[-1] != proximal.rounds.loss.iloc[-1]

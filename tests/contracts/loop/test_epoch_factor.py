"""A learner may take as many epochs as its class says, and a run without keys says so."""

from types import SimpleNamespace

import pytest

import curvfed
import curvfed.server_app.app
from curvfed.server_app.run import RoundError
from curvfed.strategies.base.learner import Learner
from curvfed.strategies.config.run_config import defaults

TREES = {"dataset": "trees", "num_supernodes": 2, "num_rounds": 2, "report": False, "quiet": True}


class OnePassMore(Learner):
    def train(self):
        return self.run_epochs(self.local.config.local_epochs * (2 if self.round == 1 else 1))


class TwoPasses(OnePassMore):
    epoch_factor = 2


def test_a_learner_takes_the_epochs_that_its_class_allows(tmp_path):
    made = curvfed.simulate(TwoPasses, results_dir=tmp_path, **TREES)
    assert made.rounds.replies.tolist()[-2:] == [2, 2]
    with pytest.raises(RoundError, match=r"steps is 2.0; allowed .* 1 to 1, by epoch_factor = 1"):
        curvfed.simulate(OnePassMore, results_dir=tmp_path, **TREES)


@pytest.mark.parametrize(("keys", "lines"), [({}, 1), ({"num-rounds": 2}, 0)])
def test_a_run_of_flower_without_keys_says_so(keys, lines, monkeypatch, capsys):
    monkeypatch.setattr(curvfed.server_app.app, "serve", lambda config, grid: None)
    context = SimpleNamespace(run_config=defaults() | keys)
    curvfed.server_app.app.main(None, context)
    said = capsys.readouterr().out
    assert said.count("no key was given: method=flatland, num-rounds=100") == lines

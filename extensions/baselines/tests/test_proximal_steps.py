"""The key `proximal` in methods with steps of their own."""

from dataclasses import replace

import pytest
from app_runs import QUICK, run

from curvfed.extensions.baselines.methods import fedbabu
from curvfed.strategies.base.learner import Learner
from curvfed.strategies.base.training import Proximal
from curvfed.strategies.config.parse import parse
from curvfed.strategies.errors import ConfigError

MU = 0.5


class Pulled(Learner):
    """FedAvg's local work with mu/2 ||w - w_t||^2, written out."""

    def gradient_terms(self):
        shared = [self.local.trained[name] for name in self.local.shared_and_trained]
        return [*super().gradient_terms(), Proximal(shared, MU / 2)]


def test_fedbabu_with_a_proximal_term(tmp_path, monkeypatch):
    settings = {"method": "fedbabu", **QUICK["images"]}
    by_key = run(tmp_path, "key", proximal=MU, **settings)
    plain = run(tmp_path, "plain", **settings)
    row = fedbabu.METHODS["fedbabu"]
    monkeypatch.setitem(fedbabu.METHODS, "fedbabu", replace(row, client=Pulled))
    by_learner = run(tmp_path, "learner", **settings)
    assert by_key.model_bytes == by_learner.model_bytes != plain.model_bytes


@pytest.mark.parametrize("method", ["apple", "pfedme"])
def test_methods_whose_steps_are_their_own_refuse_it(method):
    with pytest.raises(ConfigError, match=r"proximal = 0\.5"):
        parse({"method": method, "proximal": MU})

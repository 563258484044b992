"""The proximal term: the key of every method that trains, and those of methods with one."""

from dataclasses import replace

import numpy as np
import pytest
from app_runs import run

from curvfed.extensions.baselines.methods import fedbabu
from curvfed.strategies.base.learner import Learner
from curvfed.strategies.base.training import Proximal
from curvfed.strategies.config.parse import parse
from curvfed.strategies.errors import ConfigError

MU = 0.5
IMAGES = {"dataset": "digits", "images__train_subset": 150, "images__test_subset": 50}


class Pulled(Learner):
    """FedAvg's local work with mu/2 ||w - w_t||^2, written out."""

    def gradient_terms(self):
        shared = [self.local.trained[name] for name in self.shared_and_trained]
        return [*super().gradient_terms(), Proximal(shared, MU / 2)]


def test_fedbabu_with_a_proximal_term(tmp_path, monkeypatch):
    settings = {"method": "fedbabu", "local_epochs": 2, **IMAGES}
    by_key = run(tmp_path, "key", proximal=MU, **settings)
    plain = run(tmp_path, "plain", **settings)
    row = fedbabu.METHODS["fedbabu"]
    monkeypatch.setitem(fedbabu.METHODS, "fedbabu", replace(row, client=Pulled))
    by_learner = run(tmp_path, "learner", **settings)
    assert by_key.model_bytes == by_learner.model_bytes != plain.model_bytes


@pytest.mark.parametrize("data", [{}, IMAGES])
def test_fedavg_with_the_term_is_fedprox(data, tmp_path):
    settings = {"local_epochs": 2, **data}
    fedavg = run(tmp_path, "fedavg", method="fedavg", proximal=MU, **settings)
    fedprox = run(tmp_path, "fedprox", method="fedprox", fedprox__mu=MU, **settings)
    assert fedavg.model.keys() == fedprox.model.keys()
    for name, array in fedavg.model.items():
        assert np.array_equal(array, fedprox.model[name])


@pytest.mark.parametrize("method", ["apple", "pfedme"])
def test_methods_whose_steps_are_their_own_refuse_it(method):
    with pytest.raises(ConfigError, match=r"proximal = 0\.5"):
        parse({"method": method, "proximal": MU})

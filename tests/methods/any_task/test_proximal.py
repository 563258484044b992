"""The proximal term: the key of every method that trains is FedProx's."""

import numpy as np
import pytest
from app_runs import run

MU = 0.5
IMAGES = {"dataset": "digits", "images__train_subset": 150, "images__test_subset": 50}


@pytest.mark.parametrize("data", [{}, IMAGES])
def test_fedavg_with_the_term_is_fedprox(data, tmp_path):
    settings = {"local_epochs": 2, **data}
    fedavg = run(tmp_path, "fedavg", method="fedavg", proximal=MU, **settings)
    fedprox = run(tmp_path, "fedprox", method="fedprox", fedprox__mu=MU, **settings)
    assert fedavg.model.keys() == fedprox.model.keys()
    for name, array in fedavg.model.items():
        assert np.array_equal(array, fedprox.model[name])

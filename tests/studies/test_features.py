"""Studies of a finished run's features: figures of them, and other classifiers on them."""

import numpy as np
import pytest
from app_runs import QUICK, run

from studies import calibrations, features


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    settings = QUICK["images"] | {"fine_tune_epochs": 1, "num_rounds": 1, "global_every": 1}
    return run(tmp_path_factory.mktemp("runs"), method="spherefed", **settings)


@pytest.mark.long
def test_features_of_the_global_model_and_of_clients_are_drawn(made, tmp_path):
    everything = list(features.global_dots(made.path))
    assert [dots.label for dots in everything] == list("0123456789")
    chosen = list(features.client_dots(made.path, [0, 1], ["3"]))
    assert len(chosen[0].features) == len(chosen[1].features)
    assert not np.allclose(chosen[0].features, chosen[1].features)
    np.testing.assert_allclose(np.linalg.norm(chosen[0].features, axis=1), 1, atol=1e-6)
    for extra in ([], ["--clients", "0", "1", "--classes", "3", "5"]):
        picture = tmp_path / f"{len(extra)}.png"
        assert features.main([str(made.path), "--to", str(picture), *extra]) == 0
        assert picture.read_bytes()[:4] == b"\x89PNG"


def test_the_runs_own_classifiers_have_its_accuracies(made, monkeypatch):
    monkeypatch.setattr(calibrations, "EPOCHS", 5)
    fixed, _, closed, trained = calibrations.accuracies(made.path).values()
    assert fixed == made.summary["metrics"]["global_accuracy_uncalibrated"]
    assert closed == made.summary["global_accuracy"]
    assert trained > fixed

"""Figures of features are drawn from a run's files, and a client's are those of its own model."""

import numpy as np
from app_runs import QUICK, run

from studies import features


def test_features_of_the_global_model_and_of_clients_are_drawn(tmp_path):
    settings = QUICK["images"] | {"fine_tune_epochs": 1, "num_rounds": 1}
    folder = run(tmp_path, method="spherefed", **settings).path
    everything = list(features.global_dots(folder))
    assert [dots.label for dots in everything] == list("0123456789")
    chosen = list(features.client_dots(folder, [0, 1], ["3"]))
    assert len(chosen[0].features) == len(chosen[1].features)
    assert not np.allclose(chosen[0].features, chosen[1].features)
    np.testing.assert_allclose(np.linalg.norm(chosen[0].features, axis=1), 1, atol=1e-6)
    for extra in ([], ["--clients", "0", "1", "--classes", "3", "5"]):
        picture = tmp_path / f"{len(extra)}.png"
        assert features.main([str(folder), "--to", str(picture), *extra]) == 0
        assert picture.read_bytes()[:4] == b"\x89PNG"

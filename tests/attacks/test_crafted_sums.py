"""Networks that a lying server makes so that a private sum shows whether one example is there."""

from importlib import import_module

import numpy as np
import pytest
from guards import hiding
from one_client import a_client

from curvfed.strategies.base.calibration import BATCH, on_grid
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.methods import files
from curvfed.tasks.images.client_task import classifier_inputs


def test_the_features_in_a_private_sum_are_the_same_whatever_others_there_are():
    client = a_client({"method": "spherefed", "dataset": "digits", "partition": "iid"})[0]

    def features_of(numbers):
        client.task.parts["train"] = numbers
        features, _ = classifier_inputs(client.model, client.task, BATCH)
        return {row.numpy().tobytes() for row in features}

    everybody = client.task.parts["train"]
    whole = features_of(everybody)
    for numbers in (everybody[1:], everybody[:3], everybody[-1:], everybody.flip(0)[::2]):
        assert features_of(numbers) <= whole


@pytest.mark.parametrize(
    ("method", "kind"), [("ccvr", "VirtualFeatures"), ("spherefed", "ClosedForm")]
)
def test_no_network_makes_one_record_fail_a_private_sum(method, kind):
    """A vector with a number that is not finite was refused, and the error left without noise."""
    module = import_module(files()[method])
    calibration = getattr(module, kind)(module.Keys(), RunKeys(), hiding())
    features = np.array([[0.5, 0.25], [np.nan, np.inf], [-np.inf, np.nan], [3e38, 1e-45]])
    total = calibration.summed(on_grid(features, calibration.reach), np.array([0, 1, 2, 0]), 3)
    assert np.isfinite(total).all()

"""Keys that `check` calls without effect change nothing in a run: the models are equal to the bit."""

import numpy as np
import pytest
from app_runs import QUICK, dotted_keys, run

from curvfed.strategies.config.checks import idle_keys
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults

CHANGED = {
    "alpha": 0.9,
    "shards": 3,
    "momentum": 0.1,
    "decay": 0.5,
    "decay-every": 3,
    "dropout": 0.1,
    "normalize": "l1",
    "min-client-size": 1,
    "embedding-dim": 5,
}
METHOD_OF = {"links": "links"}
"""The method of each kind of data that fedavg does not train."""


@pytest.mark.parametrize("task", QUICK)
def test_a_key_without_effect_changes_nothing(task, tmp_path):
    settings = QUICK[task] | {"method": METHOD_OF.get(task, "fedavg")}
    config = resolve_defaults(parse(dotted_keys(settings)), task)
    idle = idle_keys(config, task)
    assert idle.keys() <= CHANGED.keys()

    changes = {key.replace("-", "_"): CHANGED[key] for key in idle}
    before = run(tmp_path, "before", **settings)
    after = run(tmp_path, "after", **settings, **changes)
    assert before.model
    for name, array in before.model.items():
        np.testing.assert_array_equal(array, after.model[name])

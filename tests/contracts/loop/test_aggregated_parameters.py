"""An aggregation that returns other parameters than the model's is named, in its own round."""

import numpy as np
import pytest

import curvfed
from curvfed.server_app.run import RoundError
from curvfed.strategies.base.aggregation import Average
from curvfed.strategies.base.method import GRAPHS, Method

FAULTS = {
    "shape": (lambda arrays: arrays | {"head.bias": np.zeros(2, "float32")}, r"float32\[2\]"),
    "dtype": (
        lambda arrays: {name: array.astype("float64") for name, array in arrays.items()},
        r"first.weight is float64",
    ),
    "missing": (
        lambda arrays: {name: arrays[name] for name in arrays if name != "head.bias"},
        r"missing \['head.bias'\]",
    ),
    "extra": (lambda arrays: arrays | {"more": np.ones(1)}, r"unexpected \['more'\]"),
    "list": (lambda arrays: list(arrays.values()), "parameters are a list"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_server_half_is_named_in_its_own_round(tmp_path, fault):
    """Else the last round would store the model, and an earlier one would blame the clients."""
    change, words = FAULTS[fault]

    class Wrong(Average):
        def aggregate(self, replies):
            super().aggregate(replies)
            self._arrays = change(self._arrays)

    row = Method("a wrong server half", space="flat", server=Wrong, tasks=GRAPHS)
    settings = {"dataset": "trees", "num_supernodes": 2, "report": False, "quiet": True}
    with pytest.raises(RoundError, match=f"round 1, Wrong.aggregate: .*{words}"):
        curvfed.simulate(row, num_rounds=1, results_dir=tmp_path, **settings)

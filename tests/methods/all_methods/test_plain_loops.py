"""The loops that runs are measured against train the same: equal scores, bit for bit."""

import pytest
from app_runs import run
from plain_loop import PlainLoop

from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import flatten

CLIENTS = 3
IMAGES = {
    "dataset": "digits",
    "batch-size": 32,
    "local-epochs": 2,
    "min-client-size": 2,
    "fine-tune-epochs": 0,
}
GRAPH = {"dataset": "trees", "local-epochs": 2}


@pytest.mark.parametrize(
    "settings",
    [
        GRAPH | {"method": "flatland", "schedule": "constant"},
        IMAGES | {"method": "fedavg"},
        pytest.param(IMAGES | {"method": "hyperfed"}, marks=pytest.mark.long),
    ],
    ids=["flatland", "fedavg", "hyperfed"],
)
def test_a_plain_loop_trains_as_a_run_does(own_home, tmp_path, settings):
    whole = run(
        tmp_path,
        clients=CLIENTS,
        num_rounds=3,
        **{key.replace("-", "_"): v for key, v in settings.items()},
    )
    notes = [
        float(row["score"])
        for row in whole.clients
        if row["round"] == "3" and row["phase"] == "train"
    ]
    plain = PlainLoop(
        parse(flatten(parse({})) | {"embedding-dim": 8, "num-rounds": 3} | settings), CLIENTS
    ).run()
    assert notes == [scores["score"] for scores in plain]

"""SCAFFOLD under secure sums: a member's change of its variate is its update over the length of its
steps. By both sums of one round an honest server had the update of a member with other steps."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_runs import run
from errors import refuses
from image_fixtures import write_classes
from secure_sums import watched_sums

from curvfed.extensions.baselines.methods.scaffold import VARIATE, ScaffoldServer
from curvfed.strategies.base.optimizer import gradient_weight
from curvfed.strategies.config import secure_phases
from curvfed.strategies.config.parse import parse
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.exchange import FederationError

pytestmark = pytest.mark.usefixtures("own_home")

MOMENTUM = 0.9
RATE = 0.01

SCAFFOLD: dict[str, Any] = {
    "method": "scaffold",
    "dataset": "own",
    "secure_sum": True,
    "num_rounds": 1,
    "local_epochs": 1,
    "momentum": MOMENTUM,
    "learning_rate": RATE,
    "fine_tune_epochs": 0,
}

ALLOWED = r'method = "scaffold" and batch-size = \d+: allowed is batch-size = 0'


def image_nodes(folder: Path) -> list[dict[str, Any]]:
    """Three nodes with images of two classes, the last with more of them."""
    nodes = []
    for site, number in enumerate((20, 22, 40)):
        counts = {"a": number, "b": number}
        write_classes(folder / f"data{site}", counts, shape=(28, 28), seed=site + 1)
        place = {"data-path": str(folder / f"data{site}"), "state-path": str(folder / f"s{site}")}
        nodes.append({"partition-id": site} | place)
    return nodes


@pytest.fixture
def updates(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, np.ndarray]]:
    """The changes of the model at each client."""
    seen: list[dict[str, np.ndarray]] = []
    weigh = secure_phases.weighted_update

    def watched(arrays: Any, received: Any, *rest: Any) -> Any:
        names = secure_phases.parameters(received)
        seen.append({name: arrays[name] - received[name].astype(np.float64) for name in names})
        return weigh(arrays, received, *rest)

    monkeypatch.setattr(secure_phases, "weighted_update", watched)
    return seen


def test_no_member_takes_other_steps_than_the_rest(tmp_path, monkeypatch, updates):
    nodes = image_nodes(tmp_path)
    with pytest.raises(ConfigError, match=ALLOWED):
        run(tmp_path, "batches", nodes=nodes, batch_size=40, **SCAFFOLD)
    with pytest.raises(FederationError, match=ALLOWED):  # a batch of images has 128 by default
        run(tmp_path, "default", nodes=nodes, **SCAFFOLD)
    sums = watched_sums(monkeypatch)
    monkeypatch.setattr(ScaffoldServer, "equal_steps", False)
    run(tmp_path, "unguarded", nodes=nodes, batch_size=40, **SCAFFOLD)
    one_step, two_steps = RATE * gradient_weight([1, 2], MOMENTUM)
    for name, update in updates[2].items():
        both = sums[0][name] + one_step * sums[0][f"{VARIATE}{name}"]
        guess = both / (1 - one_step / two_steps)
        assert np.linalg.norm(guess - update) < 1e-3 * np.linalg.norm(update)  # the attack is real


def test_the_check_comes_before_a_run_of_a_known_kind_of_data():
    keys = {"method": "scaffold", "secure-sum": True, "dataset": "digits"}
    with refuses("secure-sum-with-method-with-batch-size", "batch-size = 0", error=ConfigError):
        parse(keys)
    assert parse(keys | {"batch-size": 0}).secure_sum
    assert parse(keys | {"dataset": "trees"}).secure_sum  # all nodes of a graph are a step


@pytest.mark.parametrize("limit", [1000.0, 0.5])
def test_the_sum_of_variates_follows_from_that_of_updates(limit, tmp_path, monkeypatch, updates):
    """Variates of a client whose update was too long were not shortened: so its update followed."""
    sums = watched_sums(monkeypatch)
    rate = 0.5
    keys = SCAFFOLD | {"dataset": "digits", "images__train_subset": 120, "learning_rate": rate}
    run(tmp_path, **keys | {"batch_size": 0, "secure__clip": limit})
    lengths = [np.linalg.norm([np.linalg.norm(array) for array in u.values()]) for u in updates]
    assert min(lengths) < 0.5 < max(lengths)
    for name in updates[0]:
        change = sums[0][name]
        variates = -rate * sums[0][f"{VARIATE}{name}"]
        np.testing.assert_allclose(variates, change, rtol=0, atol=1e-5 * np.abs(change).max())

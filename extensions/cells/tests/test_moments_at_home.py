"""What leaves a node for discriminant analysis: no moments of a class that few have, one sum of its
data, and noise that its budget pays."""

from typing import Any

import numpy as np
import pytest
from app_runs import Handle, Recorder, phase_of, run
from flwr.app import Message
from guards import needs_privacy
from hull_nodes import blobs, nodes_of, nodes_with_a_single_cell
from policies import costs, sharing_nodes, with_policy

from curvfed.extensions.cells.methods.discriminant import DiscriminantServer
from curvfed.server_app.run import RoundError
from curvfed.strategies.config.holders import sums_by_name
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.exchange import FederationError

pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture
def sums(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """The sums that the server decodes."""
    totals: list[np.ndarray] = []
    learn = DiscriminantServer.learn

    def watched(half: DiscriminantServer, total: Any) -> Any:
        totals.append(total.arrays["sums"])
        return learn(half, total)

    monkeypatch.setattr(DiscriminantServer, "learn", watched)
    return totals


@pytest.mark.parametrize("line", ["", "hull-min-class-size = 1\n"], ids=["default", "one"])
def test_moments_of_one_cell_stay_at_home(line, tmp_path, sums):
    """The sums of a class that one client has alone are that client's: of one cell, the cell."""
    nodes, cell = nodes_with_a_single_cell(tmp_path / "nodes")
    chosen = with_policy(tmp_path, nodes, f"[sums]\nmin-holders = 1\n[leaves]\n{line}")
    settings: dict[str, Any] = {"discriminant__kind": "lda", "secure__min_holders": 1}
    run(tmp_path, nodes=chosen, method="discriminant", **settings)
    count, *tangent = sums[0].reshape(3, 6)[2, :3]
    norm = np.linalg.norm(cell)
    expected = np.arctanh(norm) * cell / norm
    assert round(count) == bool(line)
    assert np.allclose(tangent, expected * bool(line), atol=1e-6)


def test_nodes_whose_classes_are_all_small_say_which_line_keeps_their_moments(tmp_path):
    nodes = nodes_of(tmp_path / "nodes", [blobs("02", per_class=4, seed=seed) for seed in range(3)])
    recorder = Recorder()
    with pytest.raises(RoundError, match=r"\[leaves\] hull-min-class-size = 5") as refused:
        run(tmp_path, nodes=nodes, method="discriminant", intercept=recorder)
    assert "4" not in str(refused.value).partition("hull-min")[2]
    assert not [reply for reply in recorder.replies("moments") if "arrays" in reply]


def test_the_moments_of_a_class_that_one_node_alone_has_stay_there(tmp_path, sums):
    """Got: its 6 cells, from which two test-sizes gave one cell's point to 1.7e-9."""
    parts = [blobs(labels, seed=seed) for seed, labels in enumerate(("0257", "025", "025"))]
    nodes = nodes_of(tmp_path / "nodes", parts)
    done = run(tmp_path, nodes=nodes, method="discriminant", dataset="own")
    names = done.described["facts"]["class_names"]
    cells = sums[0].reshape(len(names), -1)
    assert not cells[names.index("7")].any()
    assert all(cells[names.index(name)].all() for name in "025")


def test_nothing_is_summed_before_the_count(tmp_path):
    def uncounted(request: Message, handle: Handle) -> Message:
        if phase_of(request.content) == "moments" and "holders" in request.content:
            del request.content["holders"]
        return handle(request)

    nodes = nodes_of(tmp_path / "nodes", [blobs("025", seed=seed) for seed in range(3)])
    with pytest.raises(RoundError, match=r"\[sums\] min-holders = 1"):
        run(tmp_path, nodes=nodes, method="discriminant", dataset="own", intercept=uncounted)


@pytest.mark.parametrize(
    ("settings", "is_counted"),
    [({"method": "discriminant"}, True), ({"method": "pca", "pca.genes": "a,b,c"}, False)],
)
def test_holders_are_counted_where_a_sum_has_cells_of_classes(settings, is_counted):
    assert sums_by_name(resolve_defaults(parse(settings), "points")) == is_counted


def test_one_state_of_the_data_has_one_set_of_settings(tmp_path, sums):
    nodes = nodes_of(tmp_path / "nodes", [blobs("02", seed=seed) for seed in range(3)])
    moments = {"method": "discriminant", "dataset": "own", "secure_sum": True}
    run(tmp_path, "first", nodes=nodes, **moments)
    # Another method is another question.
    run(tmp_path, "hull", nodes=nodes, method="hull", dataset="own", hull__classifier="depth")
    for key, value in {"points__hold_out": "validation", "seed": 3}.items():
        with pytest.raises((RoundError, ConfigError), match=r"under 1 other configuration"):
            run(tmp_path, key, nodes=nodes, **moments | {key: value})
    with pytest.raises(FederationError, match=r"test-size = 0.5: this node splits"):
        run(tmp_path, "split", nodes=nodes, test_size=0.5, **moments)
    run(tmp_path, "again", nodes=nodes, **moments)
    assert len(sums) == 2
    assert np.array_equal(*sums)
    for node in nodes:
        np.savez(node["data-path"], **blobs("02", seed=9 + node["partition-id"]))
    run(tmp_path, "more", nodes=nodes, seed=3, **moments)


@needs_privacy
def test_a_noisy_sum_is_paid_once_and_the_budget_ends_the_next(tmp_path):
    nodes = with_policy(tmp_path, sharing_nodes(tmp_path), "[privacy]\nmax-epsilon = 5\n")
    private = {
        "method": "discriminant",
        "dataset": "uniform",
        "points__num": 300,
        "secure_sum": True,
        "dp__unit": "record",
        "dp__epsilon": 4.0,
    }
    recorder = Recorder()
    result = run(tmp_path, "first", nodes=nodes, clients=3, intercept=recorder, **private)
    assert not any(reply["header"]["num_examples"] for reply in recorder.replies("moments"))
    assert len(costs(tmp_path)) == 1
    assert result.summary["metrics"]["privacy_epsilon"] == pytest.approx(4, rel=1e-3)
    with pytest.raises(FederationError, match=r"max-epsilon = 5"):
        run(tmp_path, "second", nodes=nodes, clients=3, **private)

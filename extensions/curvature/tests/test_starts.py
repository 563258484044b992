"""Curvatures of a run that start from Ollivier's curvature, or from the one that fits the graph."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from app_runs import Recorder, partition_of, run
from curvature_starts import RADII, STILL, curvatures, edges_of, on, standardized, write_sets

from curvfed.extensions.curvature import measures
from curvfed.extensions.curvature.distortion import fit
from curvfed.extensions.curvature.measures import DIMENSIONS, sampled_distances
from curvfed.extensions.curvature.ollivier import ollivier_ricci
from curvfed.server_app.run import RoundError

pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """The folder of `write_sets`. Read only."""
    return write_sets(tmp_path_factory.mktemp("data-sets"))


def ollivier(task: str, client: int) -> float:
    return float(ollivier_ricci(*edges_of(task, client)).double().mean())


@pytest.mark.parametrize("task", ["nodes", "graphs"])
def test_a_curvature_starts_at_the_graphs_standardised(task, sets, tmp_path):
    recorder = Recorder()
    settings = {"flatland__curvature_init": "ollivier"} | STILL | on(task, sets)
    made = run(tmp_path, intercept=recorder, **settings)
    exact = [ollivier(task, client) for client in range(3)]
    replies = sorted(recorder.replies("start"), key=partition_of)
    sent = [reply["metrics"]["ricci"] for reply in replies]
    np.testing.assert_allclose(sent, exact, rtol=1e-12)
    expected = -1 / RADII["sigmoid"](standardized(exact))
    np.testing.assert_allclose(curvatures(made), expected, rtol=1e-5)


def test_a_curvature_starts_at_the_one_that_fits_the_clients_graph(sets, tmp_path, monkeypatch):
    number = 16  # of nodes; a search over more takes its time
    monkeypatch.setattr("curvfed.extensions.curvature.measures.NODES", number)
    recorder = Recorder()
    settings = {"flatland__curvature_init": "fit", "flatland__curvature_map": "wide"}
    result = run(tmp_path, intercept=recorder, **settings, **STILL, **on("nodes", sets))
    fitted = []
    for client in range(3):
        edges, num_nodes = edges_of("nodes", client)
        graph: Any = SimpleNamespace(edge_index=edges, labels=torch.zeros(num_nodes))
        distances, _ = sampled_distances(graph, number)
        fitted.append(fit(distances, DIMENSIONS).curvature)
    low, high = -1 / math.exp(6 * math.tanh(-4 / 3)), -1 / math.exp(6 * math.tanh(4 / 3))
    np.testing.assert_allclose(curvatures(result), np.clip(fitted, low, high), rtol=1e-5)
    # Nothing about it leaves the client.
    assert not recorder.requests("start")


def test_sets_of_graphs_have_no_curvature_that_fits(sets, tmp_path):
    with pytest.raises(RoundError, match="allowed are nodes"):
        run(tmp_path, flatland__curvature_init="fit", **STILL, **on("graphs", sets))


def test_ollivier_is_worked_out_once(own_home, sets, tmp_path, monkeypatch):
    """A client is asked before the first round and starts from it, maybe in another process."""
    calls, whole = [], ollivier_ricci
    monkeypatch.setattr(
        measures,
        "ollivier_ricci",
        lambda *args: calls.append(args) or whole(*args),
    )
    settings = {"flatland__curvature_init": "ollivier"} | on("graphs", sets)
    first = run(tmp_path, "first", **settings)
    assert len(calls) == 3
    again = run(tmp_path, "again", **settings)
    assert len(calls) == 3
    assert curvatures(first, 2).tolist() == curvatures(again, 2).tolist()

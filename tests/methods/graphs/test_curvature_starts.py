"""Where curvatures of a run start, what is asked for it, and what never leaves."""

import math
from dataclasses import replace

import numpy as np
import pytest
from absent_extensions import skip_without
from app_runs import (
    Fault,
    Recorder,
    all_bytes,
    all_numbers,
    array_names,
    forged,
    newest,
    partition_of,
    phase_of,
    run,
)
from curvature_starts import (
    BOUNDS,
    RADII,
    SETS,
    STILL,
    curvatures,
    edges_of,
    forman,
    forman_by_degree,
    on,
    standardized,
    write_sets,
)
from tiers import only


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """The folder of `write_sets`. Read only."""
    skip_without(SETS[0])
    return write_sets(tmp_path_factory.mktemp("data-sets"))


@pytest.mark.parametrize("task", ["nodes", "graphs"])
@pytest.mark.parametrize("method", only(["flatland", "local-lorentz"], "flatland".__eq__))
@pytest.mark.parametrize("kind", ["forman", "literal", "mlp", "constant"])
def test_every_start_runs(kind, method, task, sets, tmp_path):
    recorder = Recorder()
    result = run(
        tmp_path, method=method, flatland__curvature_init=kind, intercept=recorder, **on(task, sets)
    )
    assert (result.summary["status"], result.summary["metrics"]["replies_dropped"]) == (
        "completed",
        0,
    )
    assert len(recorder.requests("start")) == (3 if kind == "forman" else 0)
    low, high = BOUNDS["sigmoid"]
    assert all(low <= value < high for value in curvatures(result, 2))
    assert len(set(curvatures(result, 2))) == 3


@pytest.mark.parametrize("task", ["nodes", "graphs"])
@pytest.mark.parametrize("curvature_map", ["sigmoid", "exp"])
def test_a_curvature_starts_at_the_graphs_standardised(curvature_map, task, sets, tmp_path):
    recorder = Recorder()
    result = run(
        tmp_path,
        flatland__curvature_map=curvature_map,
        intercept=recorder,
        **STILL,
        **on(task, sets),
    )
    exact = [forman(task, client) for client in range(3)]
    notes = [
        reply["metrics"]["ricci"] for reply in sorted(recorder.replies("start"), key=partition_of)
    ]
    np.testing.assert_allclose(notes, exact, rtol=1e-12)
    start = result.described["facts"]["figures"]
    np.testing.assert_allclose(start, [np.mean(exact), np.std(exact)], rtol=1e-12)
    np.testing.assert_allclose(
        curvatures(result), -1 / RADII[curvature_map](standardized(exact)), rtol=1e-5
    )


def test_the_papers_words_start_k_at_the_graphs_curvature_itself(sets, tmp_path):
    result = run(tmp_path, flatland__curvature_init="literal", **STILL, **on("graphs", sets))
    exact = np.array([forman("graphs", client) for client in range(3)])
    np.testing.assert_allclose(
        [result.personal(client)["parameter/k"] for client in range(3)], exact, rtol=1e-6
    )
    np.testing.assert_allclose(curvatures(result), -1 / RADII["sigmoid"](exact), rtol=1e-5)
    assert result.described["facts"]["figures"] == []


@pytest.mark.parametrize("task", ["nodes", "graphs"])
def test_nodes_may_weigh_their_degree(task, sets, tmp_path):
    """With degrees as weights the curvatures are others, and the run asks for these."""
    recorder = Recorder()
    settings = {"flatland__vertex_weights": "degree"} | STILL | on(task, sets)
    done = run(tmp_path, intercept=recorder, **settings)
    exact = [forman_by_degree(task, client) for client in range(3)]
    start = done.described["facts"]["figures"]
    np.testing.assert_allclose(start, [np.mean(exact), np.std(exact)], rtol=1e-6)
    np.testing.assert_allclose(
        curvatures(done), -1 / RADII["sigmoid"](standardized(exact)), rtol=1e-5
    )


@pytest.mark.parametrize(("curvature_map", "deviation"), [("sigmoid", 1.0), ("exp", 1 / 30)])
def test_no_client_starts_beyond_four_deviations(curvature_map, deviation, tmp_path):
    """A client that told another curvature than its own lies far off the mean of what was told."""
    near = forged(lambda reply: replace(reply, metrics={"ricci": forman("nodes", 0, True) + 1e-6}))
    result = run(
        tmp_path,
        clients=2,
        flatland__curvature_map=curvature_map,
        intercept=Fault(1, near, "start", 0),
        **STILL,
    )
    side = math.copysign(4, forman("nodes", 1, True) - forman("nodes", 0, True))
    assert result.personal(1)["parameter/k"] == pytest.approx(side * deviation, rel=1e-6)
    assert curvatures(result)[1] == pytest.approx(-1 / RADII[curvature_map](side), rel=1e-5)


@pytest.mark.parametrize("task", ["nodes", "graphs"])
def test_an_estimator_starts_at_minus_one_and_leads_away(task, sets, tmp_path):
    settings = {"flatland__curvature_init": "mlp"} | on(task, sets)
    still = run(tmp_path, "still", **STILL, **settings)
    assert curvatures(still).tolist() == [-1] * 3
    for client in range(3):
        edges, num_nodes = edges_of(task, client)
        notes = [
            math.asinh(forman(task, client)),
            math.asinh(forman(task, client, False)),
            math.log(1 + edges.shape[1] / num_nodes),
            math.log10(num_nodes),
        ]
        np.testing.assert_allclose(
            still.personal(client)["parameter/estimator.statistics"], notes, rtol=1e-6
        )
    result = run(tmp_path, "moving", num_rounds=3, **settings)
    for client in range(3):
        kept, start = result.personal(client), still.personal(client)
        statistics = "parameter/estimator.statistics"
        assert kept[statistics].tobytes() == start[statistics].tobytes()
        assert (kept["parameter/estimator.out"] != 0).any()
        assert (
            kept["parameter/estimator.hidden.weight"] != start["parameter/estimator.hidden.weight"]
        ).any()
    assert len(set(curvatures(result, 3))) == 3


@pytest.mark.parametrize("task", ["nodes", "graphs"])
def test_nothing_of_an_estimator_is_in_any_message(task, sets, tmp_path):
    recorder = Recorder()
    kept: list[dict[str, np.ndarray]] = []
    settings = {"flatland__curvature_init": "mlp"} | on(task, sets)

    def watch(request, handle):
        reply = recorder(request, handle)
        folder = (
            tmp_path
            / "run"
            / "checkpoint"
            / "clients"
            / f"{partition_of(recorder.pairs[-1][1]):05d}"
        )
        if phase_of(request.content) == "train":
            kept.append(newest(folder))
        return reply

    result = run(tmp_path, num_rounds=3, intercept=watch, **settings)
    assert result.summary["status"] == "completed"
    messages = [content for pair in recorder.pairs for content in pair]
    assert {phase_of(content) for content in messages} == {"describe", "train"}
    personal = {name for name in result.personal(0) if "estimator." in name}
    assert {name for name in personal if name.startswith("parameter/")} == {
        f"parameter/estimator.{name}"
        for name in ("statistics", "hidden.weight", "hidden.bias", "out")
    }
    assert any(name.startswith("optimizer/") for name in personal)
    # Adam's first steps are of one size: a few numbers of that size and any sign are in many a
    # message.
    tensors = {
        arrays[name].tobytes()
        for arrays in kept
        for name in personal
        if len(np.unique(np.abs(arrays[name]))) > 2
    }
    assert len(tensors) > 3 * 3 * 4
    statistics = np.unique([arrays["parameter/estimator.statistics"] for arrays in kept]).astype(
        np.float64
    )
    for content in messages:
        assert not any("estimator" in name or name == "k" for name in array_names(content))
        blob = all_bytes(content)
        assert b"estimator" not in blob
        assert not any(tensor in blob for tensor in tensors)
        assert not np.isin(statistics, all_numbers(content)).any()


def test_where_the_curvature_is_shared_or_constant_there_is_no_estimator(tmp_path):
    for method in ("flatland-shared", "flatland-constant"):
        recorder = Recorder()
        result = run(
            tmp_path, method, method=method, flatland__curvature_init="mlp", intercept=recorder
        )
        assert not any("estimator" in name for name in [*result.model, *result.personal(0)])
        assert {phase_of(content) for content in recorder.requests()} == {"describe", "train"}

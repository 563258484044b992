"""Every method runs, leaves what is promised, and in its limits becomes what it should."""

import math
import tomllib
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from app_runs import CLIENTS, Recorder, array_names, parameters_in, partition_of, phase_of, run
from equal_runs import same_arrays
from graph_fixtures import user_fields
from tiers import only

from curvfed.client_app import clients_in_memory as live
from curvfed.server_app.answer import personal_figures
from curvfed.strategies.config.build_method import model_spec
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import flatten, resolve_defaults
from curvfed.strategies.wire.codec import decode_arrays
from curvfed.strategies.wire.exchange import sample
from curvfed.strategies.wire.messages import Facts
from curvfed.tasks.graphs.client_task import NodeTask
from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.dataset import GraphDataset

SUMMARY = {
    *("status", "method", "dataset", "seed", "num_clients", "rounds", "global_accuracy"),
    *("personal_accuracy_mean", "personal_accuracy_std", "personal_accuracy_worst_decile"),
    *("metrics", "best_validation", "bytes_up", "bytes_down", "seconds", "seconds_training"),
    *("seconds_aggregation", "versions", "settled", "warnings", "warning_keys", "absences"),
}
ROUND_COLUMNS = {
    *("round", "phase", "global_accuracy", "personal_accuracy_mean", "loss", "replies"),
    *("dropped", "bytes_up", "bytes_down", "seconds"),
}
FILES = {
    *("summary.json", "config.toml", "rounds.csv", "clients.csv", "clients.json"),
    *("confusion.csv", "model.safetensors", "checkpoint"),
}
PERSONAL = (
    *("flatland", "flatland-constant", "flatland-euclidean", "local", "local-lorentz"),
    *("fedper", "fedavg-bias"),
)


@pytest.mark.parametrize("method", ["local", "adafgl"])
def test_a_run_leaves_what_is_promised(method, tmp_path):
    recorder, tuned = Recorder(), {"fine_tune_epochs": 5} if method == "adafgl" else {}
    result = run(tmp_path, method=method, intercept=recorder, **tuned)
    summary = result.summary

    assert summary.keys() == SUMMARY
    assert (summary["status"], summary["method"], summary["dataset"]) == (
        "completed",
        method,
        "trees",
    )
    assert (summary["seed"], summary["num_clients"], summary["rounds"]) == (0, 3, 2)
    assert summary["global_accuracy"] is None
    assert 0 <= summary["personal_accuracy_mean"] <= 1
    assert 0 <= summary["personal_accuracy_std"] <= 0.5
    assert summary["best_validation"]["round"] in (1, 2)
    for name in (
        "personal_accuracy_before",
        "personal_accuracy_pooled",
        "majority_accuracy",
        "validation",
    ):
        assert 0 <= summary["metrics"][name] <= 1
    assert summary["metrics"]["heterogeneity"] > 0
    assert (summary["metrics"]["clients_left_out"], summary["metrics"]["replies_dropped"]) == (0, 0)
    assert min(summary[name] for name in ("seconds", "seconds_training")) > 0

    assert {entry.name for entry in result.path.iterdir()} - {"model-card.md"} == FILES
    tunes = resolve_defaults(parse({"method": method}), "nodes").fine_tunes
    phases = [("1", "train"), ("2", "train"), *[("2", "fine-tune")] * tunes]
    assert [(row["round"], row["phase"], row["replies"]) for row in result.rounds] == [
        (*one, "3") for one in phases
    ]
    assert list(result.rounds[0])[:2] == ["round", "phase"]
    assert result.rounds[0].keys() >= ROUND_COLUMNS
    assert [(row["round"], row["phase"], row["partition"]) for row in result.clients] == [
        (*one, p) for one in phases for p in "012"
    ]
    assert all(math.isfinite(float(row["loss"])) for row in result.clients)
    for messages, notes in (
        (recorder.replies("train"), "bytes_up"),
        (recorder.requests("train"), "bytes_down"),
    ):
        sizes = [
            sum(array.nbytes for array in decode_arrays(one.get("arrays", {})).values())
            for one in messages
        ]
        assert np.mean(sizes) == summary[notes]


@pytest.mark.parametrize("method", ["fedavg", "adafgl"])
def test_what_is_handed_out_after_fine_tuning_competes_by_validation(method, tmp_path):
    result = run(
        tmp_path,
        method=method,
        num_rounds=2,
        fine_tune_epochs=10,
        learning_rate=1e-3,
        fine_tune_learning_rate=0.02,
    )
    means = {
        phase: np.mean(
            [
                float(row["validation"])
                for row in result.clients
                if (row["round"], row["phase"]) == phase
            ]
        )
        for phase in (("1", "train"), ("2", "fine-tune"))
    }
    assert means["2", "fine-tune"] > means["1", "train"]
    assert result.summary["best_validation"]["round"] == 2
    assert result.summary["best_validation"]["metrics"]["validation"] == pytest.approx(
        means["2", "fine-tune"], abs=1e-15
    )


def test_the_configuration_that_is_kept_runs_again_to_the_same_end(tmp_path):
    first = run(tmp_path / "first", method="fedper", learning_rate=0.02)
    kept = tomllib.loads((first.path / "config.toml").read_text())
    flat = {key: value for key, value in kept.items() if not isinstance(value, dict)}
    tables = {name: table for name, table in kept.items() if isinstance(table, dict)}
    flat |= {
        f"{name}.{key}": value for name, table in tables.items() for key, value in table.items()
    }
    assert flat.keys() == flatten(parse({"method": "fedper"})).keys()
    flat |= {"results-dir": str(tmp_path / "second")}
    assert run(tmp_path / "second", **flat).figures == first.figures


def test_scores_are_those_of_the_shared_and_the_personal_parameters_together(tmp_path):
    """Put together from what was sent and stored, the model scores what the client said."""
    recorder = Recorder()
    result = run(tmp_path, num_rounds=2, intercept=recorder)
    facts = result.described["facts"]
    config = parse({"embedding-dim": 8})
    for reply in recorder.replies("train")[3:]:
        partition = partition_of(reply)
        notes = parameters_in(result.personal(partition)) | decode_arrays(reply["arrays"])
        model = model_spec(
            config, Facts("nodes", facts["num_features"], tuple(facts["class_names"]))
        ).build(seed=99)
        model.load_state_dict({name: torch.tensor(array) for name, array in notes.items()})
        graph = GraphDataset(GraphSpec("trees", tmp_path), tmp_path).client(partition, 3)
        logits = NodeTask(graph, graph.class_names, torch.device("cpu")).logits(model)
        right = logits.argmax(dim=1) == graph.labels
        assert reply["metrics"]["score"] == pytest.approx(
            float(right[graph.test].double().mean()), abs=1e-15
        )
        assert reply["metrics"]["validation"] == pytest.approx(
            float(right[graph.val].double().mean()), abs=1e-15
        )


def test_one_client_alone_is_local_training(tmp_path):
    for fedavg_state, local_state in [
        ("personal", "fresh"),
        ("kept", "personal"),
        ("auto", "auto"),
    ]:
        settings = {"clients": 1, "num_rounds": 4}
        shared = run(
            tmp_path, f"f{fedavg_state}", method="fedavg", optimizer_state=fedavg_state, **settings
        )
        alone = run(
            tmp_path, f"l{local_state}", method="local", optimizer_state=local_state, **settings
        )
        assert same_arrays(shared.model, parameters_in(alone.personal(0)))
        assert shared.summary["personal_accuracy_mean"] == alone.summary["personal_accuracy_mean"]
        assert [row["loss"] for row in shared.rounds] == [row["loss"] for row in alone.rounds]


@pytest.mark.parametrize("method", ["local", "local-lorentz"])
def test_local_training_sends_no_arrays_and_hears_of_nobody(method, tmp_path):
    recorder = Recorder()
    result = run(
        tmp_path, "three", method=method, flatland__curvature_init="constant", intercept=recorder
    )
    assert {phase_of(content) for content in recorder.requests()} == {"describe", "train"}
    assert not any(array_names(content) for content in [*recorder.requests(), *recorder.replies()])
    assert (result.summary["bytes_up"], result.summary["bytes_down"]) == (0, 0)
    alone = run(tmp_path, "one", clients=1, method=method, flatland__curvature_init="constant")
    assert same_arrays(result.personal(0), alone.personal(0))


@pytest.mark.parametrize("method", only(PERSONAL, {"flatland", "fedper"}.__contains__))
def test_personal_parameters_are_trained_and_differ_from_the_neighbours(method, tmp_path):
    result = run(tmp_path, method=method, num_rounds=3)
    kept = [parameters_in(result.personal(partition)) for partition in range(3)]
    for name in kept[0]:
        values = {arrays[name].tobytes() for arrays in kept}
        assert len(values) == 3, name


def test_moments_are_kept_by_every_method_or_only_beside_personal_parameters(tmp_path):
    for method, same_as in [("flatland", "kept"), ("fedavg", "fresh")]:
        kinds = {
            kind: run(tmp_path, f"{method}-{kind}", method=method, optimizer_state=kind)
            for kind in ("auto", "kept", "fresh", "personal")
        }
        assert same_arrays(kinds["auto"].model, kinds["kept"].model)
        assert same_arrays(kinds["personal"].model, kinds[same_as].model)
        assert not same_arrays(kinds["kept"].model, kinds["fresh"].model)
        for kind in ("kept", "fresh"):
            moments = {name for name in kinds[kind].personal(1) if name.startswith("optimizer/")}
            assert bool(moments) == (kind == "kept")


@pytest.mark.parametrize("method", ["fedavg", "flatland-shared"])
def test_stateless_clients_write_nothing(method, tmp_path):
    result = run(tmp_path, method=method, optimizer_state="fresh")
    assert not (result.path / "checkpoint" / "clients").exists()


@pytest.mark.parametrize("method", ["flatland", "fedavg", "local"])
def test_no_rounds_score_the_initial_model(method, tmp_path):
    recorder = Recorder()
    result = run(tmp_path, method=method, num_rounds=0, seed=5, intercept=recorder)
    assert (result.summary["status"], result.summary["rounds"]) == ("completed", 0)
    assert 0 <= result.summary["personal_accuracy_mean"] <= 1
    assert result.summary["best_validation"]["round"] == 0
    assert not recorder.replies("train")
    assert [(row["round"], row["phase"], row["replies"], row["loss"]) for row in result.rounds] == [
        ("0", "evaluate", "3", "")
    ]
    spec = model_spec(
        parse({"method": method, "embedding-dim": 8}), Facts("nodes", 300, tuple("012345"))
    )
    start = {name: tensor.numpy() for name, tensor in spec.build(seed=5).state_dict().items()}
    assert bool(result.model) == (method != "local")
    assert same_arrays(result.model, {name: start[name] for name in result.model})


@pytest.mark.parametrize("method", ["flatland", "fedavg"])
def test_part_of_the_clients_train_and_all_are_scored_in_the_end(method, tmp_path):
    result = run(tmp_path, clients=5, method=method, num_rounds=4, fraction_train=0.4, seed=3)
    trained = {
        r: [
            int(row["partition"])
            for row in result.clients
            if row["round"] == str(r) and row["phase"] == "train"
        ]
        for r in range(1, 5)
    }
    assert trained == {number: sample(range(5), 0.4, 3, number) for number in range(1, 5)}
    scored = [
        int(row["partition"])
        for row in result.clients
        if row["round"] == "4" and row["phase"] == "evaluate"
    ]
    assert sorted(scored + trained[4]) == list(range(5))
    assert result.summary["metrics"]["clients_left_out"] == 0
    last = [float(row["score"]) for row in result.clients if row["round"] == "4"]
    assert result.summary["personal_accuracy_mean"] == pytest.approx(np.mean(last), abs=1e-15)
    assert [row["phase"] for row in result.rounds] == ["train"] * 4 + ["evaluate"]


def test_who_does_not_train_keeps_what_is_personal(tmp_path):
    recorder = Recorder()
    result = run(
        tmp_path,
        clients=5,
        num_rounds=5,
        fraction_train=0.4,
        evaluate_every=1,
        seed=1,
        intercept=recorder,
    )
    last = {}
    for request, reply in recorder.pairs:
        if phase_of(request) in ("train", "evaluate"):
            assert request["header"]["stamp"] == last.get(partition_of(reply), 0)
        if phase_of(request) == "train":
            last[partition_of(reply)] = request["header"]["round"]
    for partition, number in last.items():
        files = sorted(
            (result.path / "checkpoint" / "clients" / f"{partition:05d}").glob("0*.safetensors")
        )
        assert files[-1].stem == f"{number:08d}"


def test_evaluation_does_not_change_the_training(tmp_path):
    settings = {"clients": 4, "num_rounds": 4, "fraction_train": 0.5}
    often = run(tmp_path, "a", evaluate_every=1, **settings)
    never = run(tmp_path, "b", evaluate_every=0, **settings)
    assert same_arrays(often.model, never.model)
    assert often.summary["personal_accuracy_mean"] == never.summary["personal_accuracy_mean"]


@pytest.mark.parametrize(
    ("every", "rounds"), [(0, ["5"]), (2, ["2", "4", "5"]), (5, ["5"]), (9, ["5"])]
)
def test_the_others_are_scored_every_so_many_rounds(every, rounds, tmp_path):
    result = run(tmp_path, clients=4, num_rounds=5, fraction_train=0.5, evaluate_every=every)
    assert [row["round"] for row in result.rounds if row["phase"] == "evaluate"] == rounds
    assert str(result.summary["best_validation"]["round"]) in rounds


def curvatures(result, number):
    return [float(row["curvature"]) for row in result.clients if row["round"] == str(number)]


def test_who_learns_its_curvature(tmp_path):
    for method, learns in [
        ("flatland", True),
        ("local-lorentz", True),
        ("flatland-constant", False),
        ("flatland-shared", True),
    ]:
        result = run(tmp_path, method, method=method, num_rounds=2)
        assert (len(set(curvatures(result, 2))) > 1) == learns
    shared = run(tmp_path, "none", method="flatland-shared", num_rounds=0)
    assert set(curvatures(shared, 0)) == {-1.0}


def test_dropout_differs_from_round_to_round_and_from_client_to_client(tmp_path):
    """Clients with equal data and parameters at rest: losses differ by what was dropped alone."""
    torch.save(user_fields(), tmp_path / "own.pt")
    nodes = [{"partition-id": index, "data-path": str(tmp_path / "own.pt")} for index in range(3)]
    for dropout, distinct in [(0.5, 6), (0.0, 1)]:
        result = run(
            tmp_path,
            f"{dropout}",
            nodes=nodes,
            method="fedavg",
            learning_rate=1e-30,
            dropout=dropout,
        )
        assert len({row["loss"] for row in result.clients}) == distinct


def test_more_clients_than_a_process_keeps_set_up(tmp_path, monkeypatch):
    plain = run(tmp_path, "a", num_rounds=3)
    monkeypatch.setitem(live._limits, "clients", 1)
    for name, taken, kept in [("b", 0, 1), ("c", 2**60, CLIENTS)]:
        monkeypatch.setitem(live._limits, "bytes", taken)
        live.forget_all()
        assert same_arrays(run(tmp_path, name, num_rounds=3).model, plain.model)
        assert len(live._clients) == kept
    waiting = [parameter for one in live._clients.values() for parameter in one.model.parameters()]
    assert waiting
    assert all(parameter.grad is None for parameter in waiting)


@pytest.mark.parametrize("method", only(["flatland", "fedavg"], "flatland".__eq__))
def test_training_learns(method, tmp_path):
    result = run(tmp_path, method=method, num_rounds=30, embedding_dim=16, schedule="constant")
    assert (
        result.summary["personal_accuracy_mean"]
        > result.summary["metrics"]["majority_accuracy"] + 0.1
    )
    assert float(result.rounds[-1]["loss"]) < 0.7 * float(result.rounds[0]["loss"])


@pytest.mark.parametrize("sizes", [1, 10, 11, 25])
def test_the_worst_decile_is_the_mean_of_the_worst_tenth(sizes):
    values = np.random.default_rng(0).random(sizes)
    about = SimpleNamespace(metric="accuracy", statistics={})
    figures = personal_figures(
        {p: {"score": v} for p, v in enumerate(values)}, dict.fromkeys(range(sizes), about)
    )
    expected = np.sort(values)[: -(-sizes // 10)].mean()
    assert figures["personal_accuracy_worst_decile"] == pytest.approx(expected, abs=1e-15)

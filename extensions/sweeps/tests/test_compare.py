"""What a comparison tries, how it chooses, what it says, and that the same command goes on."""

import contextlib
import csv
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from app_runs import run
from graph_fixtures import write_tu, write_user_graph
from image_fixtures import write_classes
from scipy import stats
from tiers import only

from curvfed.deployments.arguments import UsageError
from curvfed.deployments.commands.command import main
from curvfed.deployments.resources import Resources
from curvfed.extensions.sweeps.commands.compare import results
from curvfed.extensions.sweeps.commands.compare.comparison import Comparison
from curvfed.extensions.sweeps.commands.compare.plan import first_lines, identity
from curvfed.extensions.sweeps.commands.compare.request import read_comparison
from curvfed.extensions.sweeps.commands.compare.tuning import (
    DROPPED,
    Choice,
    Size,
    Tuning,
)
from curvfed.extensions.sweeps.commands.pages.study import Planned
from curvfed.extensions.sweeps.commands.sweep import runner, task
from curvfed.extensions.sweeps.commands.sweep.child import Task
from curvfed.extensions.sweeps.commands.sweep.results import Results
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.methods import METHODS

SMALL = ["num-rounds=2", "embedding-dim=8", "num-supernodes=2"]
TUNED = [(name, kind) for name, row in METHODS.items() for kind in row.tuned]


@pytest.fixture(autouse=True)
def alone(own_home, tmp_path, monkeypatch):
    """In a folder and with a home of its own, and with room for a table."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")


# What is tried


@pytest.mark.parametrize(("name", "kind"), TUNED)
def test_what_a_method_tunes_are_keys_of_its_own_with_other_values_than_the_defaults(name, kind):
    row = METHODS[name]
    assert kind in row.tasks
    for key, values in row.tuned[kind].items():
        assert key.partition(".")[0] in row.keys
        for value in values:
            config = parse({"method": name, key: value})
            assert config[key] == value != parse({"method": name})[key]
        assert len(set(values)) == len(values) > 0


def read(*words: str) -> Comparison:
    return read_comparison(words, None)


def test_the_axes_of_a_method_begin_with_its_defaults():
    comparison = read("dataset=trees", "methods=fedavg,flatland,ditto")
    for name in ("fedavg", "flatland", "ditto"):
        entrant = comparison.entrants[name]
        assert entrant.settings == {"method": name}
        run = resolve_defaults(parse({"method": name, "dataset": "trees"}), "nodes")
        keys = [*METHODS[name].tuned.get("nodes", {}), "schedule"]
        if METHODS[name].space == "flat":
            keys.append("model")
        assert {key: values[0] for key, values in entrant.axes.items()} == {
            key: run[key] for key in keys
        }
        assert entrant.rate == run.learning_rate
        assert entrant.decay == run.weight_decay
    assert comparison.entrants["flatland"].axes["flatland.gate"] == [True, False]
    set_by_user = read("dataset=trees", "methods=fedavg,flatland", "schedule=inverse")
    assert "schedule" not in set_by_user.entrants["flatland"].axes


FLAT = ("flat", "split")
"""Spaces of flat rows."""


@pytest.mark.parametrize("name", METHODS)
def test_a_curved_row_is_defined_at_curvature_0_and_a_flat_row_has_no_curvature(name):
    row = METHODS[name]
    if not row.curvature_key:
        assert row.space in FLAT or row.control
        return
    for kind in row.tasks:
        settings = {"method": name, row.curvature_key: 0.0}
        config = resolve_defaults(parse(settings), kind)
        assert config[row.curvature_key] == 0


def test_a_curved_method_is_compared_with_itself_at_curvature_0_and_with_rivals():
    entrants = read("dataset=balanced-tree", "methods=links,links-inner,links-squared").entrants
    assert list(entrants) == ["links", "links at 0", "links-inner", "links-squared"]
    curved, flat, inner, _ = entrants.values()
    assert curved.at_zero == "links at 0"
    assert not curved.is_rival
    assert flat.settings == {"method": "links", "links.curvature": 0.0}
    assert flat.is_rival
    assert inner.is_rival
    assert {*curved.axes} - {*flat.axes} == {"links.average"}
    fixed = read("dataset=balanced-tree", "methods=links,links-inner", "links.curvature=-2")
    assert list(fixed.entrants) == ["links", "links at 0", "links-inner"]
    mean = read("dataset=balanced-tree", "methods=links,links-inner", "links.average=tangent")
    assert list(mean.entrants) == ["links", "links at 0", "links-inner"]


def test_local_training_of_curved_embeddings_is_no_flat_rival():
    entrants = read("dataset=balanced-tree", "methods=local,links-complex,links-inner").entrants
    assert list(entrants) == ["local", "local at 0", "links-complex", "links-inner"]
    assert [entrant.is_rival for entrant in entrants.values()] == [False, True, True, True]
    assert entrants["local"].at_zero == "local at 0"
    assert entrants["local at 0"].settings == {"method": "local", "links.curvature": 0.0}


FLAT_NETWORKS = [
    ("dataset=trees", "methods=flatland,fedavg", "model=gcn"),
    ("dataset=trees", "methods=fedavg,flatland-euclidean"),
    ("dataset=trees", "methods=fedavg,flatland", "flatland.curvature=0"),
    ("dataset=balanced-tree", "methods=links,links-inner", "links.score=inner"),
    ("dataset=balanced-tree", "methods=links,local", "links.curvature=0"),
    ("dataset=digits", "methods=fedavg,hyperfed", "hyperfed.curvature=0"),
]


@pytest.mark.parametrize("words", FLAT_NETWORKS)
def test_a_method_whose_network_is_flat_is_a_rival_and_has_no_row_at_0(words):
    entrants = read(*words).entrants
    assert len(entrants) == 2
    assert all(entrant.is_rival and not entrant.at_zero for entrant in entrants.values())


def test_a_flat_method_with_a_curved_network_is_set_beside_itself_at_0():
    entrants = read("dataset=trees", "methods=fedavg,local", "model=lorentz").entrants
    assert list(entrants) == ["fedavg", "fedavg at 0", "local", "local at 0"]
    assert [entrant.is_rival for entrant in entrants.values()] == [False, True, False, True]
    assert entrants["fedavg at 0"].settings["flatland.curvature"] == 0


def test_several_values_of_a_key_are_tried_with_its_type_by_the_methods_that_read_it():
    words = ("dropout=0.1|0.5", "flatland.gate=false|true", "fedprox.mu=0.1|1")
    axes = read("dataset=trees", "methods=fedavg,flatland", *words).entrants["flatland"].axes
    assert axes["dropout"] == [0.1, 0.5]
    assert axes["flatland.gate"] == [False, True]
    assert "fedprox.mu" not in axes


def test_a_method_beside_methods_is_refused_rather_than_left_out():
    with pytest.raises(UsageError, match='method = "fedprox" beside methods = "flatland,local"'):
        read("dataset=trees", "methods=flatland,local", "method=fedprox")


def test_a_method_on_the_sphere_has_a_control():
    entrants = read("dataset=digits", "methods=spherefed,fedavg").entrants
    assert list(entrants) == ["spherefed", "fedavg-calibrated", "fedavg"]
    assert entrants["spherefed"].control == "fedavg-calibrated"
    assert entrants["fedavg-calibrated"].is_rival


def test_a_named_rival_changes_the_answers_and_no_run():
    words = ("dataset=trees", "methods=flatland,fedavg,fedper")
    best, named = read(*words), read(*words, "against=fedper")
    assert (best.against, named.against) == ("auto", "fedper")
    assert identity(best.plan) == identity(named.plan)


def test_no_seed_is_both_chosen_by_and_compared_on():
    tuning, fresh = read("dataset=trees", "seed=7", "tuning-seeds=3", "seeds=4").seeds
    assert list(tuning) == [7, 8, 9]
    assert list(fresh) == [10, 11, 12, 13]


# What is refused

REFUSED = {
    "unknown method": (
        ["dataset=trees", "methods=fedavg,flatlnd"],
        "(`curvfed methods` lists all); did you mean 'flatland'?",
    ),
    "methods between other marks": (
        ["dataset=trees", "methods=fedavg/flatland"],
        "allowed are names of methods and rivals with commas between, auto, or all",
    ),
    "one method": (["dataset=trees", "methods=fedavg"], "allowed are two or more"),
    "method of images": (["dataset=trees", "methods=fedavg,spherefed"], "spherefed"),
    "several values": (["dataset=trees", "methods=fedavg,flatland", "dropout=2|3"], "dropout = 2"),
    "personal score of points": (["dataset=uniform", "score=personal"], "data of clients"),
    "reconstruction of images": (["dataset=digits", "score=reconstruction"], "allowed for links"),
    "one seed": (
        ["dataset=trees", "seeds=1"],
        "seeds is 1, but must be a whole number of at least 2",
    ),
    "a rival that is not compared": (
        ["dataset=trees", "methods=fedavg,flatland", "against=fedper"],
        "allowed is one of auto,fedavg,flatland at 0",
    ),
    "a curved rival": (
        ["dataset=trees", "methods=fedavg,flatland", "against=flatland"],
        "allowed is one of auto,fedavg,flatland at 0",
    ),
    "score": (["dataset=trees", "score=best"], "allowed is one of auto,personal,global"),
    "global score of graphs": (["dataset=trees", "score=global"], "allowed for images"),
    "no held-out links": (
        ["dataset=balanced-tree", "methods=links,links-inner", "links.hold-out=false"],
        "links.hold-out = false: allowed with score=reconstruction",
    ),
    "no validation": (
        ["dataset=trees", "train-size=0.6", "test-size=0.4"],
        "allowed is a sum below 1, because validation",
    ),
    "absent data": (["dataset=absent.pt"], "absent.pt"),
}


@pytest.mark.parametrize(("words", "message"), REFUSED.values(), ids=REFUSED)
def test_what_can_never_be_compared_is_refused_before_a_folder_is_made(
    words, message, capsys, own_home
):
    assert main(["compare", *words]) == 2
    captured = capsys.readouterr()
    assert message in captured.out + captured.err
    assert not (own_home / "curvfed" / "comparisons").exists()


def test_links_of_which_none_is_scored_are_refused_before_they_are_tuned(tmp_path, capsys):
    table = tmp_path / "tree.tsv"
    table.write_text("head\ttail\nb\ta\nc\ta\nd\tb\nd\ta\ne\tb\ne\ta\nf\tc\nf\ta\n")
    words = [f"dataset={table}", "num-supernodes=2", "methods=links,links-inner"]
    assert main(["compare", *words, "--results", str(tmp_path / "results")]) == 2
    assert "no client trains both entities of a test link" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_a_comparison_keeps_its_plan_while_it_runs(tmp_path, capsys):
    words = ["compare", "dataset=trees", "methods=fedavg,local", "--results", str(tmp_path)]
    with runner.locked(tmp_path):
        assert main(words) == 2
    assert "another sweep works in" in capsys.readouterr().err
    assert not (tmp_path / "plan.json").exists()


def test_a_folder_that_cannot_be_written_is_named(capsys):
    assert main(["compare", "dataset=trees", "methods=fedavg,local", "--results", "/proc"]) == 2
    assert "/proc cannot be written" in capsys.readouterr().err


# Choice

TEST = "best_validation.personal_accuracy_mean"
VALIDATION = "best_validation.metrics.validation"


def fake(error: str = "", **figures: float | None) -> Any:
    values = {TEST: figures.get("test"), VALIDATION: figures.get("validation")}
    values["metrics.replies_dropped"] = figures.get("dropped", 0)
    return SimpleNamespace(error=error, figure=values.get, warnings=["client 3 was slow"])


def tuned(
    score: Callable[[Mapping[str, Any]], Any], *words: str
) -> tuple[Choice, list[tuple[str, int]]]:
    """The choice for FedAvg, whose default rate is .01, if its runs' validation scores are a
    function of the settings; and the words of each batch, with the number of runs expected from it
    on."""
    words = words or ("schedule=constant", "model=gcn")
    stream = Tuning(read("dataset=trees", "methods=fedavg,local", *words), "fedavg").stream()
    batches = []
    runs: Any = None
    while True:
        try:
            batch = stream.send(runs)
        except StopIteration as end:
            return end.value[0], batches
        batches.append((batch.words, len(batch.runs) + batch.later))
        runs = [score({"weight-decay": 0.0, **run.settings}) for run in batch.runs]


@pytest.mark.parametrize(
    ("key", "best"),
    [
        *(("learning-rate", best) for best in (1e-5, 0.0316, 20.0)),
        *(("weight-decay", best) for best in (1e-5, 0.2, 10.0)),
    ],
)
def test_rates_and_decays_are_tried_until_a_worse_one_is_on_either_side(key, best):
    def score(settings: Mapping[str, Any]) -> Any:
        return fake(validation=-abs(np.log(settings[key] / best)), test=0.5)

    choice, _ = tuned(score)
    assert abs(np.log10(choice.configuration[key] / best)) <= 0.25


@pytest.mark.parametrize(
    ("swept", "key", "value", "best", "words"),
    [
        ("weight-decay", "schedule", "inverse", 1.0, ["learning-rate=0.01"]),
        ("learning-rate", "model", "gated", 0.1, ["budget=12"]),
    ],
)
def test_rates_and_decays_are_swept_again_once_the_other_keys_are_chosen(
    swept, key, value, best, words
):
    def score(settings: Mapping[str, Any]) -> Any:
        gain = 10 * (settings[key] == value)
        misfit = abs(np.log10(settings[swept] / (best if gain else 0.01)))
        return fake(validation=gain - misfit, test=0.5)

    choice, _ = tuned(score, *words)
    assert choice.configuration[key] == value
    assert abs(np.log10(choice.configuration[swept] / best)) <= 0.25


def test_no_more_configurations_are_tried_beside_rates_and_decays_than_the_budget_allows():
    def score(settings: Mapping[str, Any]) -> Any:
        return fake(validation=float(settings["schedule"] == "inverse"), test=0.5)

    words = ("weight-decay=0.01", "learning-rate=0.01")  # so that model and schedule are left
    choice, _ = tuned(score, *words, "budget=1")
    assert choice.configuration["schedule"] == "constant"
    assert choice.tried == 2
    choice, _ = tuned(score, *words)
    assert choice.configuration["schedule"] == "inverse"
    assert choice.tried == 3


def test_a_rate_that_diverges_on_one_seed_is_out():
    def score(settings: Mapping[str, Any]) -> Any:
        rate = settings["learning-rate"]
        return fake(validation=rate, test=0.5, dropped=int(rate > 0.05))

    choice, batches = tuned(score)
    assert choice.configuration["learning-rate"] == 0.0316
    steps = [step for step, _ in batches]
    assert steps.count("tuning of rates") == 1  # .1 is tried at first, and nothing beyond


def test_the_refused_replies_of_a_run_are_known(tmp_path):
    path = run(tmp_path, "it", num_rounds=1).path
    planned = Planned({"dataset": "trees"}, path.name)
    results = Results(path.parent)
    results.record(planned)
    assert results.select([planned])[0].figure(DROPPED) == 0


def test_a_step_without_new_configurations_is_not_named_and_runs_are_expected():
    words = ("schedule=constant", "model=gcn", "weight-decay=0")
    _, batches = tuned(lambda settings: fake(validation=0.5, test=0.5), *words)
    # Five rates and perhaps two again on two seeds, then five fresh ones.
    assert batches == [("tuning of rates", 2 * (5 + 2) + 5), ("comparison", 5)]


@pytest.mark.parametrize("words", [(), ("budget=1",), ("learning-rate=0.01",), ("seeds=2",)])
def test_the_number_of_runs_is_at_most_the_promised_one_whatever_the_scores(words):
    rng = np.random.default_rng(0)
    comparison = read("dataset=trees", "methods=fedavg,local", *words)
    for _ in range(3):
        tuning = Tuning(comparison, "fedavg")
        stream = tuning.stream()
        batch = next(stream)
        numbers = []
        with contextlib.suppress(StopIteration):
            while True:
                numbers.append(len(batch.runs))
                scores = rng.uniform(size=len(batch.runs))
                batch = stream.send([fake(validation=score, test=0.5) for score in scores])
        expected, most = tuning.tuning_runs
        assert 0 < expected <= most
        assert sum(numbers[:-1]) <= most
        assert numbers[-1] == comparison.numbers["seeds"]


def test_too_few_seeds_for_intervals_are_noted_before_the_runs():
    sizes = [Size(39, 181), Size(10, 10)]
    few = first_lines(read("dataset=trees", "methods=fedavg,local", "seeds=2"), sizes)
    assert few[1].startswith("about 53 runs, at most 195: ")
    assert "seeds = 2" in few[3]
    chosen = first_lines(read("dataset=trees", "methods=fedavg,local", "budget=1"), sizes)
    assert not any("fewer runs" in line for line in chosen)
    enough = first_lines(read("dataset=trees", "methods=fedavg,local", "seeds=3"), [Size(5, 5)] * 2)
    assert enough[1].startswith("16 runs: ")
    assert len(enough) == 2


def test_notes_on_the_data_come_before_the_runs_and_on_the_page(run_names, tmp_path, capsys):
    """Direct parents alone cannot be predicted, which `check` says too."""
    table = tmp_path / "tree.tsv"
    table.write_text("".join(f"n{node}\tn{(node - 1) // 2}\n" for node in range(1, 127)))
    words = ["compare", f"dataset={table}", "methods=links-inner,links-complex"]
    words += ["num-supernodes=2", "embedding-dim=4"]
    words += ["learning-rate=0.1", "weight-decay=0", "budget=1", "tuning-seeds=1", "seeds=2"]
    words += ["num-rounds=1", f"results-dir={tmp_path / 'runs'}"]
    note = "clients 0, 1 (of 2 checked): the links seem to name direct parents alone"
    assert main(words) == 0
    before_runs = capsys.readouterr().out.partition("report: ")[0]
    assert f"note: {note}" in before_runs
    assert note in (tmp_path / "runs" / "comparison.md").read_text()
    assert read(*words[1:], "links.closure=true").notes == ()


def test_validation_chooses_whatever_the_test_scores_are():
    scores = {
        1e-5: fake(validation=0.5, test=0.9),
        0.01: fake(validation=0.6, test=0.1),
        0.0316: fake(validation=0.4, test=0.8),
        0.1: fake(error="out of memory"),
        1.0: fake(error="out of memory"),
    }
    words = ("learning-rate=0.05", "schedule=constant", "model=gcn")
    choice, _ = tuned(lambda settings: scores[settings["weight-decay"]], *words)
    assert choice == Choice({"weight-decay": 0.01}, pytest.approx(0.6), 5)
    choice, _ = tuned(lambda settings: fake(error="out of memory"), *words)
    assert choice.configuration == {}
    assert choice.error == "out of memory"
    choice, _ = tuned(lambda settings: fake(test=0.5), *words)
    assert choice.error == (
        "no run has the compared figures with all clients' replies; client 3 was slow"
    )


# Intervals and words


def rows_of(scores: Mapping[str, Any], **parts: Mapping[str, Any]) -> list[results.Row]:
    """Rows with these scores, in which further parts by name replace the defaults."""
    rows: list[results.Row] = [
        {
            "method": name,
            "at_zero": "",
            "control": "",
            "is_rival": True,
            "validation": float(np.mean(values)),
            "figure": TEST,
            "scores": list(values),
            "mean": float(np.mean(values)),
            "trivial": None,
            "bytes": 1,
            "seconds": 1,
            **parts.get(name, {}),
        }
        for name, values in scores.items()
    ]
    rows.sort(key=lambda row: -row["mean"])
    results.add_differences(rows)
    return rows


def test_both_questions_are_answered_with_intervals_for_all_of_them():
    rng = np.random.default_rng(0)
    scores = {
        "curved": rng.normal(0.8, 0.01, 6),
        "curved at 0": rng.normal(0.79, 0.03, 6),
        "rival": rng.normal(0.5, 0.01, 6),
        "lucky": rng.normal(0.6, 0.01, 6),
    }
    rows = rows_of(
        scores,
        curved={"at_zero": "curved at 0", "is_rival": False, "trivial": 0.55},
        rival={"validation": 0.7, "trivial": 0.55},
        lucky={"validation": 0.6},
        **{"curved at 0": {"is_rival": False}},
    )
    row = next(row for row in rows if row["method"] == "curved")
    for keys, reference in ((results.CURVATURE, "curved at 0"), (results.USE, "rival")):
        test = stats.ttest_rel(scores["curved"], scores[reference])
        interval = test.confidence_interval(1 - 0.05 / 2)
        mean = np.mean(scores["curved"] - scores[reference])
        assert [row[key] for key in keys] == pytest.approx([mean, *interval])
    said = results.answers(rows, "mine")
    assert said[0].startswith("Is it the curvature? Not known: ")
    assert said[1].startswith("Should I use it? Yes: ")
    assert "best rival by the tuning seeds, rival" in said[1]
    assert said[3].endswith("(55.0%): rival.")


def test_a_method_is_not_its_own_rival_and_flat_methods_have_no_questions():
    scores = {"curved": [0.8, 0.7, 0.9], "flat": [0.5, 0.4, 0.7]}
    curved = {"at_zero": "curved at 0", "is_rival": True}
    named, flat = rows_of(scores, curved=curved, flat={"is_rival": False})
    assert "use" not in named.keys() | flat.keys()
    reading, _ = results.answers([named, flat], "mine")
    assert "questions" not in reading


@pytest.mark.parametrize(
    ("mean", "spread", "answer", "conclusion"),
    [
        (0.05, 0.01, "Yes: ", "lies above 0."),
        (-0.05, 0.01, "No: ", "lies below 0."),
        (0.001, 0.003, "It makes hardly a difference: ", "reaches at most 2 points from it."),
        (0.001, 0.05, "Not known: ", "More seeds narrow the interval."),
    ],
)
def test_each_of_the_four_conclusions_has_its_words(mean, spread, answer, conclusion):
    at_zero = np.array([0.5, 0.51, 0.52, 0.53, 0.54])
    gains = mean + spread * np.array([1, -1, 0.5, -0.5, 0.0])
    rows = rows_of(
        {"curved": at_zero + gains, "curved at 0": at_zero},
        curved={"at_zero": "curved at 0", "is_rival": False},
        **{"curved at 0": {"is_rival": False}},
    )
    curved = next(row for row in rows if row["method"] == "curved")
    said = results.answers(rows, "mine")[0]
    assert said.startswith(f"Is it the curvature? {answer}curved scores ")
    assert said.endswith(conclusion)
    low, high = (100 * curved[key] for key in results.CURVATURE[1:])
    assert f"{low:.1f} to {high:.1f}".replace("-", "−") in said
    assert f"{abs(100 * mean):.1f} points {'less' if mean < 0 else 'more'} than itself" in said


def test_two_seeds_give_differences_without_intervals():
    scores = {"curved": [0.5, 0.7], "curved at 0": [0.4, 0.65], "rival": [0.3, 0.8]}
    rows = rows_of(
        scores,
        curved={"at_zero": "curved at 0", "is_rival": False},
        **{"curved at 0": {"is_rival": False}},
    )
    curved = next(row for row in rows if row["method"] == "curved")
    assert [curved[key] for key in results.CURVATURE] == [pytest.approx(0.075), None, None]
    assert results.points(curved, results.CURVATURE) == "7.5"
    curvature, use, *_ = results.answers(rows, "mine")
    assert all("? Not known: " in said for said in (curvature, use))


def test_no_interval_reaches_beyond_what_scores_allow():
    rows = rows_of({f"m{number}": [0.1 * number, 0.9, 0.05] for number in range(6)})
    rows = rows_of({row["method"]: [*row["scores"]] for row in rows} | {"far": [0.9, 0.0, 0.9]})
    for row in rows[1:]:
        assert -1 <= row["low"] <= row["difference"] <= row["high"] <= 1
    assert any(row["low"] == -1 for row in rows[1:])


def test_no_interval_is_wrong_more_often_than_promised():
    """Where all are alike but for luck, the winner by luck must not seem the best."""
    rng = np.random.default_rng(1)
    missed = 0
    draws = 600
    for _ in range(draws):
        rows = rows_of(
            {f"m{number}": values for number, values in enumerate(rng.normal(0.0, 1.0, (5, 5)))}
        )
        missed += any(not row["low"] <= 0 <= row["high"] for row in rows[1:])
    assert missed / draws <= 0.05
    assert missed > 0  # or nothing would ever be seen


def test_equal_scores_cannot_be_reported_apart_and_constant_differences_can():
    rows = rows_of({"one": [0.5, 0.6, 0.7], "same": [0.5, 0.6, 0.7], "less": [0.4, 0.5, 0.6]})
    expected = [(0.0, 0.0), pytest.approx((-0.1, -0.1))]
    assert [(row["low"], row["high"]) for row in rows[1:]] == expected
    _, said = results.answers(rows, "data")
    assert "better than same: they score the same" in said
    assert said.endswith("less scored less.")


def test_the_answer_names_the_best_or_those_that_are_level_and_what_they_cost():
    noise = np.array([0.0, 0.02, -0.02, 0.01, -0.01])
    clear = {"one": 0.9 + noise, "two": 0.8 + noise[::-1] / 10, "three": 0.5 + noise}
    _, said = results.answers(rows_of(clear), "mine")
    assert said.startswith(
        "Which is best? one (90.0%) is the best of these 3 methods on mine: 10.0 points more than"
        " two, the next, over 5 seeds (95% interval "
    )
    span = said.removesuffix(", above 0).").rpartition("interval ")[2]
    low, high = map(float, span.split(" to "))
    assert 0 < low < 10 < high < 20
    level = clear | {"two": 0.9 + noise[::-1]}
    _, said = results.answers(
        rows_of(level, one={"bytes": 5}, two={"bytes": 3, "seconds": 2}), "mine"
    )
    assert "(cheapest in bytes: two); three scored less." in said
    _, said = results.answers(rows_of(level, two={"seconds": 2}), "mine")
    assert "cheapest" not in said
    counted = rows_of(level, one={"examples": 1300}, two={"examples": 90})
    assert "The score of a run is of 90 test examples or more." in results.answers(counted, "mine")
    for rows in (rows_of({"one": noise}), []):
        (said,) = results.answers(rows, "mine")
        assert said.startswith("Nothing can be compared on mine")


# Whole comparisons


@pytest.fixture
def run_names(monkeypatch) -> list[str]:
    """Runs are made in this process, by what a process of a sweep calls; names as they begin."""
    begun: list[str] = []

    class Here:
        """Makes runs in this process."""

        resources = Resources()

        def __init__(self, resources: Resources) -> None:
            self.queue: deque[Task] = deque()

        @property
        def running(self) -> int:
            return min(1, len(self.queue))

        def add(self, tasks: Sequence[Task]) -> None:
            self.queue += [task.with_workers(1) for task in tasks]

        def next(self) -> tuple[Task, str, float]:
            run = self.queue.popleft()
            begun.append(run.name)
            return run, task.make(*run), 1.0

        def close(self) -> None:
            pass

    monkeypatch.setattr(runner, "Pool", Here)
    return begun


def comparison(folder: Path) -> Any:
    return json.loads((folder / "comparison.json").read_text())


def test_own_graph_is_compared_from_one_command_that_goes_on(
    run_names, tmp_path, capsys, monkeypatch
):
    write_user_graph(tmp_path / "mine.pt")
    words = [
        "compare",
        "dataset=mine.pt",
        "methods=local,fedavg",
        "learning-rate=0.01",
        "budget=2",
        "tuning-seeds=1",
        "seeds=3",
        "num-rounds=1",
        *SMALL[1:],
    ]
    to = ["--results", str(tmp_path / "runs")]
    original = task.make

    def killed(settings: Any, number: int, folder: str, name: str) -> str:
        if len(run_names) == 6:  # in the second step
            raise KeyboardInterrupt
        return original(settings, number, folder, name)

    monkeypatch.setattr(task, "make", killed)
    assert main([*words, *to]) == 130
    assert "the same command continues" in capsys.readouterr().out
    monkeypatch.setattr(task, "make", original)
    before = list(run_names)
    assert main([*words, *to]) == 0
    # only what was cut off is begun again
    assert {*run_names[len(before) :]} & {*before} == {before[-1]}
    out = capsys.readouterr().out
    stored = comparison(tmp_path / "runs")
    tried = sum(row["tried"] for row in stored["methods"])
    assert len(set(run_names)) == len(run_names) - 1 == tried + 2 * 3
    answer, *_ = stored["answers"]
    assert out.splitlines()[-1] == stored["answers"][-1]
    assert {row["method"]: row["seeds"] for row in stored["methods"]} == {
        "local": [1, 2, 3],
        "fedavg": [1, 2, 3],
    }
    for row in stored["methods"]:
        for name in run_names:
            summary = json.loads((tmp_path / "runs" / name / "summary.json").read_text())
            if summary["method"] == row["method"] and summary["seed"] in row["seeds"]:
                place = row["seeds"].index(summary["seed"])
                assert row["scores"][place] == summary["best_validation"]["personal_accuracy_mean"]
    page = (tmp_path / "runs" / "comparison.md").read_text()
    assert page.splitlines()[2] == answer
    numbers = sorted({row["tried"] for row in stored["methods"]})
    assert f"the best of {' to '.join(map(str, numbers))} by validation on another seed" in page
    assert "learning rates, decays, and at most 2 other configurations (budget)" in page
    assert "weight-decay=" in page
    assert answer.replace("'", "&#39;") in (tmp_path / "runs" / "comparison.html").read_text()
    table = csv.DictReader((tmp_path / "runs" / "comparison.csv").read_text().splitlines())
    assert [row["method"] for row in table] == [row["method"] for row in stored["methods"]]
    assert (tmp_path / "runs" / "comparison.png").exists()

    # Nothing is made again; and no other comparison is made here.
    count = len(run_names)
    assert main([*words, *to]) == 0
    assert len(run_names) == count
    capsys.readouterr()
    for setting, message in (
        ("tuning-seeds=2", "tuning-seeds = 1, not 2"),
        ("methods=local,fedper", "methods"),
        ("alpha=0.2", 'alpha = "auto"'),
    ):
        assert main([*words, setting, *to]) == 2
        assert message in capsys.readouterr().err
    assert len(run_names) == count

    # With more seeds only their runs are made, and the results say that there were others.
    assert main([*words, "seeds=4", *to]) == 0
    assert len(set(run_names[count:])) == len(run_names[count:]) == 2
    more = comparison(tmp_path / "runs")
    for row in more["methods"]:
        (before,) = (old for old in stored["methods"] if old["method"] == row["method"])
        assert row["seeds"] == [1, 2, 3, 4]
        assert row["scores"][:3] == before["scores"]
    earlier = "compared before on 3 seeds"
    assert earlier in (tmp_path / "runs" / "comparison.md").read_text()
    assert main([*words, *to]) == 0
    assert len(run_names) == count + 2
    assert comparison(tmp_path / "runs")["methods"] == stored["methods"]
    assert "compared before on 4 seeds" in (tmp_path / "runs" / "comparison.md").read_text()
    capsys.readouterr()

    (tmp_path / "runs" / "plan.json").write_text("{")
    assert main([*words, *to]) == 2
    assert "plan.json cannot be read" in capsys.readouterr().err


def test_a_method_that_fails_is_named_with_the_reason_and_the_others_are_compared(
    run_names, tmp_path, capsys, monkeypatch
):
    original = task.make

    def failing(settings: Any, number: int, folder: str, name: str) -> str:
        if settings["method"] == "fedper" or (
            settings["method"] == "local" and settings["weight-decay"] != 1e-5
        ):
            return "out of memory"
        return original(settings, number, folder, name)

    monkeypatch.setattr(task, "make", failing)
    words = [
        *("dataset=trees", "methods=local,fedavg,fedper", "budget=2", "tuning-seeds=1", "seeds=2"),
        *("learning-rate=0.01", "model=gcn", "schedule=constant", "num-rounds=1"),
    ]
    assert main(["compare", *words, *SMALL[1:]]) == 1
    out = capsys.readouterr().out
    assert "fedper is not compared: out of memory" in out
    assert "runs failed" in out
    # by default, one for each comparison
    (folder,) = (tmp_path / "home" / "curvfed" / "comparisons").iterdir()
    stored = comparison(folder)
    assert [bool(row["error"]) for row in stored["methods"]] == [False, False, True]
    chosen = {row["method"]: row["configuration"] for row in stored["methods"]}
    assert chosen["local"] == {"weight-decay": 1e-5}
    assert chosen["fedper"] == {}
    assert stored["answers"][-1].startswith("Which is best? ")
    assert "note: seeds = 2 gives no intervals" in out
    for row in stored["methods"][1:2]:
        assert row["low"] == row["high"]  # None, unless the runs are equal


def write_links(path: Path) -> None:
    """The links of a tree of three layers to all ancestors, with a header."""
    rows = ["head\ttail"]
    for number in range(1, 40):
        above = number
        while above:
            above = (above - 1) // 3
            rows.append(f"n{number}\tn{above}")
    path.write_text("\n".join(rows) + "\n")


def write_cells(path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = ["x,y,label"]
    for label, centre in enumerate(((0.4, 0.0), (-0.3, 0.4), (-0.2, -0.5))):
        for x, y in rng.normal(centre, 0.1, (30, 2)):
            rows.append(f"{x:.4f},{y:.4f},{label}")
    path.write_text("\n".join(rows) + "\n")


EVERY_KIND: dict[str, tuple[Callable[[Path], object], str, list[str], set[str]]] = {
    "own links": (write_links, "tree.tsv", [], {"links", "links at 0", "links-inner"}),
    "reconstruction": (
        write_links,
        "tree.tsv",
        ["methods=links,links-inner", "score=reconstruction"],
        {"links", "links at 0", "links-inner"},
    ),
    "images in folders": (
        lambda path: write_classes(path, {"cat": 30, "dog": 30}, shape=(8, 8)),
        "pictures/",
        ["methods=fedavg,spherefed,hyperfed", "local-epochs=1", "images.size=8"],
        {"fedavg", "spherefed", "fedavg-calibrated", "hyperfed", "hyperfed at 0"},
    ),
    "cells": (
        write_cells,
        "cells.csv",
        ["methods=discriminant,hull"],
        {"hull", "hull-flat", "discriminant"},
    ),
    "whole graphs": (
        write_tu,
        "MUTAG",
        ["methods=fedavg,flatland", "data-dir=."],
        {"flatland", "flatland at 0", "fedavg"},
    ),
    "nodes": (lambda path: None, "trees", ["methods=fedavg-mean,flatland"], {"flatland at 0"}),
}


@pytest.mark.parametrize("kind", only(EVERY_KIND, "own links".__eq__))
def test_every_kind_of_data_is_compared(kind, run_names, tmp_path, capsys):
    write, name, words, names = EVERY_KIND[kind]
    write(tmp_path if name == "MUTAG" else tmp_path / name)
    folder = tmp_path / "runs"
    common = ["budget=1", "tuning-seeds=1", "seeds=2", "num-rounds=1"]
    sizes = ["learning-rate=0.05", "weight-decay=0", "embedding-dim=4", "num-supernodes=2"]
    status = main(["compare", f"dataset={name}", *words, *common, *sizes, "--results", str(folder)])
    assert status == 0, capsys.readouterr().out
    stored = comparison(folder)
    rows = {row["method"]: row for row in stored["methods"]}
    assert names <= rows.keys()
    curved = next(row for row in rows.values() if row["at_zero"] or row["control"])
    assert {"curvature", "use", "trivial"} <= curved.keys()
    assert curved["trivial"] is not None
    questions = [text.partition("?")[0] for text in stored["answers"]]
    assert {"Is it the curvature", "Should I use it"} <= set(questions)
    is_hierarchy = kind == "own links"
    assert any("several direct parents" in text for text in stored["answers"]) == is_hierarchy
    assert any("score=global ranks all" in text for text in stored["answers"]) == is_hierarchy


@pytest.mark.usefixtures("offline")
def test_absent_data_are_named_once_and_nothing_is_made(tmp_path, capsys):
    places = ["--data", str(tmp_path), "--results", str(tmp_path / "results")]
    assert main(["compare", "dataset=Cora", *places]) == 2
    output = capsys.readouterr()
    assert (output.out + output.err).count("the download fails") == 1
    assert not list(tmp_path.iterdir())

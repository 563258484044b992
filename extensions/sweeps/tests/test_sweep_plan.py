"""What a sweep file means, which of its runs are one, and the table that they end up in."""

import importlib
import json
import math
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st
from stored import write_settings
from tiers import examples
from toml_forms import FORMS

from curvfed.deployments.arguments import UsageError
from curvfed.deployments.commands.command import main
from curvfed.extensions.sweeps.commands.pages.study import Plan, Planned
from curvfed.extensions.sweeps.commands.sweep import PLACES, read_plan
from curvfed.extensions.sweeps.commands.sweep.results import FILE, Results
from curvfed.extensions.sweeps.commands.sweep.runner import locked
from curvfed.server_app.directory.summary import failed_summary
from curvfed.strategies.base.keys import nested
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import RunConfig, defaults, flatten
from curvfed.tasks.plugins import MODEL_CODE, additions

GRID = """
title = "A grid"
source = "Table 1"
about = "Two axes."
[settings]
method = ["flatland", "fedavg"]
seed = [0, 1, 2]
num-supernodes = 3
"""


@pytest.fixture
def written(tmp_path):
    """A sweep file with this content, and its plan."""

    def write(content: str, scale: str = "") -> Plan:
        path = tmp_path / "sweep.toml"
        path.write_text(content, encoding="utf-8")
        return read_plan(path, scale)

    return write


def pairs(plan: Plan, *keys: str) -> list[tuple[Any, ...]]:
    return [tuple(run.value(key) for key in keys) for run in plan.runs]


# The grammar


@pytest.mark.parametrize("form", FORMS)
def test_a_file_is_read_as_windows_saves_it(form, tmp_path):
    path = tmp_path / "a.toml"
    path.write_bytes(FORMS[form]('[settings]\ndataset = "trees"\nseed = [0, 1]\n'))
    assert len(read_plan(path).runs) == 2


def test_the_last_key_changes_fastest(written):
    plan = written(GRID)
    assert plan.title == "A grid"
    assert plan.source == "Table 1"
    assert plan.about == "Two axes."
    expected = [(m, s) for m in ("flatland", "fedavg") for s in (0, 1, 2)]
    assert pairs(plan, "method", "seed") == expected
    assert {run.value("num-supernodes") for run in plan.runs} == {3}
    assert not any(run.refused for run in plan.runs)
    assert plan.runs[0].value("dropout") == RunConfig().dropout  # by default


def test_blocks_of_runs_come_one_after_the_other_and_on_top_of_the_settings(written):
    plan = written(GRID + '[[runs]]\nalpha = [0.1, 0.5]\nseed = 7\n[[runs]]\nmethod = "local"\n')
    expected = [
        *[(method, 7, alpha) for method in ("flatland", "fedavg") for alpha in (0.1, 0.5)],
        *[("local", seed, 0.5) for seed in (0, 1, 2)],
    ]
    assert pairs(plan, "method", "seed", "alpha") == expected


def test_tables_and_dotted_keys_are_one(written):
    ways = [
        "[settings.flatland]\ngate = [true, false]\n",
        "[settings]\nflatland.gate = [true, false]\n",
        '[settings]\n"flatland.gate" = [true, false]\n',
        "[[runs]]\nflatland = {gate = [true, false]}\n",
        "[[runs]]\n[runs.flatland]\ngate = [true, false]\n",
    ]
    names = {tuple(run.name for run in written(way).runs) for way in ways}
    assert len(names) == 1
    assert pairs(written(ways[0]), "flatland.gate") == [(True,), (False,)]


def test_equal_configurations_are_one_run(written):
    """By default, as a whole number, in capitals, in another order, or twice."""
    twice = written("[settings]\nseed = [0, 1, 0]\n[[runs]]\n[[runs]]\nnum-rounds = 100\n")
    assert pairs(twice, "seed") == [(0,), (1,)]
    alike = [
        *('method = "flatland"', 'dataset = "auto"', 'dataset = "trees"', 'dataset = "Trees"'),
        *("num-supernodes = 10", "alpha = 0.5", "min-replies = 1\nseed = 0", 'sinks = ""'),
    ]
    assert len({written(f"[settings]\n{lines}\n").runs[0].name for lines in alike}) == 1
    different = [
        "seed = 1",
        "num-supernodes = 9",
        "num-rounds = 99",
        "flatland.gate = false",
        'method = "fedavg"',
        'dataset = "cora"',
        "seed = 0",
    ]
    assert len({written(f"[settings]\n{lines}\n").runs[0].name for lines in different}) == len(
        different
    )


def test_a_key_that_a_method_does_not_read_makes_no_run_of_it(written):
    """Neither keys of another method's table nor keys without effect, such as the rounds of
    hull."""
    margins = written(
        '[settings]\nmethod = ["hyperfed", "fedavg"]\ndataset = "digits"\n'
        "hyperfed.margin = [0.1, 0.2]\n"
    )
    expected = [("hyperfed", 0.1), ("hyperfed", 0.2), ("fedavg", "")]
    assert pairs(margins, "method", "hyperfed.margin") == expected
    rounds = written(
        '[settings]\ndataset = "uniform"\nmethod = "hull"\n[[runs]]\nnum-rounds = [5, 9]\n'
        "[[runs]]\nhull.epsilon = 0.5\n"
    )
    assert pairs(rounds, "method", "num-rounds", "hull.epsilon")[0] == ("hull", "", 0.01)
    assert len(rounds.runs) == 2


def test_keys_that_a_resumed_run_may_change_tell_runs_apart(written):
    """They change what the server makes of the hulls."""
    plan = written("""
[settings]
method = "hull"
hull.classifier = ["svm", "depth"]
hull.grouping = ["assignment", "spectral"]
""")
    assert len(pairs(plan, "hull.classifier", "hull.grouping")) == 4
    assert len({run.name for run in plan.runs}) == 4


def test_a_refused_configuration_is_kept_with_its_reason(written):
    plan = written(
        '[settings]\nmethod = ["flatland", "spherefed", "flatlnd"]\ndataset = "cora"\nseed = [0,'
        " -1]\n"
    )
    assert [bool(run.refused) for run in plan.runs] == [False, True, True, True, True, True]
    assert "seed = -1: allowed is a whole number >= 0" in plan.runs[1].refused
    assert "spherefed" in plan.runs[2].refused
    assert 'did you mean "flatland"?' in plan.runs[4].refused
    assert len({run.name for run in plan.runs}) == 6


VALUES = {
    "method": ["flatland", "fedavg", "local"],
    "seed": [0, 1, 2],
    "alpha": [0.5, 1],
    "dropout": [0.0, 0.5],
    "num-supernodes": [1, 2, 10],
}


AXES = {
    key: st.lists(st.sampled_from(values), min_size=1, max_size=3) for key, values in VALUES.items()
}


@examples(20)
@given(st.fixed_dictionaries({}, optional=AXES).filter(bool))
def test_the_runs_are_the_product_of_the_axes_less_the_duplicates(tmp_path_factory, axes):
    path = tmp_path_factory.getbasetemp() / "product.toml"
    path.write_text(tomli_w.dumps({"settings": nested(axes)}))
    plan = read_plan(path)
    assert len(plan.runs) == math.prod(len(set(values)) for values in axes.values())
    assert len({run.name for run in plan.runs}) == len(plan.runs)
    for key, values in axes.items():
        assert {run.value(key) for run in plan.runs} == set(values)


@pytest.mark.parametrize(
    ("content", "scale", "message"),
    [
        ("[settings]\nnum-ronds = 3", "", 'did you mean "num-rounds"?'),
        ("[settings]\nseed = []", "", "seed is an empty list"),
        ("[settings]\nnum-supernodes = [2, 0]", "", "num-supernodes is 0"),
        ("[seting]\nseed = 1", "", "'seting' is not known; allowed are title"),
        ("seed = 1", "", "belong in [settings] or [[runs]]"),
        ("[runs]\nseed = 1", "", "each headed by [[runs]]"),
        ("[scales.smoke.settings]\nseed = 1", "", "has the scales smoke: name one by --scale"),
        ("[scales.smoke.settings]\nseed = 1", "paper", "has no scale 'paper'; it has smoke"),
        ("[settings\nseed = 1", "", "is not TOML: "),
        *((f'[settings]\n{key} = "x"', "", f"'{key}' is not for a sweep") for key in PLACES),
    ],
)
def test_wrong_usage_names_the_file_the_key_and_what_is_allowed(
    written, tmp_path, content, scale, message
):
    with pytest.raises(UsageError) as error:
        written(content, scale)
    assert message in str(error.value)
    assert str(tmp_path / "sweep.toml") in str(error.value)


# The user's own data


def test_relative_paths_start_at_the_folder_of_the_file(written, tmp_path, monkeypatch):
    names = ["mine.pt", "../mine.csv", "a/b", "/data/x.pt", "~/x.pt", "cora"]
    content = f'[settings]\nmethod = "fedavg"\ndataset = {json.dumps(names)}\n'
    plan = written(content)
    expected = [
        *(
            str(path)
            for path in (tmp_path / "mine.pt", tmp_path.parent / "mine.csv", tmp_path / "a" / "b")
        ),
        *(None, None, None),
    ]
    assert [run.paths.get("dataset") for run in plan.runs] == expected
    # tables and figures ask for what the file says
    assert pairs(plan, "dataset") == [(name,) for name in names]
    runs = [run.name for run in plan.runs]
    monkeypatch.chdir(tmp_path)
    assert [run.name for run in read_plan(Path("sweep.toml")).runs] == runs


def test_own_data_are_known_by_what_they_hold(written, tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    (tmp_path / "mine.csv").write_text("x,y,label\n0,0,a\n")
    (folder / "mine.csv").write_text("x,y,label\n0,0,a\n")

    def names() -> list[str]:
        return [
            run.name
            for run in written(
                '[settings]\ndataset = ["mine.csv", "./a"]\ntest-data = "mine.csv"\n'
            ).runs
        ]

    before = names()
    moved = shutil.copytree(tmp_path, tmp_path.with_name("elsewhere"))
    assert [run.name for run in read_plan(moved / "sweep.toml").runs] == before
    (folder / "mine.csv").write_text("x,y,label\n0,1,a\n")
    assert [new == old for new, old in zip(names(), before, strict=True)] == [True, False]
    (tmp_path / "mine.csv").rename(folder / "other.csv")
    assert not set(names()) & set(before)


@pytest.mark.skipif("note" not in additions(MODEL_CODE), reason="code of models is not compared")
def test_own_models_are_known_by_their_code(written, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)

    def names(code: str) -> list[str]:
        (tmp_path / "sweep_net.py").write_text(f"def make(features, classes):\n    {code}\n")
        importlib.invalidate_caches()
        sys.modules.pop("sweep_net", None)
        models = ["sweep_net:make", "sweep_net:absent", "gcn"]
        plan = written(f'[settings]\nmethod = "fedavg"\nmodel = {json.dumps(models)}\n')
        return [run.name for run in plan.runs]

    before = names("return features + classes")
    assert names("return features + classes") == before
    changed = names("return features - classes")
    assert [new == old for new, old in zip(changed, before, strict=True)] == [False, True, True]


# The table


def finish(folder: Path, run: Planned, **summary: Any) -> None:
    """A run directory as a completed run leaves it."""
    place = folder / run.name
    place.mkdir(parents=True)
    outcome = {
        "status": "completed",
        "metrics": {"roc_auc": 0.75},
        "best_validation": {"round": 2, "global_accuracy": None},
    }
    (place / "summary.json").write_text(
        json.dumps(failed_summary("", "", None) | outcome | summary)
    )
    settings = {key: value for key, value in run.settings.items() if key != "num-supernodes"}
    config = parse(defaults() | settings | {"run-name": run.name})
    write_settings(place / "config.toml", tomli_w.dumps(nested(flatten(config))))


def test_every_key_and_every_figure_is_a_column(written, tmp_path):
    results = Results(tmp_path)
    plan = written(GRID)
    finish(tmp_path, plan.runs[0], personal_accuracy_mean=0.5)
    results.record(plan.runs[0])
    row = results.rows()[0]
    assert set(defaults()) | {"num-supernodes", "run", "status", "error"} <= set(row)
    expected = {
        "run": plan.runs[0].name,
        "num-supernodes": 3,
        "flatland.gate": 1,
        "personal_accuracy_mean": 0.5,
        "metrics.roc_auc": 0.75,
        "best_validation.global_accuracy": None,
    }
    assert {key: row[key] for key in expected} == expected


def test_a_run_has_one_row_the_last(written, tmp_path):
    results = Results(tmp_path)
    plan = written(GRID)
    results.record(plan.runs[0], "first\nin full")
    assert results.rows()[0]["error"] == "first\nin full"
    finish(tmp_path, plan.runs[0], metrics={"new_figure": 1})
    results.record(plan.runs[0])
    (row,) = results.rows()
    assert row["status"] == "completed"
    assert row["error"] == ""
    assert row["metrics.new_figure"] == 1


def test_a_completed_run_that_nobody_wrote_down_is_taken_in(written, tmp_path):
    results = Results(tmp_path)
    plan = written(GRID)
    finish(tmp_path, plan.runs[0])
    finish(tmp_path, plan.runs[1])
    finish(tmp_path, plan.runs[2], status="failed", error="out of memory")
    (tmp_path / plan.runs[3].name).mkdir()
    (tmp_path / plan.runs[3].name / "summary.json").write_text('{"status": "comp')
    (tmp_path / plan.runs[4].name).mkdir()
    results.record(plan.runs[0], "the sweep was killed, and the run came to its end after all")
    results.record(plan.runs[5])  # and then its directory was removed
    assert results.finished(plan.runs) == {plan.runs[0].name, plan.runs[1].name}
    status = {row["run"]: row["status"] for row in results.rows()}
    assert status[plan.runs[0].name] == status[plan.runs[1].name] == "completed"


def test_others_read_while_it_is_written(written, tmp_path):
    results = Results(tmp_path)
    plan = written(GRID)
    results.record(plan.runs[0], "no")
    reader = sqlite3.connect(tmp_path / FILE)
    for number, run in enumerate(plan.runs[1:], 2):
        results.record(run, "no")
        assert reader.execute("SELECT count(*) FROM runs").fetchone() == (number,)
    reader.close()


@pytest.mark.parametrize(
    "content", [b"no database, but as long as one" * 99, b"SQLite format 3\0" + bytes(999)]
)
def test_a_damaged_table_is_named_and_made_again_from_the_run_directories(
    written, tmp_path, content
):
    results = Results(tmp_path)
    plan = written(GRID)
    finish(tmp_path, plan.runs[0])
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(UsageError, match=r"results\.sqlite is damaged .*remove it"):
        results.finished(plan.runs)
    assert (tmp_path / FILE).read_bytes() == content
    (tmp_path / FILE).unlink()
    assert results.finished(plan.runs) == {plan.runs[0].name}
    assert len(results.rows()) == 1


# The command line, before Ray


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cpus", "0"], "Invalid value for '--cpus'"),
        (["--gpus", "-1"], "--gpus -1: allowed is"),
        (["--gpus", "nan"], "--gpus nan: allowed is"),
        (["--data", "/nowhere"], "--data: /nowhere is no folder"),
        (["--scale", "big"], "has no scale 'big'; it has none"),
        (["--results", "/proc/none"], "/proc/none cannot be written"),
    ],
)
def test_wrong_usage_exits_with_2(written, tmp_path, capsys, arguments, message):
    written(GRID)
    words = ["sweep", str(tmp_path / "sweep.toml"), "--results", str(tmp_path / "runs")]
    assert main([*words, *arguments]) == 2
    said = capsys.readouterr()
    assert message in said.out + said.err


@pytest.mark.parametrize(
    "content",
    ['[[tables]]\nrows = "method"', '[[scales.small.figures]]\nkind = "curves"'],
    ids=["tables", "figures"],
)
@pytest.mark.parametrize("command", ["sweep", "report"])
def test_a_file_that_describes_its_page_is_refused_before_any_run(
    tmp_path, capsys, content, command
):
    (tmp_path / "sweep.toml").write_text(GRID + content)
    scale = ["--scale", "small"] if "small" in content else []
    words = [command, str(tmp_path / "sweep.toml"), "--results", str(tmp_path / "runs"), *scale]
    assert main(words) == 2
    assert "remove it" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_two_sweeps_do_not_share_a_folder(written, tmp_path, capsys):
    written(GRID)
    with locked(tmp_path):
        assert main(["sweep", str(tmp_path / "sweep.toml"), "--results", str(tmp_path)]) == 2
    assert "another sweep works in" in capsys.readouterr().err


def test_the_page_of_a_run_is_named_to_those_who_ask_for_its_report(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    assert "shipped are " in capsys.readouterr().err
    (tmp_path / "summary.json").write_text("{}")
    assert main(["report", str(tmp_path)]) == 2
    assert f"curvfed.load('{tmp_path}').report() writes" in capsys.readouterr().err


def test_the_table_tells_runs_on_changed_files_apart(written, tmp_path):
    (tmp_path / "own.csv").write_text("x,y,label\n0,0,a\n")
    results = Results(tmp_path)
    for text in ("x,y,label\n0,0,a\n", "x,y,label\n0,0.1,a\n"):
        (tmp_path / "own.csv").write_text(text)
        (run,) = written('[settings]\nmethod = "hull"\ndataset = "own.csv"\n').runs
        results.record(run)
    rows = results.rows()
    assert len({row["data-digest"] for row in rows}) == len(rows) == 2
    (builtin,) = written('[settings]\nmethod = "hull"\n').runs
    assert builtin.data_digest == ""

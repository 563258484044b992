"""What is typed wrong is refused before torch is imported, which takes seconds."""

import json
import subprocess
import sys

from curvfed.deployments.package_files import PRESETS, package_files
from curvfed.tasks.plugins import all_names

PROGRAM = """
import contextlib, io, json, sys
from curvfed.deployments.commands.command import main
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as told:
        try:
            status = main(words)
        except SystemExit as end:
            status = end.code
    print(json.dumps([status, told.getvalue(), sorted({"torch", "flwr", "pandas"} & set(sys.modules))]))
"""
"""The command, with one list of words after the other in one process."""

SLIPS = [
    (["check", "dataset=nothere.pt"], "no file nothere.pt, nor "),
    (["check", "dataset=./nothere"], "no folder nothere, nor "),
    (["check", "dataset="], 'dataset = "": allowed is a name or a path'),
    (["check", "gate=false"], 'did you mean "flatland.gate"?'),
    (["check", "margin=1"], 'did you mean "points.margin" or "hyperfed.margin"?'),
    (["check", "flatland=3"], '; it is a table of keys, such as "flatland.'),
    (["check", "dataset=trees/cora"], "allowed is the name of a data set"),
    (["check", "num-ronds=3"], 'did you mean "num-rounds"?'),
    (
        ["simulate", "num_supernodes=4", "local_epochs=2"],
        'did you mean "num-supernodes"?\n"local_epochs" is not',
    ),
    (["simulate", "graph.pt"], "did you mean dataset=graph.pt?"),
    (["simulate", "cells.CSV"], "did you mean dataset=cells.CSV?"),
    (["check", "pictures"], "did you mean dataset=pictures?"),
    (["simulate", "qick"], "did you mean 'quick'?"),
    (["simulate", "64"], "did you mean 'dimensions/64'?"),
    (["check", "tests"], all_names("presets", package_files(PRESETS))),
    (["run", "Digits"], "did you mean dataset=Digits?"),
    (["simulate", "FedProx"], "did you mean method=fedprox?"),
    (["simulate", 'method = "hyperfed"'], "without one, here method=hyperfed"),
    (["simulate", "method", "=", "hyperfed"], "has a space beside its"),
    (
        ["simulate", 'method="fedavg" num-rounds=2'],
        'without quotes around all: method="fedavg" num-rounds=2',
    ),
    (["check", "dataset=./my seeds=3"], "no folder my seeds=3"),
    (["check", 'dataset="./my seed=3"'], "no folder my seed=3"),
    (["check", "seed", "1"], "did you mean seed=VALUE, without spaces?"),
    (["simulate", "--method", "flatland"], "keys have no dashes. Did you mean method=flatland?"),
    (["simulate", "--num_rounds=3"], "Did you mean num-rounds=3?"),
    (["check", "--epochs", "--all"], "Did you mean local-epochs=VALUE?"),
    (["check", "--alll"], "--all"),
    (["predict", "--method", "flatland"], "No such option"),
    (["run", "--seed", "4"], "Did you mean seed=4?"),
    (["train"], "The commands are simulate, run, check,"),
    (["check", "dataset=digist"], 'did you mean "digits"?'),
    (["predict", "runs/mine", "trees"], "the newest runs in "),
    (["predict", "runs", "trees"], "runs are made"),
    (["predict", "runs/mine", "trees"], "allowed is a run directory, or the name of one in "),
    (["predict", "runs/made", "trees", "--out", "/proc/x.csv"], "and /proc takes no file: "),
    (["predict", "runs/made", "new.pt"], 'DATA is "new.pt"; there is no such file or folder'),
    (
        ["predict", "runs/made", "trees", "--out", "classes.xml"],
        'out is "classes.xml", allowed are',
    ),
]


def test_slips_are_reported_without_torch(tmp_path):
    (tmp_path / "pictures").mkdir()
    made = tmp_path / "runs" / "made"
    made.mkdir(parents=True)
    (made / "config.toml").write_text('dataset = "trees"\n')
    (made / "summary.json").write_text('{"status": "completed"}')
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([words for words, _ in SLIPS])],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    for (words, text), line in zip(SLIPS, done.stdout.splitlines(), strict=True):
        status, notes, imported = json.loads(line)
        assert text in notes, words
        assert (status, imported) == (2, []), words
    assert {path.name for path in tmp_path.iterdir()} == {"pictures", "runs"}


def test_the_parts_that_other_packages_build_methods_from_need_no_torch():
    parts = ("aggregation", "keys", "method", "run_keys", "statistics")
    imports = ", ".join(f"curvfed.strategies.base.{part}" for part in parts)
    code = f"import sys, {imports}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

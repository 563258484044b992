"""What is typed wrong is refused before torch is imported, which takes seconds."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
from curvfed.deployments.commands.command import main
status = main(sys.argv[1:])
sys.exit(status if not {"torch", "flwr", "pandas"} & set(sys.modules) else 77)
"""


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["check", "dataset=nothere.pt"], "no file nothere.pt, nor "),
        (["check", "dataset=./nothere"], "no folder nothere, nor "),
        (["simulate", "method=hull", "dataset=nothere.csv"], "no file nothere.csv, nor "),
        (["run", "dataset=nothere.npz"], "no file nothere.npz, nor "),
        (["check", "num-ronds=3"], "did you mean 'num-rounds'?"),
        (
            ["simulate", "num_supernodes=4", "local_epochs=2"],
            "did you mean 'num-supernodes'?\n'local_epochs' is not",
        ),
        (["simulate", "graph.pt"], "did you mean dataset=graph.pt?"),
        (["simulate", "cells.H5AD"], "did you mean dataset=cells.H5AD?"),
        (["check", "tests"], "`curvfed presets` lists the presets"),
        (["run", "Cora"], "did you mean dataset=Cora?"),
        (["simulate", "FedProx"], "did you mean method=fedprox?"),
        (["check", "seed", "1"], "did you mean seed=VALUE, without spaces?"),
        (
            ["simulate", "--method", "flatland"],
            "keys have no dashes. Did you mean method=flatland?",
        ),
        (["simulate", "--num_rounds=3"], "Did you mean num-rounds=3?"),
        (["check", "--epochs", "--all"], "Did you mean local-epochs=VALUE?"),
        (["check", "--alll"], "--all"),
        (["report", "--method", "flatland"], "No such option"),
        (["cluster", "run", "--seed", "4"], "Did you mean seed=4?"),
        (["train"], "The commands are simulate, run, check,"),
        (["cluster", "begin"], "The commands are"),
        (["check", "dataset=coar"], 'did you mean "cora"?'),
        (
            ["report", "wire-precision", "--formats", "gif"],
            "--formats: 'gif'; allowed are md, ",
        ),
    ],
)
def test_a_slip_is_told_without_torch(tmp_path, words, text):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=tmp_path,
        env=os.environ,
        capture_output=True,
        text=True,
    )
    assert text in done.stderr
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_a_data_set(tmp_path):
    (tmp_path / "pictures").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "check", "pictures"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "did you mean dataset=pictures?" in done.stderr


def test_the_parts_that_other_packages_build_methods_from_need_no_torch():
    parts = ("aggregation", "average", "keys", "method", "named_arrays", "run_keys")
    imports = ", ".join(f"curvfed.strategies.base.{part}" for part in parts)
    code = f"import sys, {imports}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

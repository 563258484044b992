"""`check` shows what a run would warn of before its first round."""

import re

import numpy as np
import pytest
from PIL import Image

from curvfed.deployments.commands.command import main

pytestmark = pytest.mark.usefixtures("own_home")


def test_check_names_placeholders_and_spellings(tmp_path, capsys):
    rng = np.random.default_rng(0)
    lines = [
        f"{x:.4f},{y:.4f},{name}"
        for name in ("T cell", "t-cell", "unknown")
        for x, y in rng.uniform(-0.5, 0.5, (20, 2))
    ]
    path = tmp_path / "points.csv"
    path.write_text("\n".join(["x,y,class", *lines, ""]))
    words = ["method=hull", f"dataset={path}", "num-supernodes=3", "secure-sum=false"]
    assert main(["check", *words]) == 0
    notes = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note: ")]
    (unlabelled,) = [note for note in notes if "trained and scored as classes: unknown" in note]
    assert "points.classes" in unlabelled
    assert [note for note in notes if "spelling alone" in note and '"T cell" and "t-cell"' in note]


def test_check_names_the_clients_of_one_class(capsys):
    words = ["method=fedavg", "dataset=digits", "alpha=0.01", "num-supernodes=6"]
    assert main(["check", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    single = [line.split()[1] for line in lines if ", 1 of 10 classes; " in line]
    assert single
    (note,) = [line for line in lines if "of one class alone" in line]
    named = re.split(" has | have ", note)[0].partition(" ")[2].partition(" ")[2]
    assert named.replace(" and ", ", ").split(", ") == single


def test_check_names_the_only_class(tmp_path, capsys):
    for number in range(40):
        place = tmp_path / "pics" / "cat" / f"{number}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), number).save(place)
    words = ["method=fedavg", f"dataset={tmp_path / 'pics'}/", "model=cnn", "num-supernodes=2"]
    assert main(["check", *words]) == 0
    assert 'all examples of the run are of one class, "cat"' in capsys.readouterr().out

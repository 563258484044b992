"""`check` shows what a run would warn of before its first round."""

import numpy as np
import pytest

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

"""The notebook of examples/ holds nothing of a machine, and its cells run in order."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").rglob("*.ipynb"))
SECONDS = 600
"""For a machine on which much else runs; alone, a notebook takes half a minute."""


def cells(path: Path, kind: str) -> list[str]:
    """The texts of a notebook's cells of one kind."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == kind]


def script(path: Path) -> str:
    """The cells of code as a program that shows a cell's last value as a notebook does."""
    lines = [
        "def show(value):",
        "    getattr(value, '_repr_html_', value.__repr__)()",
        "    print('shown', value)",
    ]
    for cell in cells(path, "code"):
        *body, last = ast.parse(cell).body
        text = ast.unparse(last)
        shown = isinstance(last, ast.Expr) and not cell.rstrip().endswith(";")
        lines += [*map(ast.unparse, body), f"show({text})" if shown else text]
    return "\n".join(lines)


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs(path, tmp_path):
    environment = os.environ | {"HOME": str(tmp_path), "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    done = subprocess.run(
        [sys.executable, "-c", script(path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    shown = [line.split() for line in done.stdout.splitlines() if line.startswith("shown")]
    assert len(shown) >= 4
    scores = [float(words[1]) for words in shown if len(words) == 2]
    assert scores
    assert min(scores) > 0.8
    assert [file.parent.name for file in tmp_path.rglob("summary.json")]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_keeps_no_output_and_no_path(path):
    book = json.loads(path.read_text(encoding="utf-8"))
    assert (book["nbformat"], book["metadata"]["kernelspec"]["name"]) == (4, "python3")
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert [cell for cell in code if cell["outputs"] or cell["execution_count"]] == []
    assert not re.search(r"/(home|tmp|work|root|Users)/", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_links_of_a_notebook_lead_somewhere(path):
    targets = re.findall(r"\]\(([^)#\s]+)", "\n".join(cells(path, "markdown")))
    assert targets
    assert [
        target for target in targets if "://" not in target and not (path.parent / target).exists()
    ] == []

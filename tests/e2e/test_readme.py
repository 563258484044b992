"""The README's commands, run as they stand there in a fresh clone with an empty home, and what they
print.

Installing is left out, since the environment that runs the tests stands for it: its programs are
first on the path, and the clone is what Python imports.
"""

import os
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from clone import clone
from PIL import Image

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
INSTALLING = ("make ", "pip ", "python3 -m venv ")
"""What lines begin with that are not run: each makes or changes an environment."""

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SECONDS = 400


def shown() -> list[tuple[str, str]]:
    """Every block of commands that is run, with the output that the README shows below it."""
    blocks = [*BLOCK.findall(README), ("sh", "")]
    pairs = [
        (text, "" if after == "sh" else output)
        for (language, text), (after, output) in pairwise(blocks)
        if language == "sh"
    ]
    return [(text, output) for text, output in pairs if not text.startswith(INSTALLING)]


def begin_with() -> dict[str, str]:
    """The table of what to begin with."""
    return dict(re.findall(r"^\| (\w+) \| `(curvfed .*?)` \| \[.*\|$", README, re.MULTILINE))


@pytest.fixture(scope="module", name="clone")
def cloned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readme") / "clone"
    clone(folder)
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def shell(clone, home):
    """Run commands in the clone and return what they print; they must succeed."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = os.environ | {
        "HOME": str(home),
        "PATH": path,
        "PYTHONPATH": str(clone),
        "OMP_NUM_THREADS": "1",
    }

    def run(script: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=clone,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=SECONDS,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}"
        return done.stdout

    return run


def pattern(line: str) -> str:
    """A line as shown: any number for a number, any width for a space, anything for …."""
    parts = (
        re.escape(" ".join(part.split()))
        for part in line.strip().replace("/home/me/", "…/").split("…")
    )
    return r".*".join(
        re.sub(r"\d[\d,.]*", r"\\d[\\d,.]*", part.replace(r"\.", ".")) for part in parts
    )


def assert_shown(lines: str, output: str) -> None:
    """The lines are there, in this order."""
    printed = iter([" ".join(line.split()) for line in output.splitlines()])
    for line in filter(lambda line: line.strip() != "…", lines.splitlines()):
        assert any(re.search(pattern(line), one) for one in printed), f"{line}\nis not in\n{output}"


def test_a_line_is_found_by_its_structure_alone():
    assert_shown(
        "round 2/20  loss 0.36\n…\nat /home/me/runs/x-1",
        "round  3/20 loss 1.2\nother\nat /tmp/7/runs/x-23\n",
    )
    with pytest.raises(AssertionError, match="is not in"):
        assert_shown("one\ntwo", "two\none\n")


def test_the_commands_import_the_clone(shell, clone):
    assert Path(
        shell("python -c 'import curvfed; print(curvfed.__file__)'").strip()
    ).is_relative_to(clone)


def test_the_blocks_run_and_print_what_is_shown(shell, home):
    assert not [*home.iterdir()]
    blocks = shown()
    assert [text.split()[1] for text, _ in blocks] == ["simulate", "run"]
    printed = [shell(text) for text, _ in blocks]
    for (_, lines), output in zip(blocks, printed):
        assert len(lines.splitlines()) > 3
        assert_shown(lines, output)
    accuracies = {re.search(r"│ personal accuracy .*", output)[0] for output in printed}
    assert len(accuracies) == 1, "through Flower as in one process"
    assert len([*home.glob("curvfed/results/*/report.html")]) == len(blocks)


@pytest.fixture
def own_data(clone, shell):
    """A graph as docs/data.md makes one, images, links and cells, by the names of the table."""
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    (code,) = (text for language, text in BLOCK.findall(page) if language == "python")
    shell(f"python - <<'END'\n{code}END\n")
    draw = np.random.default_rng(0)
    for name in ("cats", "dogs"):
        (clone / "pictures" / name).mkdir(parents=True)
        for number in range(40):
            image = Image.fromarray(draw.integers(0, 256, (40, 32, 3), np.uint8))
            image.save(clone / "pictures" / name / f"{number}.png")
    links = [f"{child}\t{child // 2}" for child in range(2, 64)]
    (clone / "tree.tsv").write_text("\n".join(links) + "\n")
    rows = [f"{x:.3f},{y:.3f},{'ab'[int(x > 0)]}" for x, y in draw.uniform(-0.6, 0.6, (60, 2))]
    (clone / "cells.csv").write_text("\n".join(["x,y,kind", *rows]) + "\n")


@pytest.mark.long
@pytest.mark.usefixtures("own_data")
def test_whoever_has_data_or_hosts_can_begin(shell, home):
    table = begin_with()
    assert [*table] == ["graphs", "images", "links", "cells", "hosts"]
    for what, command in table.items():
        words = shlex.split(command)
        # that it can run is enough: `check` reads the keys and loads the data
        if words[1] == "simulate":
            words[1] = "check"
        output = shell(shlex.join(words))
        assert output, what
    assert (home / "curvfed" / "cluster" / "nodes" / "south" / "node.key").exists()

"""The blocks of a page, run one after the other as a reader would run them."""

import contextlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from curvfed.deployments.processes import is_alive, wait_until

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(
    r"^(?:Saved as `(?P<name>[\w.-]+)`:\n+)?```(?P<kind>\w+)\n(?P<text>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
SECONDS = 3600
DOWNLOADED = "~/data"
"""Where pages have public data; the lines that name it are left out."""


def reader(folder: Path) -> dict[str, str]:
    """The environment of someone whose home is in the folder, and who has installed curvfed."""
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    home = str(folder / "home")
    return os.environ | {
        "HOME": home,
        "PATH": programs,
        "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": "1",
    }


@contextlib.contextmanager
def nothing_left(folder: Path) -> Iterator[None]:
    """What the blocks start has ended soon after them; it is killed if not, also if they fail."""

    def left() -> list[psutil.Process]:
        started = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                places = [*process.cmdline(), process.cwd()]
                if str(folder) in " ".join(places) and is_alive(process):
                    started.append(process)
        return started

    try:
        yield
        assert wait_until(lambda: not left(), 60), left()
    finally:
        for process in left():
            process.kill()


def run_blocks(page: str, folder: Path, section: str = "") -> str:
    """Run every `sh` and `python` block of a page of `docs`, or of one section, in one shell, in a
    folder with a home of its own; what they printed.

    A block of TOML is the file that the next "Saved as" names. Each block must succeed. Nothing is
    downloaded.
    """
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    if section:
        text = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    script, pending = "", ""
    for name, kind, block in BLOCK.findall(text):
        if kind == "toml":
            pending = block
            continue
        if name:
            script += f"printf %s {shlex.quote(pending)} > {name}\n"
        lines = [line for line in block.splitlines(keepends=True) if DOWNLOADED not in line]
        if kind == "python":
            script += shlex.join([sys.executable, "-c", "".join(lines)]) + "\n"
        elif kind == "sh":
            script += "".join(lines)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=reader(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=SECONDS,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}"
    return done.stdout

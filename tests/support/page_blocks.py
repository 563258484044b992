"""The blocks of a page, run one after the other as a reader would run them."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(
    r"^(?:Saved as `(?P<name>[\w.-]+)`:\n+)?```(?P<kind>\w+)\n(?P<text>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
SECONDS = 900
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


def run_blocks(page: str, folder: Path, section: str = "") -> str:
    """Run every `sh` and `python` block of a page of `docs`, or of one section, in a folder with a
    home of its own; what they printed.

    A block of TOML is the file that the next "Saved as" names. Each block must succeed. Nothing is
    downloaded.
    """
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    if section:
        text = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    blocks = BLOCK.findall(text)
    printed, pending = "", ""
    for name, kind, text in blocks:
        if kind == "toml":
            pending = text
            continue
        if name:
            (folder / name).write_text(pending)
        text = "".join(line for line in text.splitlines(keepends=True) if DOWNLOADED not in line)
        command = (
            [sys.executable, "-c", text]
            if kind == "python"
            else ["bash", "-euo", "pipefail", "-c", text]
        )
        done = subprocess.run(
            command,
            cwd=folder,
            env=reader(folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=SECONDS,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}"
        printed += done.stdout
    return printed

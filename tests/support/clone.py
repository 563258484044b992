"""A copy of this project as somebody else gets it."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
MADE = (".venv*", "build", "dist", ".*_cache", ".hypothesis", "__pycache__", "*.fab", ".git")
"""What tools make beside the project's own files."""


def clone(folder: Path) -> None:
    """Clone the project by git; without git, its history or the right to it, copy files."""
    command = ["git", "clone", "--quiet", str(ROOT), str(folder)]
    if (
        shutil.which("git")
        and (ROOT / ".git").exists()
        and not subprocess.run(command, capture_output=True).returncode
    ):
        return
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*MADE))

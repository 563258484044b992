"""Download the files of public data sets with the packages that publish them."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROBE_URL = "https://github.com"
PROBE_SECONDS = 8.0
DOWNLOAD_SECONDS = 600.0

_PROBE = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=float(sys.argv[2])).close()"


def fetch(code: str, root: Path, folder: str) -> None:
    """Run `code`, which downloads files into `folder` below its argument, and move these into `root/folder`.

    A file appears there whole or not at all. The packages have no time limit and write processed files next to the raw
    ones, so the code runs in a process of its own, in a temporary folder, and only after a short probe of the network.

    Raises
    ------
    OSError
        No network, no such package, a failed download, or a folder that cannot be written; the text says which.
    """
    _python(_PROBE, PROBE_URL, str(PROBE_SECONDS), seconds=PROBE_SECONDS)
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix=".download-") as scratch:
        _python(code, scratch, seconds=DOWNLOAD_SECONDS)
        fetched = Path(scratch) / folder
        for path in sorted(fetched.rglob("*")):
            place = path.relative_to(fetched)
            if path.is_file() and place.parts[0] != "processed":
                target = root / folder / place
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(path, target)


def _python(code: str, *arguments: str, seconds: float) -> None:
    """Run Python code in a process of its own; OSError, with its last line, where it fails or takes too long."""
    try:
        # Without standard input: a package that asks a question fails rather than waits for an answer.
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"no answer within {seconds:g} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise OSError(lines[-1] if lines else f"exit code {done.returncode}")

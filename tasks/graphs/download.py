"""Raw files of public data sets, fetched by PyTorch Geometric or the package they belong to."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

PYG = "torch_geometric.datasets"
PROBE_URL = "https://github.com"
PROBE_SECONDS = 8.0
DOWNLOAD_SECONDS = 600.0

_PROBE = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=float(sys.argv[2])).close()"


def command(collection: str, name: str, root: Path, package: str = PYG) -> str:
    """The shell command that fetches a data set; `collection` is the class in `package`."""
    fetching = f'python -c "from {package} import {collection}; {collection}(root={str(root)!r}, name={name!r})"'
    return fetching if package == PYG else f"pip install {package.partition('.')[0]} && {fetching}"


def absent(root: Path) -> str:
    """What to add where files are not found, if the folder that they were looked for in is not there at all."""
    return "" if root.is_dir() else f" (there is no folder {root})"


def fetch(collection: str, name: str, root: Path, folder: str, package: str = PYG) -> None:
    """Download the raw files of a data set into `root/folder/raw` and beside it; see `fetch_by`."""
    code = f"import sys; from {package} import {collection}; {collection}(root=sys.argv[1], name=sys.argv[2])"
    fetch_by(code, root, folder, name)


def fetch_by(code: str, root: Path, folder: str, *arguments: str) -> None:
    """Download into `root/folder` what `code` puts into the same folder below its first argument, then come `arguments`;
    a file appears there whole or not at all.

    The packages set no limit to the time of an attempt and write processed files beside the raw ones, so they run in a
    process of their own, in a scratch folder, and only after a short probe of the network.

    Raises
    ------
    OSError
        No network, no such package, a failed download, or a folder that cannot be written; the text says which.
    """
    _python(_PROBE, PROBE_URL, str(PROBE_SECONDS), seconds=PROBE_SECONDS)
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix=".download-") as scratch:
        _python(code, scratch, *arguments, seconds=DOWNLOAD_SECONDS)
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

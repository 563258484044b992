"""Raw files of public data sets, fetched by PyTorch Geometric where there is a network."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROBE_URL = "https://github.com"
PROBE_SECONDS = 8.0
DOWNLOAD_SECONDS = 600.0

_PROBE = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=float(sys.argv[2])).close()"


def command(collection: str, name: str, root: Path) -> str:
    """The shell command that fetches a data set; `collection` is the class in `torch_geometric.datasets`."""
    return f'python -c "from torch_geometric.datasets import {collection}; {collection}({str(root)!r}, {name!r})"'


def fetch(collection: str, name: str, root: Path, folder: str) -> None:
    """Download the raw files into `root/folder/raw`; a file appears there whole or not at all.

    PyTorch Geometric sets no limit to the time of an attempt and writes processed files beside the raw ones, so it runs
    in a process of its own, in a scratch folder, and only after a short probe of the network.

    Raises
    ------
    OSError
        No network, a failed download, or a folder that cannot be written; the text says which.
    """
    _python(_PROBE, PROBE_URL, str(PROBE_SECONDS), seconds=PROBE_SECONDS)
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix=".download-") as scratch:
        code = f"import sys; from torch_geometric.datasets import {collection}; {collection}(sys.argv[1], sys.argv[2])"
        _python(code, scratch, name, seconds=DOWNLOAD_SECONDS)
        target = root / folder / "raw"
        target.mkdir(parents=True, exist_ok=True)
        for path in (Path(scratch) / folder / "raw").iterdir():
            os.replace(path, target / path.name)


def _python(code: str, *arguments: str, seconds: float) -> None:
    """Run Python code in a process of its own; OSError, with its last line, where it fails or takes too long."""
    try:
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise OSError(f"no answer within {seconds:g} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise OSError(lines[-1] if lines else f"exit code {done.returncode}")

"""Download the files of public data sets by the packages that publish them."""

import hashlib
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from curvfed.tasks.errors import DataError
from curvfed.tasks.public_data import PublicData

log = logging.getLogger("curvfed")

Result = TypeVar("Result")

PROBE_URL = "https://github.com"
PROBE_SECONDS = 8.0
DOWNLOAD_SECONDS = 600.0

_PROBE = (
    "import sys, urllib.request; urllib.request.urlopen(sys.argv[1],"
    " timeout=float(sys.argv[2])).close()"
)


def download(source: PublicData, data_dir: Path, find: Callable[[], Result | None]) -> Result:
    """Download the absent files of a public data set, and return the result of `find`.

    Raises
    ------
    DataError
        If the download fails; names the folders searched and the command to download the files.
    """
    top = data_dir.expanduser()
    first = Path(source.folders[0])
    try:
        folder = first.relative_to(source.root).parts[0]
        fetch(f"import sys; {source.fetch.format(root='sys.argv[1]')}", top / source.root, folder)
        reason = "the download lacks some"
    except OSError as error:
        reason = str(error)
    result = find()
    if result is not None:
        _log_checksums(source, data_dir)
        return result
    raise DataError(
        f"{source.absent(data_dir)}, and the download fails: {reason}. On a machine with a"
        f" network run:\n{source.command(data_dir)}\nand copy {top / first.parts[0]} here.",
        key="no-public-data",
    )


def _log_checksums(source: PublicData, data_dir: Path) -> None:
    """Log the downloaded files with their SHA-256: not every publisher states a checksum."""
    folder = source.folder(data_dir)
    if folder is None:
        return
    for name in source.files:
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        log.info("downloaded %s, SHA-256 %s", folder / name, digest)


def fetch(code: str, root: Path, folder: str) -> None:
    """Run `code`, which downloads files into `folder` below its argument, and move the files into
    `root/folder`.

    Each file is moved atomically. The packages lack a time limit and write processed files next to
    the raw ones, so the code runs in a separate process, in a temporary folder, and only after a
    short probe of the network.

    Raises
    ------
    OSError
        No network, no such package, a failed download, or a read-only folder; the text says which.
    """
    _python(_PROBE, PROBE_URL, str(PROBE_SECONDS), seconds=PROBE_SECONDS)
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix=".download-") as scratch:
        _python(code, scratch, seconds=DOWNLOAD_SECONDS)
        downloads = Path(scratch) / folder
        for path in sorted(downloads.rglob("*")):
            place = path.relative_to(downloads)
            if path.is_file() and place.parts[0] != "processed":
                target = root / folder / place
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(path, target)


def _python(code: str, *arguments: str, seconds: float) -> None:
    """Run Python code in a separate process; raise OSError with its last line if it fails or takes
    too long."""
    try:
        # Without standard input a package that asks a question fails and does not wait.
        process = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"no answer within {seconds:g} s") from None
    if process.returncode:
        lines = process.stderr.strip().splitlines()
        raise OSError(lines[-1] if lines else f"exit code {process.returncode}")

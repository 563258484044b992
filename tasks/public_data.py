"""Where the files of a data set lie, and how those of a public one are downloaded, with the
packages that publish them."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from curvfed.tasks import plugins
from curvfed.tasks.errors import DataError

Raw = TypeVar("Raw")
Found = TypeVar("Found")

PROBE_URL = "https://github.com"
PROBE_SECONDS = 8.0
DOWNLOAD_SECONDS = 600.0

_PROBE = (
    "import sys, urllib.request; urllib.request.urlopen(sys.argv[1],"
    " timeout=float(sys.argv[2])).close()"
)


@dataclass(frozen=True)
class Located(Generic[Raw]):
    """Data that were found.

    Attributes
    ----------
    files : tuple of Path
        The files that are read, or folders that are read as a whole.
    read : callable
        Reads them, or raises DataError.
    notes : tuple of str
        What a user should know about them, in words.
    digest : str
        Changes with the content of a folder among them; "" without folders.
    """

    files: tuple[Path, ...]
    read: Callable[[], Raw]
    notes: tuple[str, ...] = ()
    digest: str = ""


@dataclass(frozen=True)
class PublicData:
    """The files of a public data set.

    Attributes
    ----------
    title : str
        Its name as its authors write it.
    folders : tuple of str
        Where below the data folder the files may lie; a download goes to the first. () for built-in
        data.
    files : tuple of str
        The files that are needed, as paths from one of these folders.
    fetch : str
        Python that downloads them below the folder `{root}`.
    root : str
        That folder, below the data folder.
    package : str
        The package to install first, if any.
    origin : str
        Where the files are from, for the list of all data sets.
    """

    title: str
    folders: tuple[str, ...]
    files: tuple[str, ...]
    fetch: str
    root: str = ""
    package: str = ""
    origin: str = ""

    def looked_in(self, data_dir: Path) -> list[Path]:
        """The folders that are searched, in this order."""
        return [data_dir.expanduser() / folder for folder in self.folders]

    def folder(self, data_dir: Path) -> Path | None:
        """The first of these folders that holds all files, or None."""
        folders = self.looked_in(data_dir)
        return next(
            (one for one in folders if all((one / name).is_file() for name in self.files)), None
        )

    def command(self, data_dir: Path) -> str:
        """The shell command that downloads the files."""
        code = self.fetch.format(root=repr(str(data_dir.expanduser() / self.root)))
        return f'{f"pip install {self.package} && " if self.package else ""}python -c "{code}"'

    def fetched(self, data_dir: Path, find: Callable[[Path], Found | None]) -> Found:
        """The result of `find` on the data folder; if that is None, of a second try after a
        download.

        Raises
        ------
        DataError
            If nothing is there and the download fails; names the folders looked in and the command
            to fetch the files.
        """
        if (found := find(data_dir)) is not None:
            return found
        top = data_dir.expanduser()
        first = Path(self.folders[0])
        try:
            folder = first.relative_to(self.root).parts[0]
            fetch(f"import sys; {self.fetch.format(root='sys.argv[1]')}", top / self.root, folder)
            reason = "the download lacks some"
        except OSError as error:
            reason = str(error)
        if (found := find(data_dir)) is not None:
            return found
        places = " nor in ".join(map(str, self.looked_in(data_dir)))
        names = f" ({', '.join(self.files)})" if self.files else ""
        raise DataError(
            f"the files of {self.title}{names} are not in"
            f" {places}{'' if top.is_dir() else f' (there is no folder {top})'}, and they cannot be"
            f" downloaded: {reason}. On a machine with a network"
            f" run:\n{self.command(data_dir)}\nand copy {top / first.parts[0]} here."
        )


def find_path(
    dataset: str, data_dir: Path, is_there: Callable[[Path], bool] = Path.is_file
) -> Path:
    """A user's own file, or folder with `Path.is_dir`: looked up in the working folder, then in
    `data_dir`.

    Raises
    ------
    DataError
        If it is in neither.
    """
    given = Path(dataset).expanduser()
    path = next((path for path in (given, data_dir.expanduser() / given) if is_there(path)), None)
    if path is None:
        places = ", nor ".join(dict.fromkeys(map(str, (given, data_dir / given))))
        kind = "file" if is_there is Path.is_file else "folder"
        raise DataError(
            f"no {kind} {places}; {reading(dataset)}, looked up in the working folder, then in"
            " data-dir"
        )
    return path


def reading(dataset: str) -> str:
    """Which rule makes a run-config's `dataset` a name, a file or a path, in words."""
    if os.path.dirname(dataset):
        return "it is taken as a path because it has a /"
    if ending := Path(dataset).suffix:
        return f"it is taken as a file because it ends in {ending} and is no data set's name"
    return "it is taken as a data set's name because it has no / and no ending, as paths have"


def brought(name: str, data_dir: Path, *kinds: type) -> Located[Any] | None:
    """The files of a data set of another package, its module among them, and their reader; None if
    no package has it.

    Parameters
    ----------
    name : str
    data_dir : Path
    *kinds : type
        The classes that it may be read as.
    """
    own = plugins.data_set(name)
    folder = data_dir.expanduser()
    if own is None:
        return None
    (entry,) = next(
        entries
        for spelled, entries in plugins.found("datasets").items()
        if spelled.lower() == name.lower()
    )

    def read() -> Any:
        raw = own.load(folder)
        if not isinstance(raw, kinds):
            allowed = " or ".join(kind.__name__ for kind in kinds)
            raise DataError(
                f'the data set "{name}" is loaded as {type(raw).__name__}; allowed is {allowed}'
            )
        return raw

    return Located((*own.files(folder), Path(str(sys.modules[entry.module].__file__))), read)


def fetch(code: str, root: Path, folder: str) -> None:
    """Run `code`, which downloads files into `folder` below its argument, and move these into
    `root/folder`.

    A file appears there whole or not at all. The packages have no time limit and write processed
    files next to the raw ones, so the code runs in a process of its own, in a temporary folder, and
    only after a short probe of the network.

    Raises
    ------
    OSError
        No network, no such package, a failed download, or a folder that cannot be written; the text
        says which.
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
    """Run Python code in a process of its own; OSError, with its last line, where it fails or takes
    too long."""
    try:
        # Without standard input: a package that asks a question fails rather than waits for an
        # answer.
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

"""Find the files of a data set. An extension downloads those of a public one, by the package that
publishes them."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from curvfed.tasks import plugins
from curvfed.tasks.errors import DataError

Raw = TypeVar("Raw")
Result = TypeVar("Result")

DOWNLOADS = "downloads"
"""The group of the function that downloads public data: "download", from a `PublicData`, the data
folder, and the function that finds the files, to the result of that."""


@dataclass(frozen=True)
class Located(Generic[Raw]):
    """A data set on this machine.

    Attributes
    ----------
    files : tuple of Path
        The files of the data, or their folders.
    read : callable
        Reads the files, or raises DataError.
    notes : tuple of str
        Notes for the user about the files, in words.
    digest : str
        Changes with the contents of a folder; "" without folders.
    title : str
        The format, if it is another tool's.
    path : Path or None
        The path of a user's data.
    sites : tuple of str
        The folders of a user's images whose images belong together, such as those of hospitals.
    """

    files: tuple[Path, ...]
    read: Callable[[], Raw]
    notes: tuple[str, ...] = ()
    digest: str = ""
    title: str = ""
    path: Path | None = None
    sites: tuple[str, ...] = ()


@dataclass(frozen=True)
class PublicData:
    """The files of a public data set.

    Attributes
    ----------
    title : str
        The name in its authors' spelling.
    folders : tuple of str
        The folders to search, below the data folder; a download goes to the first. () for built-in
        data.
    files : tuple of str
        The required files, as paths from one of these folders.
    fetch : str
        Python code that downloads the files below the folder `{root}`; "" if nobody publishes them.
    root : str
        That folder, below the data folder.
    package : str
        The package to install first, if any.
    origin : str
        Where the files are from, for the list of all data sets.
    task : str
        A name of `curvfed.tasks.kinds.KINDS`.
    built_in : str
        Why a data set needs no files, in words.
    read : str
        The place, "package.module:name", of the reader: (source, folder) -> raw data.
    find : str
        The place of a function in place of the search for `files`: (source, data folder) ->
        `Located`, or None if the files are absent.
    members : tuple of str
        Of a group: the names of its data sets, which a run may name together.
    is_listed : bool
        Whether lists of all data sets have this one.
    """

    title: str
    folders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    fetch: str = ""
    root: str = ""
    package: str = ""
    origin: str = ""
    task: str = field(kw_only=True)
    built_in: str = "built in"
    read: str = ""
    find: str = ""
    members: tuple[str, ...] = ()
    is_listed: bool = True

    @property
    def channels(self) -> int:
        """The channels of images; 0 for other data."""
        return 0

    def search_folders(self, data_dir: Path) -> list[Path]:
        """The folders to search, in this order."""
        return [data_dir.expanduser() / folder for folder in self.folders]

    def folder(self, data_dir: Path) -> Path | None:
        """The first of these folders that holds all files, or None."""
        for folder in self.search_folders(data_dir):
            if all((folder / name).is_file() for name in self.files):
                return folder
        return None

    def locate(self, data_dir: Path) -> Located[Any] | None:
        """The files and their reader, or None if they are absent."""
        if self.find:
            located: Located[Any] | None = plugins.imported(self.find)(self, data_dir)
            return located
        folder = self.folder(data_dir)
        if folder is None:
            return None
        files = tuple(folder / name for name in self.files)
        return Located(files, partial(plugins.imported(self.read), self, folder))

    def command(self, data_dir: Path) -> str:
        """The shell command that downloads the files."""
        code = self.fetch.format(root=repr(str(data_dir.expanduser() / self.root)))
        command = f'python -c "{code}"'
        return f"pip install {self.package} && {command}" if self.package else command

    def find_or_download(self, data_dir: Path, find: Callable[[], Result | None]) -> Result:
        """The result of `find`, after a download if it returns None at first.

        Raises
        ------
        DataError
            If the files are absent and the download fails; names the folders searched and the
            command to download the files.
        """
        result = find()
        if result is not None:
            return result
        self.check_published(data_dir)
        if not plugins.additions(DOWNLOADS):
            raise DataError(
                f"{self.absent(data_dir)}; this downloads them:\n{self.command(data_dir)}"
                f"{plugins.absent_hint(DOWNLOADS)}",
                key="no-public-data",
            )
        downloaded: Result = plugins.addition(DOWNLOADS, "download")(self, data_dir, find)
        return downloaded

    def check_published(self, data_dir: Path) -> None:
        """Refuse absent files that cannot be downloaded.

        Raises
        ------
        DataError
        """
        if not self.fetch:
            raise DataError(
                f"{self.absent(data_dir)}, and are not published; make them by {self.origin}, and"
                " put them there",
                key="no-public-data",
            )

    def absent(self, data_dir: Path) -> str:
        """Which files are absent, and from which folders."""
        names = f" ({', '.join(self.files)})" if self.files else ""
        places = " nor in ".join(map(str, self.search_folders(data_dir)))
        top = data_dir.expanduser()
        if not top.is_dir():
            places += f" (there is no folder {top})"
        return f"the files of {self.title}{names} are not in {places}"


def find_path(dataset: str, data_dir: Path) -> Path:
    """A user's own file or folder, in the working folder or else in `data_dir`.

    Raises
    ------
    DataError
        If neither holds it.
    """
    path = Path(dataset).expanduser()
    stored = data_dir.expanduser() / path
    if path.exists() or stored.exists():
        return path if path.exists() else stored
    places = ", nor ".join(dict.fromkeys(map(str, (path, data_dir / path))))
    lister = plugins.lister("datasets")
    all_names = f" ({lister} lists all)" if lister else ""
    raise DataError(
        f"no {'file' if path.suffix else 'folder'} {places}; allowed is the name of a data set"
        f"{all_names}, or the path of a file or folder, in the working folder or in data-dir;"
        f" {explain_reading(dataset)}",
        key="no-file",
    )


def explain_reading(dataset: str) -> str:
    """Why a run-config's `dataset` is read as a name, a file or a path, in words."""
    if os.path.dirname(dataset):
        return "it is read as a path because it has a /"
    if ending := Path(dataset).suffix:
        return f"it is read as a file because it ends in {ending} and is no data set's name"
    return "it is read as a data set's name because it has neither a / nor an ending, as paths have"


_FETCH = (
    "import hashlib, pathlib, sys, urllib.request as web; "
    "folder = pathlib.Path({{root}}, '{folder}'); folder.mkdir(parents=True, exist_ok=True); "
    "files = {{{{name: web.urlopen('{url}/' + file, timeout=60).read()"
    " for name, file in {names}}}}}; "
    "sums = dict({sums}); wrong = [name for name in sums"
    " if hashlib.sha256(files[name]).hexdigest() != sums[name]]; "
    "wrong and sys.exit('not the published ' + wrong[0]); "
    "[(folder / name).write_bytes(data) for name, data in files.items()]"
)


def files_at(
    title: str,
    folder: str,
    url: str,
    names: Mapping[str, str],
    sha256: Sequence[str] = (),
    *,
    task: str,
) -> PublicData:
    """A data set with its files at an address.

    Parameters
    ----------
    names : mapping of str to str
        The names of the files here, with those at the address.
    sha256 : sequence of str
        The checksum of each file; () for data that change.
    """
    sums = list(zip(names, sha256))
    code = _FETCH.format(folder=folder, url=url, names=list(names.items()), sums=sums)
    return PublicData(title, (folder,), tuple(names), code, origin=url, task=task)

"""Where the files of a data set lie, and how those of a public one are downloaded."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from curvfed.tasks import download
from curvfed.tasks.errors import DataError

Raw = TypeVar("Raw")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Located(Generic[Raw]):
    """Data that were found.

    Attributes
    ----------
    files : tuple of Path
        The files that are read, or folders that are read as a whole.
    read : callable
        Reads them, or raises DataError.
    """

    files: tuple[Path, ...]
    read: Callable[[], Raw]


@dataclass(frozen=True)
class PublicData:
    """The files of a public data set.

    Attributes
    ----------
    title : str
        Its name as its authors write it.
    folders : tuple of str
        Where below the data folder the files may lie; a download goes to the first. () for built-in data.
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
        return next((one for one in folders if all((one / name).is_file() for name in self.files)), None)

    def command(self, data_dir: Path) -> str:
        """The shell command that downloads the files."""
        code = self.fetch.format(root=repr(str(data_dir.expanduser() / self.root)))
        return f'{f"pip install {self.package} && " if self.package else ""}python -c "{code}"'

    def fetched(self, data_dir: Path, find: Callable[[Path], Found | None]) -> Found:
        """The result of `find` on the data folder; if that is None, of a second try after a download.

        Raises
        ------
        DataError
            If nothing is there and the download fails; names the folders looked in and the command to fetch the files.
        """
        if (found := find(data_dir)) is not None:
            return found
        top = data_dir.expanduser()
        first = Path(self.folders[0])
        try:
            folder = first.relative_to(self.root).parts[0]
            download.fetch(f"import sys; {self.fetch.format(root='sys.argv[1]')}", top / self.root, folder)
            reason = "the download lacks some"
        except OSError as error:
            reason = str(error)
        if (found := find(data_dir)) is not None:
            return found
        places = " nor in ".join(map(str, self.looked_in(data_dir)))
        names = f" ({', '.join(self.files)})" if self.files else ""
        raise DataError(
            f"the files of {self.title}{names} are not in {places}"
            f"{'' if top.is_dir() else f' (there is no folder {top})'}, and they cannot be downloaded: {reason}. On a "
            f"machine with a network run:\n{self.command(data_dir)}\nand copy {top / first.parts[0]} here."
        )


def find_path(dataset: str, data_dir: Path, is_there: Callable[[Path], bool] = Path.is_file) -> Path:
    """A user's own file, or folder with `Path.is_dir`: looked up in the working folder, then in `data_dir`.

    Raises
    ------
    DataError
        If it is in neither.
    """
    given = Path(dataset).expanduser()
    path = next((path for path in (given, data_dir.expanduser() / given) if is_there(path)), None)
    if path is None:
        raise DataError(f"no {'file' if is_there is Path.is_file else 'folder'} {given}, nor {data_dir / given}")
    return path

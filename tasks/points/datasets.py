"""The data sets of points by name, and where their files lie."""

import difflib
from pathlib import Path

from curvfed.tasks import plugins
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs import download
from curvfed.tasks.points.readers import READERS

NAMES = ("uniform", "olsson")
"""Of them, "uniform" is built in."""

CURVATURES = {"olsson": -1.0}
"""That published embeddings were made with."""

OLSSON = Path("poincare", "olsson.npz")
"""Below the data folder: scRNA-seq of Olsson et al. (2016), 8 classes, embedded by Chien et al. (2021)."""

OLSSON_URL = (
    "https://raw.githubusercontent.com/thupchnsky/PoincareLinearClassification/"
    "7de1dc7a6f051d62265baa32a733c0628ed618bb/embedding/olsson_poincare_embedding.npz"
)
OLSSON_SHA256 = "f7d65e26eca92c7a3316794b4bcd64f8812182fc1e778c9a4aa1c47a3e3f9ab4"

_FETCH = (
    "import hashlib, pathlib, urllib.request as web; "
    f"file = pathlib.Path({{root}}, {str(OLSSON.parent)!r}, {OLSSON.name!r}); "
    "file.parent.mkdir(parents=True, exist_ok=True); "
    f"data = web.urlopen({OLSSON_URL!r}, timeout=60).read(); "
    f"assert hashlib.sha256(data).hexdigest() == {OLSSON_SHA256!r}, 'not the published file'; "
    "file.write_bytes(data)"
)


def is_points(dataset: str) -> bool:
    """Whether a name is one of `NAMES`, in any case, or ends like a file of points."""
    return dataset.lower() in NAMES or Path(dataset).suffix.lower() in READERS


def command(root: Path) -> str:
    """The shell command that downloads Olsson below the data folder `root`."""
    return f'python -c "{_FETCH.format(root=repr(str(root)))}"'


def locate(dataset: str, data_dir: Path) -> Path | None:
    """Find the file of a named data set, in any case, or of a path; None where it is built in or another package's.

    Absent files of a named data set are downloaded. A relative path is looked up in the working folder, then in
    `data_dir`.

    Raises
    ------
    DataError
        An unknown name, or a file that is absent and cannot be fetched; names the folder and the command to fetch it.
    """
    if dataset.lower() == "uniform" or plugins.data_set(dataset) is not None:
        return None
    if dataset.lower() == "olsson":
        return _olsson(data_dir.expanduser())
    given = Path(dataset).expanduser()
    if given.suffix.lower() not in READERS:
        near = difflib.get_close_matches(dataset.lower(), NAMES, n=1)
        hint = f'; did you mean "{near[0]}"?' if near else "."
        raise DataError(
            f'unknown data set of points "{dataset}"{hint} Known: {", ".join(NAMES)}, or the path of a file: '
            f"{', '.join(READERS)}"
        )
    path = next((path for path in (given, data_dir.expanduser() / given) if path.is_file()), None)
    if path is None:
        raise DataError(f"no file {given}, nor {data_dir / given}")
    return path


def _olsson(data_dir: Path) -> Path:
    path = data_dir / OLSSON
    if path.is_file():
        return path
    try:
        download.fetch_by(f"import sys; {_FETCH.format(root='sys.argv[1]')}", data_dir, str(OLSSON.parent))
        reason = "the download lacks it"
    except OSError as error:
        reason = str(error)
    if not path.is_file():
        raise DataError(
            f"the file of Olsson is not in {path.parent}, and it cannot be downloaded: {reason}. On a machine with a "
            f"network run:\n{command(data_dir)}\nand copy {path.parent} here."
        )
    return path

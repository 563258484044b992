"""The named data sets of points, and where their files are."""

from pathlib import Path

from curvfed.tasks import plugins
from curvfed.tasks.public_data import PublicData, find_path

NAMES = ("uniform", "olsson")
"""Names of data sets; "uniform" is built in."""

ENDINGS = (".npz", ".csv", ".tsv", ".h5ad")
"""What the names of files of points end in."""

CURVATURES = {"olsson": -1.0}
"""The curvatures of published embeddings."""

OLSSON_URL = (
    "https://raw.githubusercontent.com/thupchnsky/PoincareLinearClassification/"
    "7de1dc7a6f051d62265baa32a733c0628ed618bb/embedding/olsson_poincare_embedding.npz"
)
OLSSON_SHA256 = "f7d65e26eca92c7a3316794b4bcd64f8812182fc1e778c9a4aa1c47a3e3f9ab4"

OLSSON = PublicData(
    "Olsson",
    ("poincare",),
    ("olsson.npz",),
    "import hashlib, pathlib, urllib.request as web; "
    "file = pathlib.Path({root}, 'poincare', 'olsson.npz'); "
    "file.parent.mkdir(parents=True, exist_ok=True); "
    f"data = web.urlopen({OLSSON_URL!r}, timeout=60).read(); "
    f"assert hashlib.sha256(data).hexdigest() == {OLSSON_SHA256!r}, 'not the published file'; "
    "file.write_bytes(data)",
    origin=OLSSON_URL,
)
"""scRNA-seq of Olsson et al. (2016), 8 classes, embedded by Chien et al. (2021)."""


def is_points(dataset: str) -> bool:
    """Whether a name is one of `NAMES`, in any case, or ends like a file of points."""
    return dataset.lower() in NAMES or Path(dataset).suffix.lower() in ENDINGS


def locate(dataset: str, data_dir: Path) -> Path | None:
    """Find the file of a named data set, in any case, or of a path; None if it is built in or
    another package's.

    Missing files of a named data set are downloaded. A relative path is looked up in the working
    folder, then in `data_dir`.

    Raises
    ------
    DataError
        An unknown name, or a missing file that cannot be downloaded. The error names the folder and
        a download command.
    """
    if dataset.lower() == "uniform" or plugins.data_set(dataset) is not None:
        return None
    if dataset.lower() == "olsson":
        return OLSSON.find_or_download(data_dir, OLSSON.folder) / OLSSON.files[0]
    return find_path(dataset, data_dir, Path.exists)

"""Files and folders of other tools that are not read: their kinds, and the data to give instead."""

import zipfile
from itertools import islice
from pathlib import Path

from curvfed.tasks.formats import POINT_ENDINGS
from curvfed.tasks.formats import foreign as any_foreign

AS_IMAGES = (
    "give its images as a folder with a folder of images per class, or in Python as data=[(images,"
    " labels), …]"
)
AS_POINTS = (
    f"give coordinates and classes as {', '.join(POINT_ENDINGS[:-1])} or {POINT_ENDINGS[-1]}, or in"
    " Python as data=[(points, labels), …]"
)
AS_TABLES = f"its content is unknown; {AS_IMAGES}; or {AS_POINTS}"
UNPACK = "unpack it, and give the folder"

PFLLIB = (
    "PFLlib's pickled arrays, not opened as a pickle could run code",
    "in Python give each client as data=[(x, y), …] with stored = numpy.load(PATH,"
    ' allow_pickle=True)["data"].item(), y = stored["y"] and x = stored["x"] as images of uint8',
)

_TABLES = {
    ".h5": "an HDF5 file",
    ".hdf5": "an HDF5 file",
    ".mat": "a MATLAB file",
    ".parquet": "a Parquet file",
    ".arrow": "an Arrow file",
    ".feather": "a Feather file",
    ".pkl": "a pickle, which is not opened, as it could run code",
    ".pickle": "a pickle, which is not opened, as it could run code",
    ".npy": "one NumPy array without classes",
    ".json": "a JSON file other than LEAF's",
    ".jsonl": "a file of JSON lines",
}
_POINTS = {".xlsx": "an Excel file", ".rds": "an R object", ".loom": "a loom file of cells"}
_IMAGES = {
    ".tfrecord": "a TFRecord file",
    ".dcm": "a DICOM image",
    ".nii": "a NIfTI volume",
    ".nii.gz": "a NIfTI volume",
}
_GRAPHS = {".gpickle": "a pickled graph, which is not opened, as it could run code"}
_ARCHIVES = {
    ".zip": "an archive",
    ".tar": "an archive",
    ".tgz": "an archive",
}

FOREIGN = {
    **{ending: (kind, AS_TABLES) for ending, kind in _TABLES.items()},
    **{ending: (kind, AS_POINTS) for ending, kind in _POINTS.items()},
    **{ending: (kind, AS_IMAGES) for ending, kind in _IMAGES.items()},
    **{ending: (kind, "save it by torch.save as .pt") for ending, kind in _GRAPHS.items()},
    **{ending: (kind, UNPACK) for ending, kind in _ARCHIVES.items()},
    ".gz": ("a compressed file", "unpack it by gunzip, and give the file"),
}
"""Kinds of files by the end of their names, with alternatives."""

FOREIGN_FOLDERS = {
    ".zgroup": ("a zarr store", AS_POINTS),
    "zarr.json": ("a zarr store", AS_POINTS),
}
"""Folders of other tools, by a file in them."""

PEEK_FILES = 1000
"""The maximum number of files to check in a folder."""


def foreign(path: Path) -> tuple[str, str] | None:
    """The format of a file or folder, and the data to give instead; None for an absent path and for
    formats that are read or unknown."""
    if path.is_dir():
        return _folder(path)
    if not path.is_file():
        return None
    if path.suffix.lower() == ".npz":
        return _arrays(path)
    endings = ("".join(path.suffixes[-2:]).lower(), path.suffix.lower())
    return next((FOREIGN[ending] for ending in endings if ending in FOREIGN), None)


def _arrays(path: Path) -> tuple[str, str] | None:
    from numpy.lib.format import read_array_header_1_0, read_magic

    try:
        with zipfile.ZipFile(path) as stored:
            names = stored.namelist()
            for name in {"data.npy", "x_train.npy"}.intersection(names):
                with stored.open(name) as array:
                    read_magic(array)
                    shape, _, dtype = read_array_header_1_0(array)
                if names == ["data.npy"] and dtype.hasobject:
                    return PFLLIB
                if name == "x_train.npy" and len(shape) > 2:
                    return "a file of images, as Keras's mnist.npz", AS_IMAGES
    # Reading a damaged file raises a better error later.
    except (OSError, ValueError, zipfile.BadZipFile):
        pass
    return None


def _folder(path: Path) -> tuple[str, str] | None:
    """The kind of a folder without images, by files of certain names, or by the first file of a
    known kind."""
    for pattern, kind in FOREIGN_FOLDERS.items():
        if any(path.glob(pattern)):
            return kind
    for file in (*path.glob("0.npz"), *path.glob("train/0.npz")):
        if foreign(file) == PFLLIB:
            return f"a folder of {PFLLIB[0]}", PFLLIB[1]
    for file in islice(path.rglob("*"), PEEK_FILES):
        file_kind = any_foreign(file) if file.is_file() else None
        if file_kind is not None:
            return f"a folder that holds {file_kind[0]}", file_kind[1]
    return None

"""Recognise unsupported files and folders of other tools, and name an alternative."""

import zipfile
from itertools import islice
from pathlib import Path

from curvfed.tasks.errors import DataError

IMAGES = (
    "give its images as a folder with a folder of images per class, or in Python as data=[(images,"
    " labels), …]"
)
POINTS = (
    "give coordinates and classes as .npz, .csv, .tsv or .h5ad, or in Python as data=[(points,"
    " labels), …]"
)
TABLES = f"its content is unknown; {IMAGES}; or {POINTS}"
UNPACK = "unpack it, and give the folder"

KINDS = {
    ".h5": ("an HDF5 file", TABLES),
    ".hdf5": ("an HDF5 file", TABLES),
    ".mat": ("a MATLAB file", TABLES),
    ".parquet": ("a Parquet file", TABLES),
    ".arrow": ("an Arrow file", TABLES),
    ".feather": ("a Feather file", TABLES),
    ".pkl": ("a pickle, which is not opened, as it could run code", TABLES),
    ".pickle": ("a pickle, which is not opened, as it could run code", TABLES),
    ".npy": ("one NumPy array without classes", TABLES),
    ".xlsx": ("an Excel file", POINTS),
    ".rds": ("an R object", POINTS),
    ".loom": ("a loom file of cells", POINTS),
    ".tfrecord": ("a TFRecord file", IMAGES),
    ".json": ("a JSON file other than LEAF's", TABLES),
    ".jsonl": ("a file of JSON lines", TABLES),
    ".dcm": ("a DICOM image", IMAGES),
    ".nii": ("a NIfTI volume", IMAGES),
    ".nii.gz": ("a NIfTI volume", IMAGES),
    ".gpickle": (
        "a pickled graph, which is not opened, as it could run code",
        "save it by torch.save as .pt",
    ),
    ".zip": ("an archive", UNPACK),
    ".tar": ("an archive", UNPACK),
    ".tgz": ("an archive", UNPACK),
    ".gz": ("a compressed file", UNPACK),
}
"""Kinds of files by the end of their names, with alternatives."""

FOLDERS = (
    ((".zgroup",), "a zarr store", POINTS),
    (("zarr.json",), "a zarr store", POINTS),
)
"""Kinds of folders by the names of files in them, with alternatives."""

PEEK_FILES = 1000
"""The maximum number of files to check in a folder."""


def refuse_foreign(path: Path) -> None:
    """Refuse a file or folder of another tool; accept an absent path, or a possible data set.

    Raises
    ------
    DataError
        Names the kind and the alternative.
    """
    kind = None
    if path.is_dir():
        kind = _kind_of_folder(path)
    elif path.is_file():
        kind = _kind_of_file(path)
    if kind is not None:
        raise DataError(
            f"{path} is {kind[0]}, which is not supported; {kind[1]}", key="foreign-format"
        )


def is_tu_folder(path: Path) -> bool:
    """Whether a folder holds a file of the TU collection, as published or as stored by PyTorch
    Geometric."""
    return any(path.glob("*_A.txt")) or any(path.glob("raw/*_A.txt"))


def _kind_of_file(path: Path) -> tuple[str, str] | None:
    if path.suffix.lower() == ".npz":
        return _kind_of_arrays(path)
    endings = ("".join(path.suffixes[-2:]).lower(), path.suffix.lower())
    return next((KINDS[ending] for ending in endings if ending in KINDS), None)


def _kind_of_arrays(path: Path) -> tuple[str, str] | None:
    from numpy.lib.format import read_array_header_1_0, read_magic

    try:
        with zipfile.ZipFile(path) as stored:
            names = stored.namelist()
            if "x_train.npy" in names:
                with stored.open("x_train.npy") as array:
                    read_magic(array)
                    shape = read_array_header_1_0(array)[0]
                if len(shape) > 2:
                    return "a file of images, as Keras's mnist.npz", IMAGES
    # Reading a damaged file raises a better error later.
    except (OSError, ValueError, zipfile.BadZipFile):
        pass
    return None


def _kind_of_folder(path: Path) -> tuple[str, str] | None:
    """The kind of a folder without images, by files of certain names, or by the first file of a
    known kind."""
    if is_tu_folder(path):
        return None
    for names, kind, alternative in FOLDERS:
        if all((path / name).is_file() for name in names):
            return kind, alternative
    for file in islice(path.rglob("*"), PEEK_FILES):
        kind_of_file = _kind_of_file(file)
        if kind_of_file is not None:
            return f"a folder that holds {kind_of_file[0]}", kind_of_file[1]
    return None

"""Images in LEAF's JSON (Caldas et al., 2018), such as FEMNIST and CelebA: examples by user."""

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from curvfed.extensions.formats.rows import leaf_files
from curvfed.geometry.arrays import Array
from curvfed.tasks.class_names import number_labels
from curvfed.tasks.errors import DataError, naming, unreadable
from curvfed.tasks.images import is_image
from curvfed.tasks.images.folder import raw_files
from curvfed.tasks.images.layout import TEST, TRAIN
from curvfed.tasks.images.raw import RawImages, pixels_of, raw_images
from curvfed.tasks.public_data import Located
from curvfed.tasks.stored_files import LastRead, file_stamps


class StoredPixels(NamedTuple):
    """Images of one user, before it is known how the pixels of all users are scaled.

    Attributes
    ----------
    pixels : (n, c, h, w), uint8
        Whole numbers as they are stored; fractions of 1 times 255.
    has_fractions : bool
        Whether the stored numbers are from 0 to 1, and not all whole.
    """

    pixels: NDArray[np.uint8]
    has_fractions: bool


def stored_pixels(where: str, values: Array) -> StoredPixels:
    """Images of numbers from 0 to 1, or of whole numbers up to 255.

    Raises
    ------
    DataError
        If there are other values, or the shape is not `ALLOWED`.
    """
    lowest = values.min(initial=0)
    highest = values.max(initial=0)
    is_whole = values.dtype.kind in "biu" or bool((values % 1 == 0).all())
    if not (lowest >= 0 and highest <= (255 if is_whole else 1)):
        raise DataError(
            f"{where}: images have values other than 0 to 1, and other than whole numbers from 0"
            " to 255; allowed are these two",
            key="pixel-values",
        )
    whole = values if is_whole else np.rint(255 * values)
    return StoredPixels(pixels_of(where, whole.astype(np.uint8)), not is_whole)


def scaled_pixels(where: str, parts: Sequence[StoredPixels]) -> NDArray[np.uint8]:
    """The images of all users (n, c, h, w) in one scale, 0 to 255.

    A user with only the numbers 0 and 1 has the scale of the others.

    Raises
    ------
    DataError
        If some users have fractions of 1, and others whole numbers above 1.
    """
    has_fractions = any(part.has_fractions for part in parts)
    highest = max((part.pixels.max() for part in parts if not part.has_fractions), default=0)
    if has_fractions and highest > 1:
        raise DataError(
            f"{where}: some users have images of fractions of 1, others of whole numbers up to"
            f" {highest}; allowed is one scale for all users",
            key="pixel-values",
        )
    factor = np.uint8(1 if highest > 1 else 255)
    return np.concatenate(
        [part.pixels if part.has_fractions else factor * part.pixels for part in parts]
    )


ROLES = {"train": TRAIN, "test": TEST, "": TRAIN}
"""The role of the files of a part; "" are files outside of train/ and test/."""

PICTURES = "raw/img_align_celeba"
"""The folder of CelebA's images, next to train/ and test/."""

Examples = tuple[StoredPixels | NDArray[np.str_], Array]
"""Images, or the names of their files (n,), and labels (n,)."""


def locate(path: Path) -> Located[RawImages]:
    """The files of JSON and their reader."""
    files = tuple(file for split in leaf_files(path).values() for file in split)
    folder = _folder(files[0]) / PICTURES
    digest = _DIGEST.get(folder, partial(_pictures_digest, folder)) if folder.is_dir() else ""
    return Located(files, partial(read, path), digest=digest)


def _folder(file: Path) -> Path:
    """The folder that holds the part of a file, and `PICTURES`."""
    return file.absolute().parents[1]


_DIGEST: LastRead[str] = LastRead()
"""The digest of pictures, as a simulation asks once per client."""


def _pictures_digest(folder: Path) -> tuple[str, list[Path]]:
    """A digest of all pictures, and the files that it depends on."""
    pictures = sorted(file for file in folder.iterdir() if is_image(file.name))
    digest = hashlib.sha256(json.dumps(file_stamps(pictures)).encode()).hexdigest()
    return digest, [folder, *pictures]


def read(path: Path) -> RawImages:
    """Read one file, or a folder with train/*.json and test/*.json, one file after the other.

    Rows of numbers from 0 to 1, or of whole numbers up to 255, are square images; names of files
    are CelebA's images in `PICTURES`. The names of the classes are the labels. Each user of the
    files is a user of the images.

    Raises
    ------
    DataError
        If a file is damaged or incomplete, or holds text or other vectors.
    """
    splits = leaf_files(path)
    numbers: dict[str, int] = {}
    images: list[StoredPixels] = []
    file_names: list[str] = []
    labels = []
    users = []
    roles = []
    for split, files in splits.items():
        for file in files:
            with naming(file.name):
                users_of_file = list(_users(file))
            for name, (user_images, user_labels) in users_of_file:
                if isinstance(user_images, StoredPixels):
                    images.append(user_images)
                else:
                    file_names.extend(user_images.tolist())
                labels.append(user_labels)
                count = len(user_labels)
                users.append(np.full(count, numbers.setdefault(name, len(numbers))))
                roles.append(np.full(count, ROLES[split]))
    if not labels:
        raise DataError(f"{path} holds no images; allowed are users with images", key="no-images")
    if images and file_names:
        raise DataError(
            f"{path}: some users have rows of numbers, others names of files; allowed is one kind"
            " for all users",
            key="images",
        )
    _check_shapes(path, images)
    classes, class_names = number_labels(
        str(path), np.concatenate(labels), sum(map(len, labels)), "y"
    )
    all_roles = np.concatenate(roles)
    if file_names:
        folder = _folder(next(iter(splits.values()))[0])
        names = [str(folder / PICTURES / name) for name in file_names]
        samples = list(zip(names, classes.tolist(), all_roles.tolist(), strict=True))
        raw = raw_files(folder, samples, class_names, has_test="test" in splits)
    else:
        pixels = torch.from_numpy(scaled_pixels(str(path), images))
        raw = raw_images(pixels, classes, class_names, all_roles if "test" in splits else None)
    return replace(raw, users=np.concatenate(users))


def _check_shapes(path: Path, images: list[StoredPixels]) -> None:
    shapes = {"x".join(map(str, part.pixels.shape[1:])) for part in images}
    if len(shapes) > 1:
        raise DataError(
            f"{path}: images have the shapes {', '.join(sorted(shapes))} (channels x height x"
            " width); all must have one",
            key="image-sizes",
        )


def _users(path: Path) -> Iterator[tuple[str, Examples]]:
    """The name and the examples of each user in a file who has some."""
    try:
        with path.open(encoding="utf-8") as file:
            stored = json.load(file, object_hook=_with_arrays)
    except (OSError, ValueError, RecursionError) as error:
        raise unreadable(path, error, "file of LEAF's JSON") from error
    data = stored.get("user_data") if isinstance(stored, dict) else None
    names = stored.get("users") if isinstance(stored, dict) else None
    if not isinstance(data, dict) or not isinstance(names, list):
        raise DataError(
            f'{path} lacks "users" or "user_data"; required are both, as LEAF writes them',
            key="no-array",
        )
    seen: set[str] = set()
    for name in map(str, names):
        with naming(name):
            if name in seen:
                raise DataError(
                    f'{path}: "users" lists the user "{name}" twice; allowed is once',
                    key="repeated-user",
                )
            seen.add(name)
            examples = _examples(f'{path}, user "{name}"', data.get(name))
        if examples is not None:
            yield name, examples


def _with_arrays(entries: dict[str, Any]) -> dict[str, Any]:
    """An object of the file; its lists of numbers become arrays, which take a tenth of the
    memory."""
    for field in {"x", "y"} & entries.keys():
        if not isinstance(entries[field], list):  # a user of this name, or unfit
            continue
        with suppress(ValueError):  # rows of different lengths are refused later
            array = np.asarray(entries[field])
            entries[field] = array.astype(np.float32) if array.dtype == np.float64 else array
    return entries


def _examples(where: str, entries: object) -> Examples | None:
    """The checked examples of one user; None if missing."""
    if not isinstance(entries, dict) or not {"x", "y"} <= entries.keys():
        raise DataError(f"{where}: x and y are required", key="no-array")
    x = entries["x"]
    y = entries["y"]
    if not isinstance(x, list | np.ndarray) or not isinstance(y, list | np.ndarray):
        raise _unfit(where)
    if len(x) != len(y):
        raise DataError(
            f"{where}: x has {len(x)} rows and y has {len(y)}; each row needs one class",
            key="unequal-lengths",
        )
    if not len(y):
        return None
    if isinstance(x, list) or isinstance(y, list):
        raise DataError(
            f"{where}: the rows of x differ in length; all images must have one size",
            key="image-sizes",
        )
    if x.dtype.kind == "O" or y.dtype.kind == "O" or y.size != len(y):
        raise _unfit(where)
    y = y.reshape(len(y))
    if x.dtype.kind == "U":
        if x.ndim > 1 or not all(map(is_image, x.tolist())):
            raise DataError(
                f"{where}: x is text, as in LEAF's Shakespeare, Sent140 and Reddit; allowed are"
                " images, as in FEMNIST and CelebA",
                key="text",
            )
        for name in x.tolist():
            if name != Path(name).name:
                raise DataError(
                    f'{where}: x names the image "{name}"; allowed are plain names of files in'
                    f" {PICTURES}, without folders",
                    name,
                    key="file-name",
                )
        return x, y
    return stored_pixels(where, _squares(where, x)), y


def _unfit(where: str) -> DataError:
    return DataError(
        f"{where}: x and y are no lists of examples; allowed are a list x with a row of numbers, or"
        " the name of a file, per example, and a list y with a number or a text per example",
        key="examples",
    )


def _squares(where: str, x: Array) -> Array:
    """Flat rows as square images with 1 or 3 channels, the channels last."""
    if x.ndim != 2:
        return x
    for channels in (1, 3):
        side = math.isqrt(x.shape[1] // channels)
        if side > 1 and channels * side * side == x.shape[1]:
            return x.reshape(len(x), side, side, channels)
    raise DataError(
        f"{where}: the rows of x have {x.shape[1]} numbers, which are no square image of 1 or 3"
        " channels; allowed are images, as in FEMNIST",
        key="images",
    )

"""Folders that look like folders of classes, and may be the parts of an archive, sites, domains or
folds."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from curvfed.tasks.class_names import alike, names_listed
from curvfed.tasks.errors import DataError
from curvfed.tasks.images import class_folders, images_in

PARTS = re.compile(
    r"(.*[^a-z])?(images?|imgs?|pictures?|photos?|parts?|folds?|batch(es)?|chunks?|shards?|splits?)"
    r"[^a-z]*\d+"
)
"""Names of numbered parts, in small letters."""

MAX_TEXT = 2**20
"""The number of characters of a table that are compared with the images."""


class ClassFolder(NamedTuple):
    """The folder of a class in one part of the data."""

    role: int
    name: str
    path: Path


def unsorted_part(folder: Path, top: Path, root: Path) -> DataError:
    """The error for a part that holds images and no folders of classes.

    Parameters
    ----------
    folder, top, root : Path
        The folder of the data set, that of its parts, and that of the training part.
    """
    return _ambiguous(
        root,
        "there are images and no folders of classes; their classes may be in the names of the files"
        " or in a table, by which to sort them into folders",
        class_folders(top),
        _level(folder, top) + 1,
    )


def check_classes(folder: Path, root: Path, images: Mapping[ClassFolder, Sequence[str]]) -> None:
    """Refuse folders that may be other than classes.

    Parameters
    ----------
    folder, root : Path
        The folder of the data set and that of its training part.
    images : mapping of ClassFolder to sequence of str
        The paths of the images in each folder of the training part.

    Raises
    ------
    DataError
        If folders hold the same folders, more images lie outside than in them, they have the names
        of numbered parts, or a table assigns other classes to the images.
    """
    names = [entry.name for entry in images]
    level = _level(folder, root) + 1
    num_images = sum(map(len, images.values()))
    paths = _below_shared_folder([entry.path for entry in images])
    inner = _repeated_folders(paths, num_images)
    num_beside = len(images_in(root))
    table = _other_classes(root.parents[: level - 1], root, images)
    are_parts = len(names) > 1 and all(PARTS.fullmatch(name.lower()) for name in names)
    listed = names_listed(names)
    reasons = {
        f"{listed} hold the same folders, {names_listed(inner)}": inner,
        f"{num_beside} images lie beside the folders, {num_images} in them": (
            num_beside and num_beside >= num_images
        ),
        f"{listed} are named as parts": are_parts,
        f"{table} lists these images without the names of their folders": table,
    }
    for reason, holds in reasons.items():
        if holds:
            raise _ambiguous(root, reason, names, level, inner, _level(folder, paths[0]) + 1)


def _level(folder: Path, root: Path) -> int:
    """The level of `root`, 0 for `folder` itself."""
    return len(root.relative_to(folder).parts)


def _ambiguous(
    root: Path,
    why: str,
    names: Sequence[str],
    level: int,
    inner: Sequence[str] = (),
    inner_level: int = 0,
) -> DataError:
    deeper = ""
    if inner:
        deeper = (
            f", if {names_listed(inner)} are, {inner_level}: the folders above are then pooled and"
            " parted anew, unless partition=users makes each a client"
        )
    return DataError(
        f"{root}: {why}, so the classes are ambiguous; allowed is a folder of images per class. If"
        f" {names_listed(names)} are the classes, set images.classes-at to {level}{deeper}",
        *names,
        *inner,
        key="ambiguous-classes",
    )


def _below_shared_folder(paths: Sequence[Path]) -> Sequence[Path]:
    """The folders inside, as long as all hold a single one of the same name."""
    inner = {class_folders(path) for path in paths}
    if len(inner) != 1 or len(min(inner)) != 1:
        return paths
    return _below_shared_folder([path / min(inner)[0] for path in paths])


def _repeated_folders(paths: Sequence[Path], num_images: int) -> Sequence[str]:
    """The folders that several of `paths` hold; none if most images lie in `paths` themselves."""
    if 2 * sum(len(images_in(path)) for path in paths) >= num_images:
        return ()
    inner = [class_folders(path) for path in paths]
    holders = Counter(name for names in inner for name in names)
    # Patients of several classes may have the same numbers.
    shared = [name for name, count in holders.items() if count > 1 and not re.search(r"\d", name)]
    equal = [names for names in inner if len(names) > 1 and inner.count(names) > 1]
    return max(equal, default=shared, key=len)


def _other_classes(
    above: Sequence[Path], root: Path, images: Mapping[ClassFolder, Sequence[str]]
) -> Path | None:
    """A table in `root` or the folders `above` that names half of the images, and none of the
    folders that these are in."""
    stems = {Path(path).stem for files in images.values() for path in files}
    for table in [path for place in (root, *above) for path in place.glob("*.[ct]sv")]:
        with table.open(encoding="utf-8-sig", errors="replace") as file:
            next(file, "")  # the names of the columns
            text = file.read(MAX_TEXT)
        cells = re.split(r'[",;\t\n]', text)
        named_stems = {Path(cell).stem for cell in cells} & stems
        if not 2 * len(named_stems) >= min(len(stems), text.count("\n")) > 0:
            continue
        # The paths of the images may name their folders; the other cells are labels.
        words = alike(" ".join(cell for cell in cells if Path(cell).stem not in named_stems))
        if not any(alike(entry.name) in words for entry in images):
            return table
    return None

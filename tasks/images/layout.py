"""Where the images of a folder are: its parts, its classes, its files, and what is left out, in
words."""

import errno
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from curvfed.tasks.class_names import names_listed, normalised
from curvfed.tasks.errors import DataError
from curvfed.tasks.stored_files import file_stamps

TRAIN, VAL, TEST = range(3)
"""The roles of images."""

EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
"""As torchvision's. Other files are left out and counted; hidden files and folders are ignored."""

LAYOUTS = "CLASS/* or train/CLASS/* and test/CLASS/* (or val/CLASS/*), files in " + " ".join(
    EXTENSIONS
)

HIDDEN = (
    "__macosx",
    "@eadir",
    "#recycle",
    "$recycle.bin",
    "system volume information",
    "lost+found",
    "__pycache__",
    "thumbs.db",
    "ehthumbs.db",
    "desktop.ini",
    "icon\r",
)
"""What systems and tools leave in folders, in small letters."""

ROLES = {
    TRAIN: r"train(ing)?(set)?",
    VAL: r"val(id(ation|ate)?)?(set)?|dev(set)?",
    TEST: r"test(ing)?(set)?",
}
"""A word in the name of a folder of each role, in any case."""

TABLE = "val_annotations.txt"
"""TinyImageNet's table in val/ as it is published: a file of val/images and its class per row, by
tabs."""

PEEK_FOLDERS = 1000
"""How many folders `is_image_folder` looks into."""


class Layout(NamedTuple):
    """The images of a folder.

    Attributes
    ----------
    files : tuple of Path
        What is read: the folder of each part, as a whole, and a table of classes.
    class_names : tuple of str
        The names of the classes' folders, `curvfed.tasks.class_names.normalised`, in alphabetical
        order over all parts.
    samples : tuple of (str, int, int)
        Path, label and role of each image; in a class in the order of torchvision's ImageFolder.
    has_test : bool
    untrained : tuple of str
        The classes that have test or validation images, and no training images.
    notes : tuple of str
        What a user should know about the folder, in words.
    digest : str
        SHA-256 of the class names, and of every image (see `file_stamps`).
    """

    files: tuple[Path, ...]
    class_names: tuple[str, ...]
    samples: tuple[tuple[str, int, int], ...]
    has_test: bool
    untrained: tuple[str, ...]
    notes: tuple[str, ...]
    digest: str


def read_layout(folder: Path, parts: Mapping[int, Path] | None = None) -> Layout:
    """The layout of a folder, or of `parts` below it, CLASS/* each.

    Within a process the result is kept until a folder or one of its classes changes; that the
    content of a file has changed is seen by the next process.

    Raises
    ------
    DataError
        If a folder cannot be read, or it cannot be told which folders are the classes.
    """
    try:
        top = _unwrapped(folder)
        parts = _parts(top) if parts is None else parts
        watched = [
            path
            for part in parts.values()
            for path in (part, *(part / name for name in class_folders(part)))
        ]
        changes = tuple(path.stat().st_mtime_ns for path in watched)
        return _layout(folder, top, tuple(parts.items()), changes)
    except OSError as error:
        below = Path(error.filename).parts[len(folder.parts) :]
        raise DataError(
            f"{error.filename} cannot be looked into ({error.strerror})", *below
        ) from error


def class_folders(folder: Path) -> tuple[str, ...]:
    """Names of the folders in `folder`, sorted, without hidden ones; none where `folder` is no
    folder.

    Raises
    ------
    DataError
        If the folder cannot be read.
    """
    try:
        if not folder.is_dir():
            return ()
        with os.scandir(folder) as entries:
            return tuple(
                sorted(
                    entry.name for entry in entries if entry.is_dir() and not _hidden(entry.name)
                )
            )
    except OSError as error:
        raise DataError(f"{folder} cannot be looked into ({error.strerror})") from error


def is_image_folder(path: Path) -> bool:
    """Whether one of the first folders below `path` holds an image."""
    for _, folders, files in islice(os.walk(path, followlinks=True), PEEK_FOLDERS):
        if any(map(is_image, files)):
            return True
        folders[:] = [name for name in folders if not _hidden(name)]
    return False


def is_image(path: str) -> bool:
    """Whether a file is an image, by its name."""
    return path.lower().endswith(EXTENSIONS) and not _hidden(os.path.basename(path))


def _parts(top: Path) -> dict[int, Path]:
    """The folder of each role: training, test, and validation if all are there; without a test
    part, val/ is it.

    Without a test part `TRAIN` is the only role: the training folder, or `top` itself where there
    is none.
    """
    parts = {role: part for role in ROLES if (part := _part(top, role)) is not None}
    if TRAIN not in parts:
        return {TRAIN: top}
    if TEST not in parts and VAL in parts:
        parts[TEST] = parts.pop(VAL)
    return {role: _unwrapped(part, is_part=True) for role, part in parts.items()}


def _part(top: Path, role: int) -> Path | None:
    """The folder of a role in `top`, with a word of `ROLES` in its name.

    Raises
    ------
    DataError
        If there are several.
    """
    word = re.compile(rf"(?:.*[^a-z])?{ROLES[role]}(?:[^a-z].*)?")
    named = [
        name
        for name in class_folders(top)
        if word.fullmatch(name.lower()) and _holds_classes(top / name, role)
    ]
    exact = [name for name in named if re.fullmatch(ROLES[role], name.lower())] or named
    if len(exact) > 1:
        raise DataError(
            f"{top} has {names_listed(exact)}; allowed is one of them, and {LAYOUTS}", *exact
        )
    return top / exact[0] if exact else None


def _holds_classes(part: Path, role: int) -> bool:
    if role == TRAIN:  # with images it is a class like others
        return bool(class_folders(part)) and not _has_images(part)
    # Images of unknown classes are in one folder of this name, unless a table has their classes.
    return class_folders(part) not in ((), ("images",)) or (part / TABLE).is_file()


def _unwrapped(folder: Path, is_part: bool = False) -> Path:
    """`folder`, or the folder of classes that is all it holds; a part holds one of its own name."""
    names = class_folders(folder)
    if len(names) != 1 or _has_images(folder):
        return folder
    inside = folder / names[0]
    folders = class_folders(inside)
    is_wrapper = inside.name == folder.name or (len(folders) > 1 and not is_part)
    return (
        _unwrapped(inside, is_part)
        if folders and is_wrapper and not _has_images(inside)
        else folder
    )


@lru_cache(maxsize=8)
def _layout(
    folder: Path, top: Path, parts: tuple[tuple[int, Path], ...], changes: tuple[int, ...]
) -> Layout:
    # Walking through tens of thousands of files takes half a second, and a simulation asks once per
    # client.
    tables = [part / TABLE for role, part in parts if role == TEST and (part / TABLE).is_file()]
    folders = [(role, part) for role, part in parts if part / TABLE not in tables]
    names = sorted({normalised(name) for _, part in folders for name in class_folders(part)})
    if not names:
        raise DataError(f"{folder} holds no folders of classes; allowed is {LAYOUTS}")
    _check_classes(parts[0][1], names)
    samples: list[tuple[str, int, int]] = []
    others: dict[str, Counter[str]] = {name: Counter() for name in names}
    for role, part in folders:
        for name in class_folders(part):
            images, endings = _contents(part / name)
            label = names.index(normalised(name))
            samples += [(path, label, role) for path in images]
            others[names[label]].update(endings)
    samples += [(path, label, TEST) for table in tables for path, label in _rows(table, names)]
    filled = {label for _, label, _ in samples}
    empty = [name for label, name in enumerate(names) if label not in filled]
    for name in empty:
        if others[name]:
            raise DataError(
                f"{folder}: no file of class {names_listed([name])} is an image that is read, but"
                f" there are {names_listed(_counts(others[name]))}; allowed are folders of classes"
                f" alone, with files in {' '.join(EXTENSIONS)}",
                name,
            )
    trained = {label for _, label, role in samples if role == TRAIN}
    untrained = [names[label] for label in sorted(filled - trained)]
    places = [part.relative_to(top).parts[0] for _, part in parts if top in part.parents]
    left_out = {
        "the classes are in the folder": [str(top)] if top != folder else [],
        "folders that are not read": (
            sorted(set(class_folders(top)) - set(places)) if places else []
        ),
        "files that are not read": _counts(sum(others.values(), Counter())),
        "classes without images": empty,
        "classes without training images": untrained,
    }
    return Layout(
        files=(*(part for _, part in parts), *tables),
        class_names=tuple(names),
        samples=tuple(samples),
        has_test=len(parts) > 1,
        untrained=tuple(untrained),
        notes=tuple(
            f"{folder}: {words}: {names_listed(items)}"
            for words, items in left_out.items()
            if items
        ),
        digest=hashlib.sha256(
            json.dumps([names, file_stamps([path for path, _, _ in samples])]).encode()
        ).hexdigest(),
    )


def _check_classes(part: Path, names: Sequence[str]) -> None:
    """Refuse folders that hold the same folders: these are the classes, or they are parts of
    unknown names."""
    inner = Counter(class_folders(part / name) for name in names if (part / name).is_dir())
    largest = max(inner, key=len, default=())
    if (
        len(largest) > 1
        and inner[largest] > 1
        and not any(_has_images(part / name) for name in names)
    ):
        raise DataError(
            f"{part}: {names_listed(names)} hold the same folders, {names_listed(largest)}: it"
            f" cannot be told which are the classes; allowed is {LAYOUTS}",
            *names,
            *largest,
        )


def _rows(table: Path, names: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Paths and labels of the images in a `TABLE`."""
    numbers = {name: number for number, name in enumerate(names)}
    for row, line in enumerate(table.read_text(encoding="utf-8").splitlines(), start=1):
        file, _, rest = line.partition("\t")
        label = numbers.get(normalised(rest.partition("\t")[0]))
        if label is None:
            raise DataError(
                f"{table}: row {row} names no class; allowed are a file and a folder of train/, and"
                " a tab between"
            )
        yield str(table.parent / "images" / file), label


def _contents(folder: Path) -> tuple[list[str], Counter[str]]:
    """The paths of the images in a class's folder, in torchvision's order, and the endings of other
    files, counted."""
    files = [entry.path for entry in _below(str(folder)) if not entry.is_dir()]
    images = sorted(filter(is_image, files), key=os.path.split)
    others = (Path(path).suffix.lower() or "without ending" for path in files if not is_image(path))
    return images, Counter(others)


def _counts(endings: Counter[str]) -> list[str]:
    return [f"{number} {ending}" for ending, number in endings.most_common()]


def _below(
    folder: str, above: frozenset[tuple[int, int]] = frozenset()
) -> Iterator[os.DirEntry[str]]:
    """What is in a folder and in the folders in it, by name, without what is hidden; `above` are
    the folders around it."""
    own = os.stat(folder)
    if (identity := (own.st_dev, own.st_ino)) in above:
        raise OSError(errno.ELOOP, "a link to a folder that holds it", folder)
    with os.scandir(folder) as entries:
        visible = sorted(
            (entry for entry in entries if not _hidden(entry.name)), key=lambda entry: entry.name
        )
    for entry in visible:
        yield entry
        if entry.is_dir():
            yield from _below(entry.path, above | {identity})


def _has_images(folder: Path) -> bool:
    with os.scandir(folder) as entries:
        return any(is_image(entry.name) and entry.is_file() for entry in entries)


def _hidden(name: str) -> bool:
    return name.startswith(".") or name.lower() in HIDDEN

"""The layout of a folder of images: its parts, its classes, its files, and what is left out."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from curvfed.tasks.class_names import names_listed, normalised
from curvfed.tasks.errors import DataError
from curvfed.tasks.images import EXTENSIONS, class_files, class_folders, has_images
from curvfed.tasks.stored_files import file_stamps

TRAIN, VAL, TEST = range(3)
"""The roles of images."""

LAYOUTS = "CLASS/* or train/CLASS/* and test/CLASS/* (or val/CLASS/*), files in " + " ".join(
    EXTENSIONS
)

ROLES = {
    TRAIN: r"train(ing)?(set)?",
    VAL: r"val(id(ation|ate)?)?(set)?|dev(set)?",
    TEST: r"test(ing)?(set)?",
}
"""The word in the folder name of each role, in any case."""

TABLE = "val_annotations.txt"
"""TinyImageNet's published table in val/: per row a file of val/images and its class, with tabs."""

WORDS = "words.txt"
"""ImageNet's names of classes beside the parts: per row a number such as n01443537 and words, with
a tab."""


class Layout(NamedTuple):
    """The images of a folder.

    Attributes
    ----------
    files : tuple of Path
        The folders of the parts, and a table of classes.
    class_names : tuple of str
        The names of the classes' folders, `curvfed.tasks.class_names.normalised`, in alphabetical
        order over all parts; or the names that `WORDS` has for them, in the same order.
    samples : tuple of (str, int, int)
        Path, label and role of each image; in a class in the order of torchvision's ImageFolder.
    has_test : bool
    untrained : tuple of str
        The classes with test or validation images, but without training images.
    notes : tuple of str
        What a user should know about the folder, in words.
    digest : str
        SHA-256 of the class names and of all images (see `file_stamps`).
    """

    files: tuple[Path, ...]
    class_names: tuple[str, ...]
    samples: tuple[tuple[str, int, int], ...]
    has_test: bool
    untrained: tuple[str, ...]
    notes: tuple[str, ...]
    digest: str


def read_layout(folder: Path, parts: Mapping[int, Path] | None = None) -> Layout:
    """The layout of a folder, or of its `parts`, CLASS/* each, by role.

    A process stores the result until a folder or one of its classes changes; only the next process
    notices a change in the contents of a file.

    Raises
    ------
    DataError
        If a folder cannot be read, or the folders of the classes are ambiguous.
    """
    try:
        top = _unwrapped(folder)
        parts = _parts(top) if parts is None else parts
        watched = [*parts.values()]
        watched += [path for root in parts.values() for path in _class_paths(root)]
        changes = tuple(path.stat().st_mtime_ns for path in watched)
        return _layout(folder, top, tuple(parts.items()), changes)
    except OSError as error:
        below = Path(error.filename).parts[len(folder.parts) :]
        raise DataError(
            f"{error.filename} cannot be looked into ({error.strerror})", *below, key="unreadable"
        ) from error


def _class_paths(root: Path) -> list[Path]:
    return [root / name for name in class_folders(root)]


def _parts(top: Path) -> dict[int, Path]:
    """The folder of each role.

    Without a test folder val/ is the test folder. Without both, `TRAIN` is the only role: the
    training folder, or else `top` itself.
    """
    parts: dict[int, Path] = {}
    for role in ROLES:
        root = _role_folder(top, role)
        if root is not None:
            parts[role] = _unwrapped(root, is_part=True)
    if TRAIN not in parts:
        return {TRAIN: top}
    if TEST not in parts and VAL in parts:
        parts[TEST] = parts.pop(VAL)
    return parts


def _role_folder(top: Path, role: int) -> Path | None:
    """The folder in `top` with a word of `ROLES` in its name.

    Raises
    ------
    DataError
        If there are several.
    """
    word = re.compile(rf"(?:.*[^a-z])?{ROLES[role]}(?:[^a-z].*)?")
    matches = [
        name
        for name in class_folders(top)
        if word.fullmatch(name.lower()) and _holds_classes(top / name, role)
    ]
    exact = [name for name in matches if re.fullmatch(ROLES[role], name.lower())] or matches
    if len(exact) > 1:
        raise DataError(
            f"{top} has {names_listed(exact)}; allowed is one of them, and {LAYOUTS}",
            *exact,
            key="several-parts",
        )
    return top / exact[0] if exact else None


def _holds_classes(root: Path, role: int) -> bool:
    # A folder called train that holds images is a class.
    if role == TRAIN:
        return bool(class_folders(root)) and not has_images(root)
    # A single folder "images" holds images of unknown classes, unless a table has their classes.
    return class_folders(root) not in ((), ("images",)) or (root / TABLE).is_file()


def _unwrapped(folder: Path, is_part: bool = False) -> Path:
    """`folder`, or the folder of classes that is its only content; in a part the inner folder must
    have the same name."""
    names = class_folders(folder)
    if len(names) != 1 or has_images(folder):
        return folder
    inside = folder / names[0]
    inner = class_folders(inside)
    is_wrapper = inside.name == folder.name or (len(inner) > 1 and not is_part)
    if inner and is_wrapper and not has_images(inside):
        return _unwrapped(inside, is_part)
    return folder


@lru_cache(maxsize=8)
def _layout(
    folder: Path, top: Path, parts: tuple[tuple[int, Path], ...], changes: tuple[int, ...]
) -> Layout:
    # The walk through tens of thousands of files takes half a second, and a simulation asks once
    # per client.
    tables = [root / TABLE for role, root in parts if role == TEST and (root / TABLE).is_file()]
    classes = [
        (role, path)
        for role, root in parts
        if root / TABLE not in tables
        for path in _class_paths(root)
    ]
    names = sorted({normalised(path.name) for _, path in classes})
    if not names:
        raise DataError(
            f"{folder} holds no folders of classes; allowed is {LAYOUTS}", key="no-classes"
        )
    _check_classes(parts[0][1], names)
    samples: list[tuple[str, int, int]] = []
    ignored: dict[str, Counter[str]] = {name: Counter() for name in names}
    for role, path in classes:
        images, endings = class_files(path)
        name = normalised(path.name)
        samples += [(image, names.index(name), role) for image in images]
        ignored[name].update(endings)
    for table in tables:
        samples += [(path, label, TEST) for path, label in _rows(table, names)]
    filled = {names[label] for _, label, _ in samples}
    trained = {names[label] for _, label, role in samples if role == TRAIN}
    empty = [name for name in names if name not in filled]
    _check_empty(folder, empty, ignored)
    untrained = sorted(filled - trained)
    read = {root.relative_to(top).parts[0] for _, root in parts if top in root.parents}
    unread = sorted(set(class_folders(top)) - read) if read else []
    facts = {
        "the classes are in the folder": [str(top)] if top != folder else [],
        "folders that are not read": unread,
        "files that are not read": _counts(sum(ignored.values(), Counter())),
        "classes without images": empty,
        "classes without training images": untrained,
    }
    class_names = _named_by_words(top / WORDS, names)
    stamps = file_stamps([path for path, _, _ in samples])
    content = json.dumps([class_names, stamps]).encode()
    roots = [root for _, root in parts]
    notes = [f"{folder}: {fact}: {names_listed(items)}" for fact, items in facts.items() if items]
    return Layout(
        files=(*roots, *tables),
        class_names=class_names,
        samples=tuple(samples),
        has_test=len(parts) > 1,
        untrained=tuple(untrained),
        notes=tuple(notes),
        digest=hashlib.sha256(content).hexdigest(),
    )


def _check_classes(root: Path, names: Sequence[str]) -> None:
    """Refuse folders that hold the same folders: these may be the classes, or parts with unknown
    names."""
    inner = Counter(class_folders(root / name) for name in names if (root / name).is_dir())
    largest = max(inner, key=len, default=())
    is_repeated = len(largest) > 1 and inner[largest] > 1
    if is_repeated and not any(has_images(root / name) for name in names):
        raise DataError(
            f"{root}: {names_listed(names)} hold the same folders, {names_listed(largest)}, so the"
            f" classes are ambiguous; allowed is {LAYOUTS}",
            *names,
            *largest,
            key="ambiguous-classes",
        )


def _check_empty(folder: Path, empty: Sequence[str], ignored: Mapping[str, Counter[str]]) -> None:
    """Refuse classes with files, but without images."""
    for name in empty:
        if ignored[name]:
            raise DataError(
                f"{folder}: no file of class {names_listed([name])} is a supported image, but there"
                f" are {names_listed(_counts(ignored[name]))}; allowed are only folders of classes,"
                f" with files in {' '.join(EXTENSIONS)}",
                name,
                key="no-images",
            )


def _rows(table: Path, names: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Paths and labels of the images in a `TABLE`."""
    for number, line in enumerate(_lines(table), start=1):
        file, _, fields = line.partition("\t")
        name = normalised(fields.partition("\t")[0])
        if name not in names:
            raise DataError(
                f"{table}: row {number} names no class; allowed are a file and a folder of train/,"
                " separated by a tab",
                key="no-class",
            )
        if file != Path(file).name:
            raise DataError(
                f'{table}: row {number} names the image "{file}"; allowed are names of files'
                " in images/, without folders",
                file,
                key="file-name",
            )
        yield str(table.parent / "images" / file), names.index(name)


def _named_by_words(path: Path, names: Sequence[str]) -> tuple[str, ...]:
    """The first word for each class, with its number where two classes have the same; without the
    file, or a row for each class, the names of the folders."""
    if not path.is_file():
        return tuple(names)
    rows = (line.split("\t") for line in _lines(path))
    words = {row[0]: normalised(row[1].partition(",")[0]) for row in rows if len(row) == 2}
    if not words.keys() >= set(names):
        return tuple(names)
    counts = Counter(words[name] for name in names)
    class_names = []
    for name in names:
        word = words[name]
        class_names.append(word if counts[word] == 1 else f"{word} ({name})")
    return tuple(class_names)


def _lines(table: Path) -> list[str]:
    # A row in another encoding matches no class.
    return table.read_text(encoding="utf-8", errors="replace").splitlines()


def _counts(endings: Counter[str]) -> list[str]:
    return [f"{number} {ending}" for ending, number in endings.most_common()]

"""The layout of a folder of images: its parts, its classes, its files, and the ignored files."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from curvfed.tasks.class_names import names_listed, normalised
from curvfed.tasks.errors import DataError
from curvfed.tasks.images import (
    EXTENSIONS,
    class_files,
    class_folders,
    has_frames,
    has_images,
    images_in,
)
from curvfed.tasks.images.ambiguity import ClassFolder, check_classes, unsorted_part
from curvfed.tasks.stored_files import LastRead, file_stamps

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

PICTURES = ("images", "image", "imgs", "img")
"""Names of a folder in the folder of a class, alone or next to folders of masks."""

UNSORTED = (*PICTURES, "unknown", "unlabelled", "unlabeled")
"""Names of a part's only folder, with images of unknown classes."""

TABLE = "val_annotations.txt"
"""TinyImageNet's published table in val/: per row a file of val/images and its class, with tabs."""

WORDS = "words.txt"
"""ImageNet's names of classes, next to the parts: per row a number such as n01443537 and words,
with a tab."""


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
    sites : tuple of str
        With a given level of the classes, the folders above them that name no part of the data.
    users : tuple of int
        The place in `sites` of each image's; () without sites.
    notes : tuple of str
        Notes for the user about the folder, in words.
    digest : str
        SHA-256 of the class names and of all images (see `file_stamps`).
    """

    files: tuple[Path, ...]
    class_names: tuple[str, ...]
    samples: tuple[tuple[str, int, int], ...]
    has_test: bool
    sites: tuple[str, ...]
    users: tuple[int, ...]
    notes: tuple[str, ...]
    digest: str


_LAYOUT: LastRead[Layout] = LastRead()
"""The walk through tens of thousands of files takes half a second, and a simulation asks once per
client."""


def read_layout(folder: Path, parts: Mapping[int, Path] | None = None, level: int = 0) -> Layout:
    """The layout of a folder, or of its `parts`, CLASS/* each, by role.

    Parameters
    ----------
    folder : Path
    parts : mapping of int to Path, optional
    level : int
        The level of the folders that are the classes: 1 for those in `folder` itself. 0: by the
        names and contents of the folders.

    Raises
    ------
    DataError
        If a folder cannot be read, or the folders of the classes are ambiguous.
    """
    key = (folder, tuple((parts or {}).items()), level)
    try:
        return _LAYOUT.get(key, partial(_read_layout, folder, parts, level))
    except OSError as error:
        below = Path(error.filename).parts[len(folder.parts) :]
        raise DataError(
            f"{error.filename} cannot be looked into ({error.strerror})", *below, key="unreadable"
        ) from error


def _read_layout(
    folder: Path, parts: Mapping[int, Path] | None, level: int
) -> tuple[Layout, list[str | Path]]:
    """The layout, and the files and folders that determine it."""
    top = folder if level else _unwrapped(folder)
    if parts is None:
        parts = {TRAIN: top} if level else _parts(folder, top)
    roots = list(parts.values())
    tables = [root / TABLE for role, root in parts.items() if role == TEST and _has_table(root)]
    unread: list[str] = []
    if level:
        classes = _classes_at(folder, level)
    else:
        classes = [
            class_folder
            for role, root in parts.items()
            if root / TABLE not in tables
            for class_folder in _classes_of(role, root, unread)
        ]
    names = sorted({entry.name for entry in classes})
    if not names:
        place = f" at level {level}" if level else ""
        raise DataError(
            f"{folder} holds no folders of classes{place}; allowed is {LAYOUTS}", key="no-classes"
        )
    sites = {entry: _site(folder, entry.path) if level else "" for entry in classes}
    site_names = sorted({*sites.values()} if any(sites.values()) else {})
    users: list[int] = []
    samples: list[tuple[str, int, int]] = []
    ignored: dict[str, Counter[str]] = {name: Counter() for name in names}
    watched: list[str | Path] = [folder, *tables]
    to_train: dict[ClassFolder, list[str]] = {}
    for entry in classes:
        images, endings, folders = class_files(entry.path)
        samples += [(image, names.index(entry.name), entry.role) for image in images]
        if site_names:
            users += [site_names.index(sites[entry])] * len(images)
        ignored[entry.name].update(endings)
        watched += [*_folders_between(folder, entry.path), *folders, *images]
        if entry.role == TRAIN:
            to_train[entry] = images
    if not level:
        check_classes(folder, roots[0], to_train)
    for table in tables:
        rows = list(_rows(table, names))
        samples += [(path, label, TEST) for path, label in rows]
        watched += [path for path, _ in rows]
    filled = {names[label] for _, label, _ in samples}
    trained = {names[label] for _, label, role in samples if role == TRAIN}
    empty = [name for name in names if name not in filled]
    _check_empty(folder, empty, ignored)
    read = {root.relative_to(top).parts[0] for root in roots if top in root.parents}
    unread += sorted(set(class_folders(top)) - read) if read else []
    frames = sum(has_frames(path) for path, _, _ in samples)
    num_beside = sum(len(images_in(root)) for root in roots)
    facts = {
        "the classes are in the folder": [str(top)] if top != folder else [],
        "folders that are not read": unread,
        "images beside the folders, which are not read": [str(num_beside)] if num_beside else [],
        "files of several images, of which the first is read": [str(frames)] if frames else [],
        "files that are not read": _counts(sum(ignored.values(), Counter())),
        "classes without images": empty,
        "classes without training images": sorted(filled - trained),
    }
    class_names = _named_by_words(top / WORDS, names)
    stamps = file_stamps([path for path, _, _ in samples])
    content = json.dumps([class_names, samples, stamps]).encode()
    notes = [f"{folder}: {fact}: {names_listed(items)}" for fact, items in facts.items() if items]
    layout = Layout(
        files=(*roots, *tables),
        class_names=class_names,
        samples=tuple(samples),
        has_test=any(role == TEST for _, _, role in samples) if level else len(parts) > 1,
        sites=tuple(site_names),
        users=tuple(users),
        notes=tuple(notes),
        digest=hashlib.sha256(content).hexdigest(),
    )
    return layout, watched


def _folders_between(folder: Path, path: Path) -> Sequence[Path]:
    """The folders below `folder` that hold `path`."""
    return path.parents[: len(path.relative_to(folder).parts) - 1]


def _classes_at(folder: Path, level: int) -> list[ClassFolder]:
    """The folders of classes at a level; the folders above them determine their parts."""
    paths = [folder]
    for _ in range(level):
        paths = [path / name for path in paths for name in class_folders(path)]
    roles = [_role_of(path.relative_to(folder).parts[:-1]) for path in paths]
    has_test = TEST in roles
    return [
        ClassFolder(TEST if role == VAL and not has_test else role, normalised(path.name), path)
        for role, path in zip(roles, paths, strict=True)
    ]


def _site(folder: Path, path: Path) -> str:
    """The folders between `folder` and that of a class, less those that name a part of the data."""
    names = path.relative_to(folder).parts[:-1]
    return "/".join(name for name in names if not any(_has_role(name, role) for role in ROLES))


def _role_of(names: Sequence[str]) -> int:
    """The role of the last of these folders that has a word of `ROLES` in its name; else
    `TRAIN`."""
    roles = [role for name in names for role in ROLES if _has_role(name, role)]
    return roles[-1] if roles else TRAIN


def _has_role(name: str, role: int) -> bool:
    pattern = rf"(?:.*[^a-z])?(?:{ROLES[role]})(?:[^a-z].*)?"
    return re.fullmatch(pattern, name.lower()) is not None


def _parts(folder: Path, top: Path) -> dict[int, Path]:
    """The folder of each role.

    Without a test folder val/ is the test folder. Without both, `TRAIN` is the only role: the
    training folder, or else `top` itself.
    """
    names = class_folders(top)
    roots = {role: [name for name in names if _has_role(name, role)] for role in ROLES}
    is_split = bool(roots[VAL] or roots[TEST]) or len(names) == len(roots[TRAIN])
    parts: dict[int, Path] = {}
    for role in ROLES:
        root = _part(top, role, roots[role], is_split)
        if root is not None:
            parts[role] = root
    if TRAIN not in parts:
        trained = [_unwrapped(top / name, is_part=True) for name in roots[TRAIN] if is_split]
        flat = [root for root in trained if has_images(root)]
        if flat:
            raise unsorted_part(folder, top, flat[0])
        return {TRAIN: top}
    if TEST not in parts and VAL in parts:
        parts[TEST] = parts.pop(VAL)
    return parts


def _part(top: Path, role: int, names: Sequence[str], is_split: bool) -> Path | None:
    """The folder with the classes of a role, of those with its word in their names.

    Raises
    ------
    DataError
        If there are several.
    """
    roots = {name: _unwrapped(top / name, is_part=True) for name in names}
    matches = [name for name in names if _holds_classes(roots[name], role, is_split)]
    exact = [name for name in matches if re.fullmatch(ROLES[role], name.lower())] or matches
    if len(exact) > 1:
        raise DataError(
            f"{top} has {names_listed(exact)}; allowed is one of them, and {LAYOUTS}",
            *exact,
            key="several-parts",
        )
    return roots[exact[0]] if exact else None


def _holds_classes(root: Path, role: int, is_split: bool) -> bool:
    names = class_folders(root)
    # A folder called train that holds images is a class, unless a test folder lies next to it.
    if role == TRAIN:
        return bool(names) and (is_split or not has_images(root))
    # A single folder "images" holds images of unknown classes, unless a table has their classes.
    is_unsorted = len(names) == 1 and names[0].lower() in UNSORTED
    return (bool(names) and not is_unsorted) or _has_table(root)


def _has_table(root: Path) -> bool:
    """Whether a `TABLE` has the classes of the images in `root`; a script that sorts the images
    into folders leaves the table."""
    pictures = root / "images"
    return (root / TABLE).is_file() and pictures.is_dir() and has_images(pictures)


def part_classes(root: Path) -> tuple[str, ...]:
    """The folders of classes in a part, without an empty one that a script has left."""
    names = class_folders(root)
    emptied = [name for name in names if name in PICTURES and not any((root / name).iterdir())]
    return tuple(name for name in names if name not in emptied) or names


def _classes_of(role: int, root: Path, unread: list[str]) -> Iterator[ClassFolder]:
    """The folders of classes in a part. If one has its images in a folder of `PICTURES`, the
    folders next to it, such as masks, are appended to `unread`."""
    for name in part_classes(root):
        path = root / name
        inner = class_folders(path)
        pictures = [place for place in inner if place in PICTURES and not has_images(path)]
        if pictures:
            unread += [f"{name}/{place}" for place in inner if place != pictures[0]]
        yield ClassFolder(role, normalised(name), path.joinpath(*pictures[:1]))


def _unwrapped(folder: Path, is_part: bool = False) -> Path:
    """`folder`, or the folder of classes that is its only content, however deep; in a part the
    inner folder must have the same name."""
    names = class_folders(folder)
    if len(names) != 1 or has_images(folder):
        return folder
    inside = folder / names[0]
    inner = class_folders(inside)
    if is_part:
        return _unwrapped(inside, is_part) if inside.name == folder.name else folder
    if not inner or has_images(inside):
        return folder
    deepest = _unwrapped(inside)
    is_wrapper = inside.name == folder.name or len(class_folders(deepest)) > 1
    return deepest if is_wrapper else folder


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

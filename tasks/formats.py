"""The format of a path: each format recognises its files and folders by their content and says why;
the first match decides. Extensions and other packages add formats by the group
`curvfed.formats`."""

import os
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from curvfed.tasks import plugins
from curvfed.tasks.class_names import names_listed
from curvfed.tasks.errors import DataError
from curvfed.tasks.format import Format, ends_in
from curvfed.tasks.images import first_image
from curvfed.tasks.kinds import ADDED, KINDS, added_by
from curvfed.tasks.public_data import Located
from curvfed.tasks.sources import ARRAYS, STORED
from curvfed.tasks.stored_files import LastRead
from curvfed.tasks.tables import TABLES, ending, first_lines


@dataclass(frozen=True)
class Decision:
    """The format of a path, and the reason.

    Attributes
    ----------
    path : Path
    form : Format
    reason : str
        In words.
    """

    path: Path
    form: Format
    reason: str

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of `curvfed.tasks.kinds.KINDS` that the path may be read as."""
        return self.form.tasks

    @property
    def text(self) -> str:
        """The decision in words, such as "links.tsv: links (two columns of names)"."""
        return f"{self.path.name}: {' or '.join(self.tasks)} ({self.reason})"

    def text_of(self, task: str) -> str:
        """The decision in words, once the data have been read as this task's."""
        if self.tasks == (task,):
            return self.text
        return f"{self.path.name}: {task} ({self.reason}; its contents decide)"

    def locate(self, **options: Any) -> "Located[Any]":
        """The files of the data in an added format, and their reader, which knows the options.

        Raises
        ------
        DataError
            If the files are incomplete.
        """
        locate = resolve_name(self.form.reader)
        located: Located[Any] = locate(self.path, **options)
        return replace(located, title=self.form.title)


_DECISION: LastRead[Decision] = LastRead()
"""A run asks several times about each path."""


def decide(path: Path) -> Decision:
    """The format of a path; for an absent one by the end of its name.

    Raises
    ------
    DataError
        If it is of a kind that is not read.
    """
    return _DECISION.get(os.path.abspath(path), partial(_decide, path))


def _decide(path: Path) -> tuple[Decision, list[str | Path]]:
    """The decision, and the files and folders that determine it."""
    if not path.exists():
        form = Format("an absent path", ABSENT.get(ending(path), ANY_FOLDER), str)
        return Decision(path, form, "by its name, as it is absent"), [path]
    inner = islice(path.iterdir(), PEEK_FOLDERS) if path.is_dir() else ()
    watched: list[str | Path] = [path, *inner]
    for form in (*UNCLEAR, *OF_EXTENSIONS, UNLABELLED, *CORE):
        reason = form.recognise(path)
        if reason:
            return Decision(path, form, reason), watched
    kind = foreign(path)
    if kind is not None:
        raise DataError(
            f"{path} is {kind[0]}, which is not supported; {kind[1]}", key="foreign-format"
        )
    return Decision(path, UNKNOWN, _why_unknown(path)), watched


def _why_unknown(path: Path) -> str:
    suffix = path.suffix.lower()
    if path.is_file() and suffix in TABLES and suffix in POINT_ENDINGS:
        return (
            "it has a single column, or no comma, semicolon or tab separates its columns;"
            f" {READ_AS}"
        )
    if path.is_file():
        return f'files that end in "{path.suffix}" are not supported; allowed is {PATHS}'
    files = sorted(path.glob("*"))
    parts = [file.name for file in files if "train" in file.name and file.is_file()]
    if parts:
        return f"the folder holds {names_listed(parts)}; {READ_AS}"
    if not files:
        return f"the folder is empty, or cannot be read; allowed is {PATHS}"
    return (
        "the folder holds neither a folder of images for each class nor data in another known"
        f" format; allowed is {PATHS}"
    )


def foreign(path: Path) -> tuple[str, str] | None:
    """The name of another tool's format that is not read, and the data to give instead; None for
    other paths.

    The kinds of data that extensions add answer first, then the functions of the group
    `curvfed.foreign`.
    """
    own = (kind.files.foreign for kind in ADDED.values() if kind.files.foreign)
    others = (plugins.addition("foreign", name) for name in plugins.additions("foreign"))
    for recognise in (*own, *others):
        answer: tuple[str, str] | None = recognise(path)
        if answer:
            return answer
    return None


def _is_image_folder(path: Path) -> str:
    image = first_image(path)
    return f"it holds the image {image.name}" if image else ""


def _is_points(path: Path) -> str:
    end = ends_in(path, ARRAYS)
    return "" if not end or foreign(path) else end


def _is_unlabelled(path: Path) -> str:
    if not ends_in(path, TABLES) or foreign(path):
        return ""
    widths = {len(row) for _, row in first_lines(path)}
    if widths != {2}:
        return ""
    return "it has two columns, and those of points to train on are three, with one of classes"


CORE = (
    Format(
        "a .pt file of graphs (PyTorch Geometric's, by torch.save)",
        ("nodes", "graphs", *added_by(STORED[0])),
        partial(ends_in, endings=STORED),
        endings=STORED,
    ),
    Format(
        "a folder with a folder of images per class",
        ("images",),
        _is_image_folder,
        known=("svhn", "stl10", "kmnist", "qmnist", "imagenet", "imagenette", "food101", "gtsrb"),
        example="./svhn/train/CLASS/*",
    ),
    Format(
        f"a file of points with a class for each, {', '.join(ARRAYS)}",
        ("points",),
        _is_points,
        endings=ARRAYS,
    ),
)
"""One format for each kind of data of the core; the data set of the kind reads it."""

GROUP = tuple(
    sorted((form for _, form in plugins.usable("formats", Format)), key=lambda form: form.is_broad)
)
"""The formats of the group `curvfed.formats`, the broad ones last."""

OF_EXTENSIONS = (*(form for kind in ADDED.values() for form in kind.files.formats), *GROUP)
"""The formats of the kinds of data that extensions add, and those of the group."""

FORMATS = (*OF_EXTENSIONS, *CORE)
"""In the order in which they decide."""

UNCLEAR = tuple(form for kind in ADDED.values() for form in kind.files.unclear)
"""The formats of paths that may hold several kinds of data. They decide first."""

UNLABELLED = Format("a table of points without classes", ("points",), _is_unlabelled)
"""Points that a finished run may predict, and no method trains on; it is in no list."""

UNKNOWN = Format("of no known kind", tuple(KINDS), str)
"""The format of all other paths; the reader of each task refuses them in its own words."""

ABSENT: dict[str, tuple[str, ...]] = {}
"""The possible kinds of data of an absent path, by the end of its name."""

for _form in (*CORE, *GROUP):
    for _ending in _form.endings:
        ABSENT[_ending] = tuple(dict.fromkeys((*ABSENT.get(_ending, ()), *_form.tasks)))
for _name, _kind in ADDED.items():
    for _ending in filter(None, _kind.files.endings):
        ABSENT[_ending] = tuple(dict.fromkeys((*ABSENT.get(_ending, ()), _name)))

FILE_ENDINGS = (*ABSENT, *(f"{ending}.gz" for ending in TABLES))
"""Ends of the names of data sets that are files."""

POINT_ENDINGS = tuple(ending for ending, tasks in ABSENT.items() if "points" in tasks)
"""Ends of the names of files of points."""

ANY_FOLDER = ("graphs", "images", *added_by(""))
"""The possible kinds of data of an absent folder."""

PEEK_FOLDERS = 1000
"""Maximum number of entries of a folder that are watched for a change of its contents."""

PATHS = ", ".join(dict.fromkeys(form.title for form in FORMATS))
"""The kinds of paths that are data sets."""

BY_PATH = {
    name: f"{form.title} is read by path, such as {form.example}"
    for form in FORMATS
    for name in form.known
}
"""How to give data sets that lack a name here, by their usual name."""

_HINTS = "".join(f", and {kind.files.hint}" for kind in ADDED.values())

_GRAPHS = dict.fromkeys(
    form.title for form in (*CORE, *GROUP) if not {"nodes", "graphs"}.isdisjoint(form.tasks)
)

READ_AS = (
    f"graphs are {' or '.join(_GRAPHS)}, points {' or '.join(POINT_ENDINGS)}"
    f" files of two coordinates and a class{_HINTS}"
)
"""The kinds of data in files, for error texts."""

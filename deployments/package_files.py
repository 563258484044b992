"""The presets of the package, by name; and the folder of a Flower app for a run: the
modules of a run, and the keys of installed plug-ins.

Flower sends the files of a folder to the SuperLink and to each node. An installed wheel lacks this
folder, and a checkout can contain data and old results. So a new folder is made from the imported
modules.
"""

import contextlib
import importlib.resources
import tempfile
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import tomli_w

from curvfed.strategies.base.keys import nested
from curvfed.strategies.config.run_config import defaults_of
from curvfed.strategies.methods import INDEX
from curvfed.tasks.errors import near_names
from curvfed.tasks.plugins import ENTRIES, all_names, extension_files, is_local

PRESETS = "presets"

TEMPLATES = "server_app/report/templates"
"""The templates of pages."""

ROOMS = ("server_app", "client_app", "strategies", "geometry", "tasks", "extensions")
"""The packages of the code that runs on servers and nodes."""


def package_files(kind: str) -> dict[str, Path]:
    """The files of a folder below `curvfed`, such as `PRESETS`, and of the folders of this name in
    extensions, by name: `quick`, or `baselines/images/moon` in folders."""
    # The resource folder lacks a path, but its entries have one.
    entry = next(importlib.resources.files(f"curvfed.{kind}").iterdir())
    folders = [Path(str(entry)).parent]
    folders += [file.parent / kind for file in extension_files().values()]
    files = {}
    for folder in folders:
        for path in folder.rglob("*.toml"):
            files[path.relative_to(folder).with_suffix("").as_posix()] = path
    return dict(sorted(files.items()))


def name_hint(kind: str, name: str) -> str:
    """A hint for an unknown name: the nearest name, and the list of names."""
    names = package_files(kind)
    near = [path for path in names if path.rpartition("/")[2] == name]
    near = near or near_names(name, names)
    hint = f"did you mean {near[0]!r}? " if near else ""
    if kind == PRESETS:
        return f"{hint}{all_names('presets', names)}"
    return f"{hint}shipped are {', '.join(names)}"


@contextlib.contextmanager
def app_folder(method: str) -> Iterator[Path]:
    """Make the folder, print the number of files and bytes, and remove the folder at the end.

    Parameters
    ----------
    method : str
        The method of the run. Keys of other packages' other methods are left out: a node without
        these packages refuses them.

    Yields
    ------
    Path
        A folder with `pyproject.toml`, and `curvfed/` as in the wheel. The run config has the
        defaults of this installation, since a SuperLink refuses keys without a default.
    """
    package = Path(str(files("curvfed")))
    # A wheel has all in `curvfed/`; a checkout has its rooms next to it.
    home = package if (package / "pyproject.toml").is_file() else package.parent
    project = tomllib.loads((home / "pyproject.toml").read_text(encoding="utf-8"))
    app = project["tool"]["flwr"]["app"]
    del app["fab-include"], app["fab-exclude"]  # only for a checkout
    app["config"] = nested(defaults_of(method))
    metadata = {
        key: project["project"][key]
        for key in ("name", "version", "description", "license", "dependencies")
    }
    content = {"project": metadata, "tool": {"flwr": {"app": app}}}
    with tempfile.TemporaryDirectory(prefix="curvfed-") as scratch:
        folder = Path(scratch) / "curvfed"
        contents = {"pyproject.toml": tomli_w.dumps(content).encode()} | modules(package, home)
        for name, text in contents.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(text)
        size = sum(len(text) for text in contents.values())
        print(
            f"{len(contents)} files of the app, {size:,} bytes, go to the SuperLink and to every"
            " node.",
            flush=True,
        )
        yield folder


def modules(package: Path, home: Path) -> dict[str, bytes]:
    """The modules of a run, the index of methods and the templates of the run's page, by their
    paths in the wheel.

    Files without the name of a module are left out: a checkout can contain data and results.
    """
    paths = {Path("curvfed", path.name): path for path in package.glob("*.py")}
    patterns = [f"{room}/**/*.py" for room in ROOMS]
    patterns += [f"extensions/*/{ENTRIES}", f"{TEMPLATES}/*.md", f"strategies/methods/{INDEX}"]
    for pattern in patterns:
        for path in home.glob(pattern):
            paths[Path("curvfed", path.relative_to(home))] = path
    return {
        name.as_posix(): path.read_bytes()
        for name, path in sorted(paths.items())
        if _is_module_name(name) and not is_local(name.parts[1:])
    }


def _is_module_name(name: Path) -> bool:
    return all(map(str.isidentifier, (*name.parts[:-1], name.name.partition(".")[0])))

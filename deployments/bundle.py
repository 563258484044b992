"""The folder of a Flower app for one run: the modules that a run needs, and the keys of every
installed plug-in.

Flower sends the files of a folder to the SuperLink and to every node. An installed wheel has no
such folder, and a checkout may also hold data and old results. So a folder is made of the modules
that are imported here.
"""

import contextlib
import tempfile
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import tomli_w

from curvfed.strategies.base.dotted import nested
from curvfed.strategies.config.all_keys import defaults_of

TEMPLATES = "server_app/report/templates"
"""The templates of pages."""

ROOMS = ("server_app", "client_app", "strategies", "geometry", "tasks")


@contextlib.contextmanager
def app_folder(method: str) -> Iterator[Path]:
    """Make the folder, print how many files and bytes are sent, and remove the folder at the end.

    Parameters
    ----------
    method : str
        The method of the run. Keys of other methods of other packages are left out: a node without
        these packages would refuse them.

    Yields
    ------
    Path
        A folder with `pyproject.toml`, and with `curvfed/` as it is in the wheel. The defaults of
        the run config are those of this installation, since a SuperLink refuses keys that have no
        default.
    """
    package = Path(str(files("curvfed")))
    # A wheel has all in `curvfed/`; a checkout has its rooms beside it.
    home = package if (package / "pyproject.toml").is_file() else package.parent
    project = tomllib.loads((home / "pyproject.toml").read_text(encoding="utf-8"))
    app = project["tool"]["flwr"]["app"]
    del app["fab-include"], app["fab-exclude"]  # these are for a checkout
    app["config"] = nested(defaults_of(method))
    kept = {
        key: project["project"][key]
        for key in ("name", "version", "description", "license", "dependencies")
    }
    content = {"project": kept, "tool": {"flwr": {"app": app}}}
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
    """The modules that a run imports, and the templates of its page, by their paths in the wheel.

    Files whose names no module can have are left out: people keep data and results in a checkout.
    """
    found = dict.fromkeys(package.glob("*.py"), package)
    for pattern in [
        *(f"{room}/**/*.py" for room in ROOMS),
        f"{TEMPLATES}/*.md",
    ]:
        found |= dict.fromkeys(home.glob(pattern), home)
    names = {Path("curvfed", path.relative_to(top)): path for path, top in found.items()}
    return {
        name.as_posix(): path.read_bytes()
        for name, path in sorted(names.items())
        if all(word.isidentifier() for word in (*name.parts[:-1], name.name.partition(".")[0]))
    }

"""The folder of a Flower app for one run: the modules that a run needs, and the keys of every installed plug-in.

Flower sends the files of a folder to the SuperLink and to every node. An installed wheel has no such folder, and that of
a checkout may hold data and old results too, so one is made of what is imported here.
"""

import contextlib
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import tomli_w

import curvfed
from curvfed.strategies.base.dotted import nested
from curvfed.strategies.config.all_keys import without_others

TEMPLATES = "server_app/report/templates"
"""What the page of a run is made of."""

ROOMS = ("server_app", "client_app", "strategies", "geometry", "tasks")


@contextlib.contextmanager
def app_folder(method: str) -> Iterator[Path]:
    """Make the folder, print how many files and bytes are sent, and remove it in the end.

    Parameters
    ----------
    method : str
        What is run: keys of other packages' other methods are left out, since a node that lacks these would refuse them.

    Yields
    ------
    Path
        A folder with `pyproject.toml`, and with `curvfed/` as it is in the wheel. The defaults of the run config are those
        of this installation: a SuperLink refuses a key that is not among them.
    """
    home = Path(curvfed.__path__[-1])  # the wheel's `curvfed/`, or the top of the checkout
    project = tomllib.loads((home / "pyproject.toml").read_text(encoding="utf-8"))
    app = project["tool"]["flwr"]["app"]
    del app["fab-include"], app["fab-exclude"]  # they are for the folder of a checkout
    app["config"] = nested(without_others(method))
    kept = {key: project["project"][key] for key in ("name", "version", "description", "license", "dependencies")}
    content = {"project": kept, "tool": {"flwr": {"app": app}}}
    with tempfile.TemporaryDirectory(prefix="curvfed-") as scratch:
        folder = Path(scratch) / "curvfed"
        files = {"pyproject.toml": tomli_w.dumps(content).encode()} | modules(home)
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(text)
        size = sum(len(text) for text in files.values())
        print(f"{len(files)} files of the app, {size:,} bytes, go to the SuperLink and to every node.", flush=True)
        yield folder


def modules(home: Path) -> dict[str, bytes]:
    """What a run imports, and its templates, by the path in the wheel; other files are none of the app's."""
    package = Path(curvfed.__file__).parent
    found = {path: Path("curvfed", path.name) for path in package.glob("*.py")}
    for room in ROOMS:
        found |= {path: Path("curvfed", path.relative_to(home)) for path in (home / room).rglob("*.py")}
    ours = {
        name: path for path, name in found.items() if all(word.isidentifier() for word in name.with_suffix("").parts)
    }
    templates = [path for path in (home / TEMPLATES).glob("*.md") if path.name.split(".")[0].isidentifier()]
    ours |= {Path("curvfed", path.relative_to(home)): path for path in templates}
    return {name.as_posix(): path.read_bytes() for name, path in sorted(ours.items())}

"""Packages that bring something to curvfed, in a folder, and programs that find them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "plugin"


def package(site: Path, name: str, module: str, points: Mapping[str, Mapping[str, str]]) -> None:
    """A package of one module as installed; `points` are entry points by group and name."""
    about = site / f"{name}-1.0.dist-info"
    about.mkdir(parents=True)
    (site / f"{name}.py").write_text(module)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    groups = (
        f"[{group}]\n" + "".join(f"{one} = {place}\n" for one, place in those.items())
        for group, those in points.items()
    )
    (about / "entry_points.txt").write_text("\n".join(groups))


def install_example(folder: Path) -> Path:
    """The folder that the example is installed in, below `folder`."""
    site, source = folder / "site", folder / "source"
    shutil.copytree(EXAMPLE, source)  # a build leaves files beside the source
    uv = Path(sys.executable).with_name("uv")
    options = [
        "--quiet",
        "--offline",
        "--no-build-isolation",
        "--no-deps",
        "--python",
        sys.executable,
    ]
    subprocess.run(
        [str(uv), "pip", "install", *options, "--target", str(site), str(source)], check=True
    )
    return site


def environment(home: Path, *sites: Path) -> dict[str, str]:
    """That of a process which finds curvfed and these folders, wherever it starts."""
    paths = [str(ROOT), *map(str, sites), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {
        "HOME": str(home),
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "1",
    }


def python(
    program: str, home: Path, *sites: Path, words: tuple[str, ...] = (), status: int = 0
) -> str:
    """What a program prints that runs in `home`, a folder with nothing of curvfed's."""
    home.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=home,
        env=environment(home, *sites),
        capture_output=True,
        text=True,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr

"""A working folder of modules with our names, and what a process in it has imported."""

import json
from collections import defaultdict
from pathlib import Path

NAMES = (
    "tasks.py",
    "geometry.py",
    "strategies/__init__.py",
    "server_app.py",
    "deployments.py",
    "presets/quick.toml",
)

PROBE = """
import json, sys
from curvfed.deployments.inprocess import simulate
small = {"num-rounds": 1, "images.train-subset": 200, "images.test-subset": 100, "points.num": 400}
simulate(dict(pair.split("=") for pair in sys.argv[2:]) | small, 2)
files = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
json.dump(files, open(sys.argv[1], "w"))
"""
"""Runs in this process, and writes which module came from which file."""

LIGHT = (
    "import curvfed, sys; print(sorted({'torch', 'flwr', 'numpy', 'pydantic'} & set(sys.modules)))"
)


def hostile_folder(folder: Path) -> Path:
    """Make it; whoever imports a module of it ends."""
    for name in NAMES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(
            "raise SystemExit('a module of the working folder was imported')\n"
        )
    (folder / "curvfed_results" / "one").mkdir(parents=True)
    (folder / "curvfed_results" / "one" / "patients, 2024.json").write_text("{}")
    return folder


def check_imports(notes: Path, ours: list[Path], hostile: Path) -> None:
    """No file of ours has two names, or another than `curvfed.…`; none is the working folder's."""
    names: dict[str, list[str]] = defaultdict(list)
    for name, file in json.loads(notes.read_text()).items():
        if file and any(Path(file).is_relative_to(folder) for folder in ours):
            names[file].append(name)
        assert not file or not Path(file).is_relative_to(hostile), f"{name} is {file}"
    assert len(names) > 50
    assert [result for result in names.values() if len(result) > 1] == []
    assert {result[0].partition(".")[0] for result in names.values()} == {"curvfed"}

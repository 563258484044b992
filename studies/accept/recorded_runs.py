"""Small runs of every method at fixed seeds, to compare the code before a change with the code
after it.

    python -m studies.accept.recorded_runs FILE [WORKERS]

writes the figures of all runs into FILE where it is not there yet; where it is, makes the runs
again and names every figure that differs. Two machines, or two versions of torch, may differ in the
last bits: use the same for both calls. With WORKERS the clients are in that number of processes.
"""

import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from app_runs import EVERY, QUICK, Run, run

ROUNDS = 3


def digests(folder: Path) -> dict[str, str]:
    """What the clients keep, by file."""
    files = sorted((folder / "checkpoint" / "clients").rglob("*.safetensors"))
    return {path.relative_to(folder).as_posix(): _arrays_digest(path) for path in files}


def _arrays_digest(path: Path) -> str:
    """Of the arrays alone: what is written beside them may change."""
    from safetensors.numpy import load_file

    digest = hashlib.sha256()
    for name, array in sorted(load_file(path).items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def figures(made: Run) -> dict[str, Any]:
    """Everything that must be equal; the versions of libraries are no result."""
    recorded: dict[str, Any] = made.figures | {
        "model": hashlib.sha256(made.model_bytes.partition(b"}}")[2]).hexdigest()
    }
    recorded["summary"].pop("versions", None)
    recorded["summary"]["metrics"] = {
        name: value
        for name, value in recorded["summary"]["metrics"].items()
        if not name.startswith("seconds")
    }
    drawn = [made.path / name for name in ("hulls.npz", "classifier.npz")]
    sums = [hashlib.sha256(path.read_bytes()).hexdigest() for path in drawn if path.exists()]
    return recorded | {"clients' files": digests(made.path), "hulls": "".join(sums)}


def record(folder: Path, workers: int | None) -> dict[str, Any]:
    """The figures of every method on every task, in the open and under a secure sum; where a method
    refuses the secure sum, its reason."""
    runs = {}
    for method, task in EVERY:
        for is_masked in (False, True):
            name = f"{method} {task}{' masked' * is_masked}"
            settings = QUICK[task] | {
                "method": method,
                "num_rounds": ROUNDS,
                "fraction_train": 1.0 if is_masked else 0.67,
                "fine_tune_every": 2,
                "secure_sum": is_masked,
                "workers": workers,
            }
            print(name, flush=True)
            try:
                runs[name] = figures(
                    run(folder, name.replace(" ", "-").replace("+", "plus"), **settings)
                )
            except Exception as error:
                runs[name] = {"error": f"{type(error).__name__}: {error}"}
    stored: dict[str, Any] = json.loads(json.dumps(runs))
    return stored


def differences(before: Any, after: Any, place: str = "") -> list[str]:
    """Where two records differ, with both values."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = dict.fromkeys([*before, *after])
        return [
            line
            for key in keys
            for line in differences(before.get(key), after.get(key), f"{place}/{key}")
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [line for number, pair in pairs for line in differences(*pair, f"{place}/{number}")]
    return [] if before == after else [f"{place}: {before} became {after}"]


def main(file: Path, workers: int | None = None) -> int:
    """Record, or compare with what was recorded; the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        runs = record(Path(folder), workers)
    if not file.exists():
        file.write_text(json.dumps(runs, indent=1))
        return 0
    lines = differences(json.loads(file.read_text()), runs)
    print(*lines or [f"{len(runs)} runs are equal"], sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))

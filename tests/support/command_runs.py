"""Runs by the command, each in a process of its own, and the time that rounds take."""

import csv
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def command_run(
    name: str, settings: Mapping[str, Any], clients: int, *options: str
) -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
    """A run by a command, with its directory, which goes at the end, and an empty home."""
    with tempfile.TemporaryDirectory() as folder, open(f"{folder}/log", "w+b") as log:
        pairs = {**settings, "results-dir": folder, "run-name": "run", "num-supernodes": clients}
        words = [
            sys.executable,
            "-m",
            "curvfed",
            name,
            *(f"{key}={value}" for key, value in pairs.items()),
            *options,
        ]
        home = {"HOME": folder} if name == "simulate" else {}
        with subprocess.Popen(
            words, stdout=log, stderr=subprocess.STDOUT, env=os.environ | home
        ) as process:
            try:
                yield process, Path(folder) / "run"
            except (RuntimeError, OSError) as error:
                raise RuntimeError(
                    f"{error}: {Path(log.name).read_text(errors='replace')[-500:]}"
                ) from None
            finally:
                process.kill()


def rounds_of(run: Path, process: "subprocess.Popen[bytes] | None" = None) -> list[dict[str, str]]:
    """The table of a run that its process has ended."""
    if process and process.wait():
        raise RuntimeError(f"the run ended with status {process.returncode}")
    with (run / "rounds.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def round_overhead(rows: Sequence[Mapping[str, str]], workers: int) -> float:
    """Mean seconds of a round but the first, beyond training, which `workers` share."""
    later = [row for row in rows if row["phase"] == "train"][1:]
    return statistics.mean(
        float(row["seconds"]) - float(row["seconds_training"]) / workers for row in later
    )


def completed(words: str, place: int) -> list[str]:
    """What bash is offered for the word at `place` of a command line."""
    asked = {"_CURVFED_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(place)}
    done = subprocess.run(
        [sys.executable, "-m", "curvfed"],
        env=os.environ | asked,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split()

"""Every method of the table of methods, by `simulate` and by `flwr run`; how many files one takes;
limiting cases."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from curvfed.deployments.arguments import Value
from curvfed.strategies.methods import METHODS
from curvfed.tasks.kinds import KINDS
from studies.accept.lab import Lab, Outcome, Settings, read_summary

ROOT = Path(__file__).parents[2]

CLIENTS, ROUNDS = 3, 2
SMALL: dict[str, dict[str, Value]] = {
    "images": {"images.train-subset": 300, "images.test-subset": 100},
    "nodes": {},
    "points": {"hull.epsilon": 0.1},
}
LIMITING = (
    "without_a_pull or without_alpha or with_one_inner_step or without_variates or"
    " nothing_is_to_be_corrected or without_the_term"
)
"""Tests of what a method becomes where its own part is taken away."""

Table = Callable[[Lab], Iterator[Outcome]]


def settings_of(method: str) -> Settings:
    """A small run of a method, on data that ship."""
    task = METHODS[method].tasks[0]
    small = {
        "method": method,
        "dataset": KINDS[task].built_in,
        "num-supernodes": CLIENTS,
        "num-rounds": ROUNDS,
    }
    return small | SMALL.get(task, {})


def methods(lab: Lab) -> Iterator[Outcome]:
    """All rows in-process and by `flwr run`, to equal figures; what adding one took; what it
    becomes in its limits."""
    lab.start(settings_of(method) for method in METHODS)
    lab.wait()  # a SuperLink beside two busy cores may not come up in time
    failed, different = [], []
    for method in METHODS:
        settings = settings_of(method)
        here, there = _figures(lab.run(settings)), _by_flower(lab, settings)
        if there is None:
            failed.append(method)
        elif here != there:
            different.append(method)
    well = len(METHODS) - len(failed) - len(different)
    lines = "".join(
        f"; {word}: {', '.join(some)}"
        for word, some in (("failed", failed), ("differ", different))
        if some
    )
    yield Outcome(
        f"{len(METHODS)} methods on digits, trees or uniform by simulate and by flwr run, {CLIENTS}"
        " clients",
        "every one, with equal figures",
        f"{well} of {len(METHODS)}{lines}",
        well == len(METHODS),
    )
    yield _tested(
        "equal seeds give equal bits, a run stopped and resumed too, every row",
        "tests/methods/all_methods/test_every_method.py",
    )
    yield _tested(
        "limiting cases of ditto, feddyn, pfedme, scaffold, moon", "tests/methods", "-k", LIMITING
    )
    yield _tested(
        "a new method is one file, and what is generated",
        "tests/methods/all_methods/test_add_a_method.py",
    )


def _by_flower(lab: Lab, settings: Settings) -> object:
    """The figures of the run by `flwr run`; None if it failed."""
    with tempfile.TemporaryDirectory(dir=lab.folder) as folder:
        pairs = {"data-dir": lab.data, "results-dir": folder, "run-name": "run"} | dict(settings)
        words = [f"{key}={value}" for key, value in pairs.items()]
        done = subprocess.run(
            [sys.executable, "-m", "curvfed", "run", *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        return None if done.returncode else _figures(Path(folder) / "run")


def _figures(folder: Path) -> object:
    """What a run computed, without what it took; to nine digits, which are those of float32 and
    more."""
    summary = read_summary(folder)
    kept = {
        key: summary[key]
        for key in ("status", "global_accuracy", "personal_accuracy_mean", "best_validation")
    }
    kept["metrics"] = {
        key: value for key, value in summary["metrics"].items() if not key.startswith("seconds")
    }
    return json.loads(json.dumps(kept), parse_float=lambda text: round(float(text), 9))


def _tested(what: str, *selection: str) -> Outcome:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *selection]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    lines = done.stdout.strip().splitlines() or [done.stderr.strip()[-200:]]
    return Outcome(what, "tests pass", lines[-1].strip("= "), done.returncode == 0)


TABLES: tuple[Table, ...] = (methods,)

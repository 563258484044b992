"""Sweeps: side by side against one after the other, killed and started again, with a broken run;
the papers' results."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from curvfed.extensions.sweeps.commands.pages.study import Plan
from curvfed.extensions.sweeps.commands.sweep import read_plan
from curvfed.extensions.sweeps.commands.sweep.results import completed
from studies.accept.lab import Lab, Outcome

ROOT = Path(__file__).parents[2]

FORTY = """
title = "forty small runs"
[settings]
method = ["fedavg", "flatland", "fedper", "local"]
dataset = "trees"
num-supernodes = 10
seed = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
"""
BROKEN = """
title = "one broken run"
[settings]
dataset = "trees"
num-supernodes = 3
num-rounds = 3
[[runs]]
method = ["fedavg", "flatland"]
[[runs]]
method = "local"
min-replies = 4
"""
LOOP = """
import sys
from pathlib import Path
from curvfed.deployments.inprocess import simulate
from curvfed.extensions.sweeps.commands.sweep import SUPERNODES, read_plan
for run in read_plan(Path(sys.argv[1])).runs:
    settings = dict(run.settings) | {"results-dir": sys.argv[2], "run-name": run.name}
    simulate(settings, settings.pop(SUPERNODES))
"""
"""One run after the other, all in one process: what a user's own script would be."""

Table = Callable[[Lab], Iterator[Outcome]]


def sweeps(lab: Lab) -> Iterator[Outcome]:
    """What a sweep is to be: quicker than a loop, not to be lost, not to be stopped by one run."""
    file = _write(lab, "forty.toml", FORTY)
    plan = read_plan(file)
    since = time.monotonic()
    _run([sys.executable, "-c", LOOP, str(file), str(_folder(lab, "loop"))])
    alone = time.monotonic() - since
    since = time.monotonic()
    together = _folder(lab, "together")
    _run(_sweep(file, together))
    beside = time.monotonic() - since
    yield Outcome(
        f"{len(plan.runs)} small runs, one after the other in one process against a sweep,"
        f" {os.cpu_count()} cores",
        "≥ 1.7 times faster",
        f"{alone / beside:.2f} ({alone:.0f} s, {beside:.0f} s, both from the command to its end)",
        alone / beside >= 1.7,
    )
    yield _killed(file, plan, _folder(lab, "killed"), _table(file, together))
    yield _broken(_write(lab, "broken.toml", BROKEN), _folder(lab, "broken"))
    for what, selection in (
        (
            "tables against an independent calculation",
            "extensions/sweeps/tests/test_sweep_tables.py",
        ),
        (
            (
                "report pages of all methods in a headless browser: no error, no request, pictures"
                " drawn"
            ),
            "tests/browser",
        ),
    ):
        command = [sys.executable, "-m", "pytest", "-q", "-rs", selection]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        last_line = done.stdout.strip().splitlines()[-1].strip("= ")
        yield Outcome(
            what,
            "tests pass, none skipped",
            last_line,
            done.returncode == 0 and "skipped" not in last_line,
        )


def paper(lab: Lab) -> Iterator[Outcome]:
    """All sweeps of the papers, at smoke scale, from nothing, and once more."""
    command = [sys.executable, "-m", "studies.papers", "--data", str(lab.data)]
    command += ["--results", str(_folder(lab, "paper")), "--to", str(lab.folder / "results")]
    for what, bar in (("from nothing", 3600.0), ("again", 10.0)):
        since = time.monotonic()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        seconds = time.monotonic() - since
        last_line = (done.stdout.strip().splitlines() or ["nothing"])[-1]
        yield Outcome(
            f"make paper {what}, {os.cpu_count()} cores",
            f"exit 0 within {bar:.0f} s",
            f"exit {done.returncode}, {seconds:.1f} s; {last_line}",
            done.returncode == 0 and seconds <= bar,
        )


def _killed(file: Path, plan: Plan, folder: Path, expected: str) -> Outcome:
    """Kill the sweep when a third of it is done, and start it again."""
    process = subprocess.Popen(
        _sweep(file, folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    before: set[str] = set()
    while len(before) < len(plan.runs) // 3 and process.poll() is None:
        time.sleep(0.2)
        before = _done(plan, folder)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = _done(plan, folder)
    stamps = {name: (folder / name / "summary.json").stat().st_mtime_ns for name in before}
    _run(_sweep(file, folder))
    kept = sum(
        (folder / name / "summary.json").stat().st_mtime_ns == stamp
        for name, stamp in stamps.items()
    )
    same, done = _table(file, folder) == expected, len(_done(plan, folder))
    return Outcome(
        f"a sweep killed after {len(before)} of {len(plan.runs)} runs and started again",
        "no run done twice, same table",
        f"{kept} of {len(before)} left as they were, {done} done; table"
        f" {'the same' if same else 'another'}",
        kept == len(before) and same and done == len(plan.runs),
    )


def _broken(file: Path, folder: Path) -> Outcome:
    """One run asks for more replies than there are clients."""
    plan = read_plan(file)
    done = subprocess.run(_sweep(file, folder), cwd=ROOT, capture_output=True, text=True)
    lines = [line for line in _table(file, folder).splitlines() if "failed" in line] or [
        "not marked"
    ]
    others = len(_done(plan, folder))
    return Outcome(
        "a sweep with one broken run",
        "exit 1, the others finish, the table marks it",
        f"exit {done.returncode}, {others} of {len(plan.runs)} done; {lines[0]}",
        done.returncode == 1 and others == len(plan.runs) - 1 and "local" in lines[0],
    )


def _done(plan: Plan, folder: Path) -> set[str]:
    return {run.name for run in plan.runs if completed(folder / run.name)}


def _table(file: Path, folder: Path) -> str:
    """The page of the sweep."""
    report = [sys.executable, "-m", "curvfed", "report", str(file), "--results", str(folder)]
    _run([*report, "--to", str(folder / "page"), "--formats", "md"])
    return (folder / "page" / f"{file.stem}.md").read_text()


def _sweep(file: Path, folder: Path) -> list[str]:
    return [sys.executable, "-m", "curvfed", "sweep", str(file), "--results", str(folder)]


def _run(command: list[str]) -> None:
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)


def _write(lab: Lab, name: str, text: str) -> Path:
    (lab.folder / name).write_text(text)
    return lab.folder / name


def _folder(lab: Lab, name: str) -> Path:
    """An empty one: these measure from nothing."""
    folder = lab.folder / f"{name}-{time.time_ns()}"
    folder.mkdir()
    return folder


TABLES: tuple[Table, ...] = (sweeps, paper)

"""One run of the app by the real `flwr run`, isolated from any other Flower on the machine.

`flwr run` talks to a local SuperLink that it finds by port, starts if there is none, and leaves running; it exits 0
even where the run failed. Here each run has a SuperLink of its own (free ports, its own FLWR_HOME), everything is
stopped at the end, and the exit status tells how the run went: 0 completed, 1 failed, 2 wrong usage, 124 out of time,
128 + n stopped by signal n (130 for Ctrl-C).
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from curvfed.deployments.bundle import app_folder
from curvfed.deployments.isolated import Interrupted, run
from curvfed.deployments.pairs import NUM_SUPERNODES, UsageError, Value, pop_supernodes, read_pairs
from curvfed.deployments.tables import summary_table
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.all_keys import defaults
from curvfed.strategies.config.run_config import RunConfig

DEFAULT_RESULTS = Path.home() / "curvfed" / "results"  # that of the app, without the seconds it takes to import
FAILED, USAGE, OUT_OF_TIME = 1, 2, 124

# --- What is to be run ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """A run: the run config in full text, the simulated federation."""

    config: Mapping[str, Value]
    num_supernodes: int = NUM_SUPERNODES
    cpus: int = 1
    gpus: float = 0.0
    timeout: float | None = None

    def command(self, app: Path) -> list[str]:
        """The arguments of `flwr run` for the app in that folder."""
        federation: dict[str, Value] = {"num-supernodes": self.num_supernodes, "client-resources-num-cpus": self.cpus}
        if self.gpus:
            federation["client-resources-num-gpus"] = self.gpus
        return [
            *("flwr", "run", str(app), "--stream"),
            *("--run-config", toml_pairs(self.config)),
            *("--federation-config", toml_pairs(federation)),
        ]

    @property
    def summaries(self) -> list[Path]:
        """Where the app may leave its summary: the run directory, or the default one if that cannot be written."""
        return summaries(self.config)


def summaries(config: Mapping[str, Value]) -> list[Path]:
    """Where a run of a named configuration may leave its summary, the likelier place first."""
    folders = dict.fromkeys([Path(str(config["results-dir"])), DEFAULT_RESULTS])
    return [folder / str(config["run-name"]) / "summary.json" for folder in folders]


def toml_pairs(config: Mapping[str, Value]) -> str:
    """Write `key=value` pairs the way `--run-config` reads them.

    Flower splits the pairs by a pattern that ends a string at the next double quote, escaped or not, so a quote inside
    a string is written as its code point.
    """
    return " ".join(f"{key}={_toml(value)}" for key, value in config.items())


def _toml(value: Value) -> str:
    if not isinstance(value, str):
        return str(value).lower()
    inner = json.dumps(value, ensure_ascii=False)[1:-1]
    return '"' + inner.replace('\\"', "\\u0022").replace("\x7f", "\\u007f") + '"'


def make_plan(
    pairs: Sequence[str],
    num_supernodes: int = NUM_SUPERNODES,
    cpus: int = 1,
    gpus: float = 0.0,
    timeout: float | None = None,
) -> Plan:
    """Read what the command line says.

    Raises
    ------
    UsageError
        For an argument that is no pair and no preset, or a key that the app does not have.
    """
    every = defaults()
    config = read_pairs(pairs, every | {"num-supernodes": num_supernodes})
    num_supernodes = pop_supernodes(config, num_supernodes)
    return Plan(named(config, every), num_supernodes, cpus, gpus, timeout)


def named(config: Mapping[str, Value], defaults: Mapping[str, Value]) -> dict[str, Value]:
    """The config with an absolute results-dir and a run-name: the run directory is then known whatever becomes of the run.

    Raises
    ------
    UsageError
        If a run without a name is to be resumed.
    """
    if config.get("resume") and not config.get("run-name"):
        raise UsageError("resume=true needs run-name, the name of the run to go on with")
    results = Path(str(config.get("results-dir") or DEFAULT_RESULTS)).expanduser().absolute()
    name = config.get("run-name") or _run_name(dict(defaults) | dict(config))
    return dict(config) | {"results-dir": str(results), "run-name": name}


def _run_name(config: Mapping[str, Value]) -> str:
    words = [Path(str(config[key])).stem[:40] for key in ("method", "dataset", "seed") if key in config]
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    name = "-".join([*words, moment, secrets.token_hex(2)])  # two runs may start in the same second
    return re.sub(r"[^A-Za-z0-9._-]", "_", name.replace("+", "plus"))


# --- What came of it --------------------------------------------------------------------------------------------------


def stamps(paths: Sequence[Path]) -> list[tuple[int, ...] | None]:
    """One value per place of a summary that differs after the file was written again."""

    def stamp(path: Path) -> tuple[int, ...] | None:
        try:
            stat = path.stat()
        except OSError:
            return None
        return stat.st_ino, stat.st_size, stat.st_mtime_ns

    return [stamp(path) for path in paths]


def read_summary(paths: Sequence[Path], before: Sequence[tuple[int, ...] | None]) -> tuple[Path, dict[str, Any]]:
    """Return the run directory and the summary that this run wrote; an empty one if it wrote none.

    `before` are the stamps from before the run: a run that is resumed, or refused because its name is taken, finds the
    summary of an earlier one in place, which says nothing about this one.
    """
    for path, old, new in zip(paths, before, stamps(paths), strict=True):
        if new is not None and new != old:
            with contextlib.suppress(ValueError):  # cut off while it was written
                return path.parent, json.loads(path.read_text(encoding="utf-8"))
    return paths[0].parent, {}


def main(pairs: Sequence[str], *options: Any) -> int:
    """Run the app through Flower; the exit status. `options` are the others of `make_plan`, in its order."""
    console = Console()
    try:
        plan = make_plan(pairs, *options)
        from curvfed.deployments.preflight import preflight  # brings torch with it, which wrong usage need not wait for
        from curvfed.deployments.request import read_request

        preflight(read_request([*pairs, f"num-supernodes={plan.num_supernodes}"]))
    except (UsageError, ConfigError) as error:
        console.print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
        return USAGE
    before = stamps(plan.summaries)
    try:
        with app_folder(str(plan.config.get("method", RunConfig().method))) as app:
            command = plan.command(app)
            print("FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1", shlex.join(command), flush=True)
            status, details = run(command, plan.timeout)
    except (Interrupted, subprocess.TimeoutExpired) as stop:
        return _stopped(stop, plan)
    except FileNotFoundError as error:
        console.print(f"[red]error:[/red] Flower is not installed beside {sys.executable}: {error}", soft_wrap=True)
        return FAILED

    folder, summary = read_summary(plan.summaries, before)
    completed = status == "finished:completed" and summary.get("status") == "completed"
    if summary:
        console.print(summary_table(summary))
        if (report := folder / "report.html").exists():
            print("report:", report)
    if completed:
        return 0
    reason = summary.get("error") or ("" if summary else "the app left no summary; ") + details
    console.print(f"[red]The run failed[/red] (Flower says {status}): {escape(reason)}", soft_wrap=True)
    return FAILED


def _stopped(stop: Interrupted | subprocess.TimeoutExpired, plan: Plan) -> int:
    """Say what a stopped run has left, and return the exit status."""
    if isinstance(stop, Interrupted):
        print(f"Stopped by {signal.Signals(stop.signum).name}.")
        code = 128 + stop.signum
    else:
        print(f"Stopped: not done after {plan.timeout:g} s.")
        code = OUT_OF_TIME
    folder = plan.summaries[0].parent
    if (folder / "checkpoint" / "server").exists():
        print(f"Its last checkpoint is kept. To go on: the same command with run-name={folder.name} resume=true")
    return code

"""All that only a GPU can show, on one page: tests, steps, clients that share the GPU, whole runs,
waits for it.

    python -m benchmarks.gpu [--data FOLDER] [--page docs/measured/gpu.md] [--only PART ...]

Every part has a process and seconds of its own. The page has the reason why one failed, or took
longer, and its rows until then; the others go on. Status 0, 1 if a part failed, 2 on a machine
without a GPU.
"""

import argparse
import contextlib
import csv
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks import TESTS
from benchmarks.measure import Call, Pair, Place, Row
from benchmarks.page import HEADS, cells, figures_of, machine, told_machine
from curvfed.strategies.config.device import devices
from curvfed.tasks.stored_files import write_atomically

Cells = Iterator[list[str]]
STEPS = 50
ABOUT = """\
# On a GPU

    make gpu DATA=folder

writes this page in at most nine minutes: what only a GPU can show. Without `DATA`, the built-in `trees` and `digits`
replace Cora, MNIST and CIFAR-10. If a part fails, the page gives the reason, and the other parts run.
"""
NOTHING = """\
**Nothing on this page is measured yet, because no GPU was available.** The command above writes the name of the device
and these tables:
"""


class Part(NamedTuple):
    """A table of the page: `rows` finds its rows within `seconds`."""

    title: str
    heads: Sequence[str]
    seconds: int
    rows: Callable[[Place], Cells]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the parts in turn, and write the page after each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu")
    parser.add_argument(
        "--data", type=Path, help="folder of the public data sets; without it the built-in ones"
    )
    parser.add_argument("--page", type=Path, default=Path("docs/measured/gpu.md"))
    parser.add_argument(
        "--only",
        nargs="+",
        choices=PARTS,
        default=list(PARTS),
        metavar="PART",
        help=", ".join(PARTS),
    )
    # in the process of a part
    parser.add_argument("--rows-of", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print(f"error: this needs a GPU; this machine has {devices()}", file=sys.stderr)
        return 2
    if options.rows_of:
        for row in PARTS[options.rows_of].rows(Place(options.data, "cuda:0")):
            print(json.dumps(row), flush=True)
        return 0
    parts = list[dict[str, Any]]()
    told = {
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine("cuda:0"),
        "parts": parts,
    }
    for number, name in enumerate(options.only, 1):
        parts.append(found := measured(name, options.data))
        ending = f", failed: {found['error']}" if found["error"] else ""
        about = f"{len(found['rows'])} rows, {found['seconds']} s{ending}"
        print(f"[{number}/{len(options.only)}] {name}: {about}", flush=True)
        write_atomically(options.page, page(told).encode())
    return 1 if any(found["error"] for found in parts) else 0


def measured(name: str, data: Path | None) -> dict[str, Any]:
    """The rows of a part, from its process, and why there are no more."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.gpu",
        "--rows-of",
        name,
        *(["--data", str(data)] if data else []),
    ]
    began = time.monotonic()
    error = ""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stdout=out, stderr=log, start_new_session=True)
        try:
            if status := process.wait(PARTS[name].seconds):
                log.seek(0)
                error = (log.read().strip().splitlines() or [f"status {status}"])[-1]
        except subprocess.TimeoutExpired:
            error = f"not done after {PARTS[name].seconds} s"
        finally:
            with contextlib.suppress(ProcessLookupError):  # all that the part has started
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        rows = [json.loads(line) for line in out if line.startswith("[") and line.endswith("]\n")]
    return {"name": name, "rows": rows, "error": error, "seconds": round(time.monotonic() - began)}


def page(told: Mapping[str, Any] | None) -> str:
    """The page from what was measured; None where nothing was."""
    if told is None:
        return "\n".join([ABOUT, NOTHING, *(f"* {part.title}" for part in PARTS.values()), ""])
    lines = [ABOUT, f"Measured on {told['measured'][:10]}: {told_machine(told['machine'])}."]
    for found in told["parts"]:
        part = PARTS[found["name"]]
        lines += ["", f"## {part.title[0].upper()}{part.title[1:]}", ""]
        if found["error"]:
            lines += [f"**Failed after {found['seconds']} s:** {found['error']}", ""]
        table = (part.heads, ["---"] * len(part.heads), *found["rows"]) if found["rows"] else ()
        lines += [f"| {' | '.join(_one_line(cell) for cell in row)} |" for row in table]
    return "\n".join(lines) + "\n"


def _one_line(cell: str) -> str:
    return cell.replace("|", "/").partition("\n")[0]


def _tests(place: Place) -> Cells:
    """The tests that are skipped elsewhere."""
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-p", "no:cacheprovider", "--tb=line"]
    file = str(TESTS / "methods" / "test_on_a_gpu.py")
    done = subprocess.run([*command, file], capture_output=True, text=True, check=False)
    *others, ending = done.stdout.strip().splitlines() or [done.stderr[-200:]]
    yield from ([outcome, number] for number, outcome in re.findall(r"(\d+) ([a-z]+)[, ]", ending))
    wrong = [line for line in others if line.startswith(("FAILED", "ERROR"))]
    yield from (
        [outcome, rest[:200]] for outcome, _, rest in (line.partition(" ") for line in wrong)
    )
    if done.returncode:
        raise RuntimeError(f"pytest ended with status {done.returncode}: {ending}")


def _steps(place: Place) -> Cells:
    from benchmarks import local_training

    rows = [
        row
        for row in local_training.networks(place)
        if "torch.compile" not in row.what and not row.told
    ]
    what = f"fedavg: {STEPS} steps, each a CUDA graph, {place.graph}"
    rows.append(Row(what, "as they are", partial(_captured, place)))
    failed = 0
    for row in [*rows, *local_training.rows(place)]:
        found = figures_of("", row._replace(repeats=min(row.repeats, 3), calls=1), place.quick)
        failed += "error" in found
        yield cells(found)
    if failed:
        raise RuntimeError(f"{failed} rows failed")


def _captured(place: Place) -> Pair:
    """The same kernels on the same tensors, begun all at once: what a step would take without
    Python."""
    captured, plain = (_one_step(place) for _ in range(2))
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        for _ in range(3):
            captured()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured()
    return partial(_many, graph.replay), partial(_many, plain)


def _one_step(place: Place) -> Call:
    from one_client import a_client

    settings = {
        "method": "fedavg",
        "dataset": place.graph,
        "data-dir": str(place.data or ""),
        "device": place.device,
    }
    client, _ = a_client(settings)
    model = client.model.train()
    task = client.task
    optimizer = client.optimizer
    [batch] = task.batches(model)

    def step() -> None:
        optimizer.zero_grad()
        task.loss(model, batch).backward()
        optimizer.step()

    return step


def _many(step: Call) -> None:
    for _ in range(STEPS):
        step()
    torch.cuda.synchronize()


def _clients(place: Place) -> Cells:
    """Processes side by side, then those of Ray, which gives each a share."""
    from command_runs import command_run, rounds_of

    from benchmarks.local_training import side_by_side

    alone = side_by_side(place, 1)
    for number in (2, 4):
        both = side_by_side(place, number)
        yield _times(f"{number} processes, each with a client of resnet18", both, number * alone)
    settings = _images(place) | {
        "method": "hyperfed",
        "num-rounds": 4,
        "device": place.device,
        "global-every": 0,
    }
    found = []
    for share in ("0.25", "1"):
        with command_run("run", settings, 8, "--gpus", share) as (process, run):
            rows = [row for row in rounds_of(run, process) if row["phase"] == "train"]
        found.append(sum(float(row["seconds"]) for row in rows[1:]))
    yield _times("curvfed run --gpus 0.25 against 1, hyperfed with 8 clients, 3 rounds", *found)


def _times(what: str, ours: float, theirs: float) -> list[str]:
    return [what, *(f"{one:.3g}" for one in (ours, theirs, ours / theirs))]


def _images(place: Place) -> dict[str, Any]:
    if not place.data:
        return {"dataset": "digits", "model": "cnn"}
    named = {"dataset": "cifar10", "data-dir": str(place.data), "model": "cnn"}
    return named | {"images.train-subset": 5000, "images.test-subset": 1000}


def _runs(place: Place) -> Cells:
    from curvfed.deployments.inprocess import simulate

    flatland = {"method": "flatland", "dataset": place.graph, "data-dir": str(place.data or "")}
    flatland |= {"num-rounds": place.size(20, 2)}
    hyperfed = _images(place) | {
        "method": "hyperfed",
        "num-rounds": place.size(5, 2),
        "fine-tune-epochs": 0,
    }
    for settings, device in product((flatland, hyperfed), (place.device, "cpu")):
        with tempfile.TemporaryDirectory() as folder:
            run = simulate(
                settings | {"results-dir": folder, "run-name": "run", "device": device}, 10
            )
            found = json.loads((run / "summary.json").read_text())
            with (run / "rounds.csv").open(encoding="utf-8") as file:
                trained = [
                    float(row["seconds"]) for row in csv.DictReader(file) if row["phase"] == "train"
                ]
        scores = (found["global_accuracy"], found["personal_accuracy_mean"])
        what = f"{settings['method']}, {settings['dataset']}, {settings['num-rounds']} rounds"
        yield [
            what,
            device,
            *("" if one is None else f"{one:.2%}" for one in scores),
            f"{sum(trained[1:]):.3g}",
        ]


def _waits(place: Place) -> Cells:
    from one_client import a_client, a_round

    from benchmarks.local_training import ON_GRAPHS, ON_IMAGES
    from curvfed.strategies.base.learner import Learner
    from curvfed.strategies.config.build_method import learner_class
    from curvfed.strategies.methods import METHODS

    graph = {"dataset": place.graph, "data-dir": str(place.data or "")}
    images = {"dataset": "digits", "partition": "iid", "model": "cnn"}
    for base, (method, variant) in (*product([graph], ON_GRAPHS), *product([images], ON_IMAGES)):
        settings = {**base, **variant, "method": method, "device": place.device}
        client, _ = a_client(settings)
        plain = learner_class(METHODS[method]).train is Learner.train
        epochs = client.config.local_epochs
        once = partial(client.learner.run_epochs, epochs) if plain else a_round(settings)
        once()
        changed = "".join(f", {key} = {value}" for key, value in variant.items())
        yield [
            f"{method}{changed}, {base['dataset']}",
            "local training" if plain else "a round at the client",
            str(epochs * client.task.num_steps),
            str(waits(once)),
        ]


def waits(call: Call) -> int:
    """How often the processor waits for the GPU during a call."""
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            call()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchronizing CUDA operation" in str(one.message) for one in found)


SHARED = ("what", "together, s", "one at a time, s", "ratio")
RUNS = ("run", "device", "global score", "personal score", "seconds after the first round")
PARTS = {
    "tests": Part("tests of what only a GPU shows", ("outcome", "tests"), 130, _tests),
    "steps": Part("steps of every kind of local work, in float32 and bfloat16", HEADS, 170, _steps),
    "clients": Part("clients that share the GPU, against one at a time", SHARED, 110, _clients),
    "runs": Part("whole runs beside the CPU's of the same seed", RUNS, 80, _runs),
    "waits": Part(
        "how often the processor waits for the GPU", ("method", "in", "steps", "waits"), 40, _waits
    ),
}
"""By name, in the order in which they run; their seconds are less than nine minutes in all."""


if __name__ == "__main__":
    sys.exit(main())

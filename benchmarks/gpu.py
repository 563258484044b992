"""What only a GPU shows, on one page: tests, steps, clients that share the GPU, whole runs, waits.

    python -m benchmarks.gpu [--data FOLDER] [--page docs/measured/gpu.md] [--only PART ...]

Each part runs in a process of its own for a limited time. If it fails or takes longer, the page has
the reason and the rows until then, and the other parts run. The exit status is 0, 1 if a part
failed, 2 on a machine without a GPU.
"""

import argparse
import contextlib
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
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks import TESTS
from benchmarks.measure import Call, Pair, Place, Row
from benchmarks.page import (
    COLUMNS,
    GOAL,
    MISSED,
    cells,
    describe_machine,
    figures_of,
    machine,
    missed_lines,
)
from benchmarks.tables import table_lines, write_csv
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.strategies.config.device import devices
from curvfed.tasks.stored_files import write_atomically

GPU = "cuda:0"
STEPS = 50
INTRODUCTION = """\
# On a GPU

    make gpu DATA=folder

writes this page and the CSV files beside it in at most nine minutes: what only a GPU can show. Without `DATA`, the
built-in `trees` and `digits` replace Cora, MNIST and CIFAR-10. If a part fails, the page gives the reason, and the other
parts run.
"""

Cells = Iterator[list[str]]


class Part(NamedTuple):
    """A table of the page, whose rows are measured within `seconds`. A `summary` of the rows stands
    in their place, which are then a CSV file beside the page."""

    title: str
    columns: Sequence[str]
    seconds: int
    rows: Callable[[Place], Cells]
    summary: Callable[[Sequence[list[str]]], list[str]] | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the parts in turn, and write the page after each."""
    options = _parser().parse_args(arguments)
    if not torch.cuda.is_available():
        print(f"error: this needs a GPU; this machine has {devices()}", file=sys.stderr)
        return 2
    if options.rows_of:
        for row in PARTS[options.rows_of].rows(Place(options.data, GPU)):
            print(json.dumps(row), flush=True)
        return 0
    results: list[dict[str, Any]] = []
    content = {
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(GPU),
        "parts": results,
    }
    for number, name in enumerate(options.only, 1):
        result = measure_part(name, options.data)
        results.append(result)
        ending = f", failed: {result['error']}" if result["error"] else ""
        figures = f"{len(result['rows'])} rows, {result['seconds']} s{ending}"
        print(f"[{number}/{len(options.only)}] {name}: {figures}", flush=True)
        write_page(options.page, content)
    return 1 if any(result["error"] for result in results) else 0


def _parser() -> argparse.ArgumentParser:
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
    return parser


def measure_part(name: str, data: Path | None) -> dict[str, Any]:
    """The rows of a part, from its process, and the reason if it failed."""
    command = [sys.executable, "-m", "benchmarks.gpu", "--rows-of", name]
    if data:
        command += ["--data", str(data)]
    start = time.monotonic()
    error = ""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stdout=out, stderr=log, start_new_session=True)
        try:
            status = process.wait(PARTS[name].seconds)
            if status:
                log.seek(0)
                error = (log.read().strip().splitlines() or [f"status {status}"])[-1]
        except subprocess.TimeoutExpired:
            error = f"not done after {PARTS[name].seconds} s"
        finally:
            with contextlib.suppress(ProcessLookupError):  # the part and its own processes
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        rows = [json.loads(line) for line in out if line.startswith("[") and line.endswith("]\n")]
    return {"name": name, "rows": rows, "error": error, "seconds": round(time.monotonic() - start)}


def write_page(path: Path, content: Mapping[str, Any]) -> None:
    """Write the page of the measured parts, and the CSV files of its long ones."""
    measured_on = f"{content['measured'][:10]}: {describe_machine(content['machine'])}"
    lines = [INTRODUCTION, f"Measured on {measured_on}."]
    for result in content["parts"]:
        part = PARTS[result["name"]]
        lines += ["", f"## {part.title}", ""]
        if result["error"]:
            lines += [f"**Failed after {result['seconds']} s:** {result['error']}", ""]
        rows = [[_one_line(cell) for cell in row] for row in result["rows"]]
        if rows and part.summary:
            file = path.with_name(f"{path.stem}-{result['name']}.csv")
            write_csv(file, part.columns, rows)
            lines += [f"[Every row]({file.name}).", "", *part.summary(rows)]
        elif rows:
            lines += table_lines(part.columns, rows)
    write_atomically(path, ("\n".join(lines) + "\n").encode())


def steps_lines(rows: Sequence[list[str]]) -> list[str]:
    """The goals of the steps that are met, and the rows that miss one."""
    goals = [row for row in rows if row[GOAL].startswith("≤")]
    missed = [row for row in goals if MISSED in row[GOAL]]
    words = f"{len(missed)} of {len(goals)} goals are missed, in {len(rows)} rows."
    return [words, "", *missed_lines(missed)]


def waits_lines(rows: Sequence[list[str]]) -> list[str]:
    """The number of methods that wait no more than once a step, and the most waits."""
    once = [row for row in rows if int(row[3]) <= int(row[2])]
    method, _, steps, most = max(rows, key=lambda row: int(row[3]))
    return [
        f"{len(once)} of {len(rows)} kinds of local work wait once a step or less. Most often waits"
        f" {method}: {most} times in {steps} step{'s' * (steps != '1')}."
    ]


def _one_line(cell: str) -> str:
    return cell.replace("|", "/").partition("\n")[0]


def _tests(place: Place) -> Cells:
    """The tests that are skipped without a GPU."""
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-p", "no:cacheprovider", "--tb=line"]
    file = str(TESTS / "methods" / "test_on_a_gpu.py")
    process = subprocess.run([*command, file], capture_output=True, text=True, check=False)
    *lines, ending = process.stdout.strip().splitlines() or [process.stderr[-200:]]
    for number, outcome in re.findall(r"(\d+) ([a-z]+)[, ]", ending):
        yield [outcome, number]
    for line in lines:
        if line.startswith(("FAILED", "ERROR")):
            outcome, _, test = line.partition(" ")
            yield [outcome, test[:200]]
    if process.returncode:
        raise RuntimeError(f"pytest ended with status {process.returncode}: {ending}")


def _steps(place: Place) -> Cells:
    from benchmarks import local_training

    networks = local_training.networks(place)
    rows = [row for row in networks if "torch.compile" not in row.what and not row.is_figure]
    graph_steps = f"fedavg: {STEPS} steps, each a CUDA graph, {place.graph}"
    rows += local_training.rows(place)
    rows.append(Row(graph_steps, "as they are", partial(_captured, place)))
    num_failed = 0
    for row in rows:
        short = row._replace(repeats=min(row.repeats, 3), calls=1)
        figures = figures_of("", short, place.quick)
        num_failed += "error" in figures
        yield cells(figures)
    if num_failed:
        raise RuntimeError(f"{num_failed} rows failed")


@dataclass(frozen=True)
class CapturedStep:
    """A CUDA graph, and the step whose tensors it reads: they must live as long as the graph."""

    graph: torch.cuda.CUDAGraph
    step: Call

    def __call__(self) -> None:
        """Replay the graph."""
        self.graph.replay()


def _captured(place: Place) -> Pair:
    """The same kernels on the same tensors, started all at once: the time of a step without
    Python."""
    step = _one_step(place)
    plain = _one_step(place)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return partial(_repeat, CapturedStep(graph, step)), partial(_repeat, plain)


def _one_step(place: Place) -> Call:
    from one_client import a_client

    client, _ = a_client(_graph(place) | {"method": "fedavg", "device": place.device})
    model = client.model.train()
    task = client.task
    optimizer = client.optimizer
    [batch] = task.batches(model)

    def step() -> None:
        optimizer.zero_grad()
        task.loss(model, batch).backward()
        optimizer.step()

    return step


def _repeat(step: Call) -> None:
    for _ in range(STEPS):
        step()
    torch.cuda.synchronize()


def _clients(place: Place) -> Cells:
    """Processes side by side, then those of Ray, which gives each a share."""
    from benchmarks.local_training import side_by_side

    alone = side_by_side(place, 1)
    for number in (2, 4):
        together = side_by_side(place, number)
        yield _ratio(
            f"{number} processes, each with a client of resnet18", together, number * alone
        )
    shared = _seconds_in_ray(place, "0.25")
    whole = _seconds_in_ray(place, "1")
    yield _ratio("curvfed run --gpus 0.25 against 1, hyperfed, 8 clients, 3 rounds", shared, whole)


def _seconds_in_ray(place: Place, share: str) -> float:
    """Seconds of the rounds of a run in Ray, without the first, in which processes start."""
    from command_runs import command_run, rounds_of

    settings = _images(place) | {"method": "hyperfed", "num-rounds": 4, "device": place.device}
    settings["global-every"] = 0
    with command_run("run", settings, 8, "--gpus", share) as (process, run):
        return _later_seconds(rounds_of(run, process))


def _later_seconds(rounds: Sequence[Mapping[str, str]]) -> float:
    seconds = [float(row["seconds"]) for row in rounds if row["phase"] == "train"]
    return sum(seconds[1:])


def _ratio(what: str, ours: float, theirs: float) -> list[str]:
    return [what, f"{ours:.3g}", f"{theirs:.3g}", f"{ours / theirs:.3g}"]


def _graph(place: Place) -> dict[str, Any]:
    return {"dataset": place.graph, "data-dir": str(place.data or "")}


def _images(place: Place) -> dict[str, Any]:
    if not place.data:
        return {"dataset": "digits", "model": "cnn"}
    cifar = {"dataset": "cifar10", "data-dir": str(place.data), "model": "cnn"}
    return cifar | {"images.train-subset": 5000, "images.test-subset": 1000}


def _runs(place: Place) -> Cells:
    from command_runs import rounds_of

    from curvfed.deployments.inprocess import simulate

    flatland = _graph(place) | {"method": "flatland", "num-rounds": place.size(20, 2)}
    hyperfed = _images(place) | {"method": "hyperfed", "num-rounds": place.size(5, 2)}
    hyperfed["fine-tune-epochs"] = 0
    for settings, device in product((flatland, hyperfed), (place.device, "cpu")):
        with tempfile.TemporaryDirectory() as folder:
            named = {"results-dir": folder, "run-name": "run", "device": device}
            run = simulate(settings | named, 10)
            summary = RunFiles(run).summary
            seconds = _later_seconds(rounds_of(run))
        scores = [summary["global_accuracy"], summary["personal_accuracy_mean"]]
        what = f"{settings['method']}, {settings['dataset']}, {settings['num-rounds']} rounds"
        shown = ["" if score is None else f"{score:.2%}" for score in scores]
        yield [what, device, *shown, f"{seconds:.3g}"]


def _waits(place: Place) -> Cells:
    from one_client import a_client, a_round

    from benchmarks.local_training import ON_GRAPHS, ON_IMAGES
    from curvfed.strategies.base.learner import Learner, run_epochs
    from curvfed.strategies.config.build_method import learner_class
    from curvfed.strategies.methods import METHODS

    images = {"dataset": "digits", "partition": "iid", "model": "cnn"}
    on_graphs = product([_graph(place)], ON_GRAPHS)
    on_images = product([images], ON_IMAGES)
    for base, (method, variant) in (*on_graphs, *on_images):
        settings = {**base, **variant, "method": method, "device": place.device}
        client, _ = a_client(settings)
        is_plain = learner_class(METHODS[method]).train is Learner.train
        epochs = client.config.local_epochs
        train = partial(run_epochs, client.learner, epochs) if is_plain else a_round(settings)
        train()
        changed = "".join(f", {key} = {value}" for key, value in variant.items())
        yield [
            f"{method}{changed}, {base['dataset']}",
            "local training" if is_plain else "a round at the client",
            str(epochs * client.task.num_steps),
            str(waits(train)),
        ]


def waits(call: Call) -> int:
    """Number of times that the processor waits for the GPU during a call."""
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchronizing CUDA operation" in str(warning.message) for warning in caught)


SHARED = ("what", "together, s", "one at a time, s", "ratio")
RUNS = ("run", "device", "global score", "personal score", "seconds after the first round")
WAITS = ("method", "in", "steps", "waits")
PARTS = {
    "tests": Part("Tests that need a GPU", ("outcome", "tests"), 130, _tests),
    "steps": Part(
        "Steps of every kind of local work, in float32 and bfloat16",
        COLUMNS,
        130,
        _steps,
        steps_lines,
    ),
    "runs": Part("Whole runs beside the CPU's of the same seed", RUNS, 60, _runs),
    "clients": Part("Clients that share the GPU, against one at a time", SHARED, 190, _clients),
    "waits": Part("How often the processor waits for the GPU", WAITS, 20, _waits, waits_lines),
}
"""By name, in the order in which they run; together they take less than nine minutes."""


if __name__ == "__main__":
    sys.exit(main())

"""Local steps of full-size networks on a device, in float32 and bfloat16, against a plain PyTorch loop on the same batches.

    python -m benchmarks.run --data FOLDER --only networks --device cuda

On the CPU the same rows are measured on fewer images. What ours has and the plain loop has not: batches are shuffled and
cut from bytes on the device, losses are checked, the method's own loss and head.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from subprocess import PIPE
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.row import Place, Row
from benchmarks.steps import a_client
from benchmarks.timing import Ratio, compare
from curvfed.client_app.client import Client
from curvfed.tasks.images.client_task import ImageTask
from curvfed.tasks.images.models import ImageNet

NETWORKS = ("resnet18", "mobilenetv2")
METHODS = ("fedavg", "hyperfed", "spherefed")
BATCH = 64
PRECISIONS = {"float32": False, "bfloat16": True}
IMAGES = {"cpu": 64, "cuda": 640}
"""Of each client, by the kind of the device."""
REPEATS = 3
SIDE_BY_SIDE = 2
PASSES = 3
"""Of a client that trains beside another one."""


def rows(place: Place) -> list[Row]:
    """Every network, method and precision against the loop; then precisions, the compiler, and clients side by side."""
    on = place.processor
    of_loops = [
        Row(
            f"{method}: steps of {network} in {precision}, on {on}", "a plain PyTorch loop with cross-entropy", "limit",
            _bound(against_loop, place, network, method, mixed), 1.05,
        )
        for network in NETWORKS for precision, mixed in PRECISIONS.items() for method in METHODS
    ]  # fmt: skip
    of_precisions = [
        Row(
            f"fedavg: steps of {network} in bfloat16, on {on}", "in float32", "twin", _bound(precisions, place, network)
        )
        for network in NETWORKS
    ]
    return [
        *of_loops,
        *of_precisions,
        Row(
            f"fedavg: steps of resnet18 whose body torch.compile has made, on {on}", "as it is", "twin",
            _bound(compiled, place, "resnet18"),
        ),
        Row(
            f"{SIDE_BY_SIDE} clients with resnet18 in processes side by side, on {on}: until both have trained",
            "one alone", "limit", _bound(side_by_side, place, "resnet18"),
        ),
    ]  # fmt: skip


def against_loop(place: Place, network: str, method: str, mixed: bool) -> Ratio:
    """Seconds of a pass over a client's images."""
    client = _client(place, network, method, mixed)
    return compare(
        lambda: client.learner.descend(1), plain_loop(_client(place, network, "fedavg", mixed), mixed), REPEATS
    )


def precisions(place: Place, network: str) -> Ratio:
    """A pass in bfloat16 and one in float32."""
    ours, theirs = (_client(place, network, "fedavg", mixed) for mixed in (True, False))
    return compare(lambda: ours.learner.descend(1), lambda: theirs.learner.descend(1), REPEATS)


def compiled(place: Place, network: str) -> Ratio:
    """A pass once all is compiled, which takes about a minute, and one as it is."""
    client, model = _client(place, network, "fedavg", False), _client(place, network, "fedavg", False).model
    assert isinstance(model, ImageNet)
    body, head = torch.compile(model.body), model.head
    optimizer, batches = torch.optim.SGD(model.parameters(), 0.01), _batches(client)

    def ours() -> None:
        _steps(lambda images: head(body(images)), batches, optimizer, False)

    return compare(ours, plain_loop(client, False), REPEATS)


def side_by_side(place: Place, network: str) -> Ratio:
    """Seconds until as many processes have trained that were ready together, and until one has, in turn."""
    pairs = [(_processes(place, network, SIDE_BY_SIDE), _processes(place, network, 1)) for _ in range(REPEATS)]
    together, alone = (statistics.median(values) for values in zip(*pairs, strict=True))
    ratios = [one / other for one, other in pairs]
    return Ratio(together, alone, min(ratios), max(ratios))


def plain_loop(client: Client, mixed: bool) -> Callable[[], None]:
    """The steps that anyone would write, on batches that are made already."""
    model, batches = client.model, _batches(client)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    return lambda: _steps(model, batches, optimizer, mixed)


def _steps(model: Callable[[Any], Any], batches: list[Any], optimizer: torch.optim.Optimizer, mixed: bool) -> None:
    total = torch.zeros((), device=batches[0][0].device)
    for images, labels in batches:
        optimizer.zero_grad()
        with torch.autocast(images.device.type, torch.bfloat16, enabled=mixed):
            loss = F.cross_entropy(model(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        total += loss.detach()
    total.item()  # until all is done on a device that works by itself


def _batches(client: Client) -> list[Any]:
    task, model = client.task, client.model
    assert isinstance(task, ImageTask)
    assert isinstance(model, ImageNet)
    model.train()
    return [(batch.inputs, batch.labels) for batch in task.batches(model)]


def _client(place: Place, network: str, method: str, mixed: bool) -> Client:
    most = 10 * IMAGES[place.processor] if place.data else 640  # of digits
    settings: dict[str, Any] = {
        "dataset": "mnist" if place.data else "digits", "data-dir": str(place.folder), "partition": "iid",
        "model": network, "method": method, "batch-size": BATCH, "mixed-precision": mixed, "optimizer": "sgd",
        "images.train-subset": most, "images.test-subset": 100, "device": place.device,
    }  # fmt: skip
    return a_client(settings)[0]


def _processes(place: Place, network: str, number: int) -> float:
    """Seconds from the word to start until the last of these processes has trained."""
    command = [sys.executable, "-m", "benchmarks.networks", str(place.data or ""), place.device, network]
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True, cwd=Path(__file__).parents[1])
            )
            for _ in range(number)
        ]
        for process in processes:
            stack.callback(process.kill)
        _await(processes, "ready")
        began = time.perf_counter()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("train\n")
            process.stdin.close()
        _await(processes, "trained")
        return time.perf_counter() - began


def _await(processes: list["subprocess.Popen[str]"], word: str) -> None:
    """Until each has told this word."""
    if [process.stdout.readline() for process in processes if process.stdout] != [f"{word}\n"] * len(processes):
        raise RuntimeError("a process that trains failed")


def main(arguments: list[str]) -> int:
    """Make a client, take a warming pass, and train when told to on standard input."""
    data, device, network = arguments
    torch.set_num_threads(1)
    client = _client(Place(Path(data) if data else None, device), network, "fedavg", False)
    client.learner.descend(1)
    print("ready", flush=True)
    sys.stdin.readline()
    client.learner.descend(PASSES)
    print("trained", flush=True)
    return 0


def _bound(measure: Callable[..., Ratio], *arguments: Any) -> Callable[[], Ratio]:
    return lambda: measure(*arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Local steps of full-size networks, in float32 and bfloat16, against a plain PyTorch loop on the same batches.

What ours has and the plain loop has not: batches are shuffled and cut from bytes on the device, losses are checked, the
method's own loss and head.
"""

import multiprocessing
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from one_client import a_client

from benchmarks.measure import Call, Pair, Place, Row
from curvfed.client_app.client import Client

IMAGES = {"cpu": 64, "cuda": 640}
"""Of each client, by the kind of the device."""
PASSES = 3
"""Of a client that trains beside another one."""


def rows(place: Place) -> list[Row]:
    """Every network, method and precision against the loop; then precisions, the compiler, and clients side by side."""
    on, networks, found = place.processor, ("resnet18", "mobilenetv2"), []
    for network, precision, method in product(networks, ("float32", "bfloat16"), ("fedavg", "hyperfed", "spherefed")):
        make = partial(_against_loop, place, network, method, precision == "bfloat16")
        what = f"{method}: steps of {network} in {precision}, on {on}"
        found.append(Row(what, "a plain PyTorch loop with cross-entropy", make, 1.05, 3))
    for network in networks:
        make = partial(_precisions, place, network)
        found.append(Row(f"fedavg: steps of {network} in bfloat16, on {on}", "in float32", make, repeats=3))
    compiled = f"fedavg: steps of resnet18 whose body torch.compile has made, on {on}"
    beside = f"2 clients with resnet18 in processes side by side, on {on}: until both have trained"
    two, alone = (partial(_side_by_side, place, number) for number in (2, 1))
    return [
        *found,
        Row(compiled, "as it is", partial(_compiled, place), repeats=3),
        Row(beside, "one alone", lambda: (two, alone), repeats=3, told=True),
    ]


def _against_loop(place: Place, network: str, method: str, mixed: bool) -> Pair:
    ours, theirs = _client(place, network, method, mixed), _client(place, network, "fedavg", mixed)
    return lambda: ours.learner.descend(1), _plain_loop(theirs, mixed)


def _precisions(place: Place, network: str) -> Pair:
    ours, theirs = (_client(place, network, "fedavg", mixed) for mixed in (True, False))
    return lambda: ours.learner.descend(1), lambda: theirs.learner.descend(1)


def _compiled(place: Place) -> Pair:
    """The first call compiles, which takes about a minute."""
    network = place.size("resnet18", "cnn")
    client, other = (_client(place, network, "fedavg", False) for _ in range(2))
    net: Any = other.model
    body = torch.compile(net.body)
    return _plain_loop(other, False, lambda images: net.head(body(images))), _plain_loop(client, False)


def _plain_loop(client: Client, mixed: bool, model: Callable[[Any], Any] | None = None) -> Call:
    """The steps that anyone would write, on batches that are made already."""
    own, task = client.model, client.task
    own.train()
    batches = [(batch.inputs, batch.labels) for batch in task.batches(own)]
    optimizer = torch.optim.SGD(own.parameters(), 0.01)

    def steps() -> None:
        total = torch.zeros((), device=client.device)
        for images, labels in batches:
            optimizer.zero_grad()
            with torch.autocast(images.device.type, torch.bfloat16, enabled=mixed):
                loss = F.cross_entropy((model or own)(images), labels)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += loss.detach()
        total.item()  # until all is done on a device that works by itself

    return steps


def _client(place: Place, network: str, method: str, mixed: bool) -> Client:
    most = 10 * IMAGES[place.processor] if place.data else 640  # of digits
    settings: dict[str, Any] = {
        "dataset": "mnist" if place.data else "digits", "data-dir": str(place.data or ""), "partition": "iid",
        "model": network, "method": method, "batch-size": 64, "mixed-precision": mixed, "optimizer": "sgd",
        "images.train-subset": most, "images.test-subset": 100, "device": place.device,
    }  # fmt: skip
    return a_client(settings)[0]


def _side_by_side(place: Place, number: int) -> float:
    """Seconds from the moment when all processes are ready until the last has trained."""
    context = multiprocessing.get_context("spawn")
    line = context.Barrier(number + 1, timeout=120)
    processes = [context.Process(target=_train, args=(place, line), daemon=True) for _ in range(number)]
    for process in processes:
        process.start()
    line.wait()
    began = time.perf_counter()
    line.wait()
    seconds = time.perf_counter() - began
    for process in processes:  # before the line that they leave is gone
        process.join()
    return seconds


def _train(place: Place, line: Any) -> None:
    try:
        torch.set_num_threads(1)
        client = _client(place, place.size("resnet18", "cnn"), "fedavg", False)
        client.learner.descend(1)
        line.wait()
        client.learner.descend(PASSES)
        line.wait()
    except BaseException:
        line.abort()  # the one that waits is told
        raise

"""Local training of one client, with its method and as in FedAvg on the Euclidean twin: the same
data, width and batches.

A method whose learner is the plain one is timed by its steps: forward, loss, backward, pulls,
optimiser. Where the learner does more, it is the client's round: receive, train, reply; then the
ratio also counts the models that it trains besides. Networks of full size are held against a plain
PyTorch loop on the same batches. What ours has beyond that loop: batches are shuffled and cut from
bytes on the device, losses are checked, the method's own loss and head. Steps of curved embeddings
of links are held against the inner product's.
"""

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from one_client import Settings, a_client, a_fine_tuning, a_round, own_graph
from plain_loop import plain_steps

from benchmarks.measure import Pair, Place, Row
from curvfed.extensions.links.models import LinkModelSpec
from curvfed.extensions.privacy.private_steps import PrivateSteps
from curvfed.strategies.base.learner import Learner, run_epochs
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.training import make_optimizer
from curvfed.strategies.config.build_method import learner_class
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.methods import METHODS
from curvfed.tasks.graphs.client_task import client_task
from curvfed.tasks.graphs.lorentz_layers import lorentz_linear
from curvfed.tasks.graphs.lorentz_modules import LorentzConv
from curvfed.tasks.registry import tasks_of

STEPS = 50
WIDTH = 128
GOALS = {"hyperfed": 1.05, "spherefed": 1.05}  # of a method as it is by default
FLATLAND_BUYS = "a time coordinate, centroids and a second filter, in passes fused by hand"
PRIVATE_BUYS = "a gradient of each example, and norms and sums in float64"
MADE_BATCHES = "each pass shuffles and cuts its batches from bytes, which the loop has made before"
ON_GRAPHS: tuple[tuple[str, Settings], ...] = (
    # a round of one step leaves the proximal term, which is 0, out
    ("flatland", {}),
    ("flatland", {"local-epochs": 5}),
    ("flatland-constant", {}),
    ("flatland-euclidean", {}),
    ("local-lorentz", {}),
    ("fedprox", {"local-epochs": 5}),
    ("fed-pub", {}),
    ("fedgnn", {}),
    ("fedgta", {}),
    ("fedhgcn", {}),
    # a round that trains the generator, one after these
    ("fedsage+", {}),
    ("fedsage+", {"fedsage.generator-rounds": 1}),
    # at its .3 many rounds on one client diverge
    ("ditto", {}),
    ("scaffold", {"learning-rate": 0.01}),
    ("moon", {}),
)
ON_IMAGES: tuple[tuple[str, Settings], ...] = (
    ("fedprox", {}),
    ("fedbabu", {}),
    ("fedrep", {}),
    ("ditto", {}),
    ("scaffold", {}),
    ("feddyn", {}),
    ("moon", {}),
    ("pfedme", {}),
    ("fedrod", {}),
    ("apple", {}),
    ("fedmtl", {}),
    ("spherefed", {}),
    ("hyperfed", {}),
    ("hyperfed", {"hyperfed.negatives": "all"}),
    ("hyperfed", {"hyperfed.mixup": 2.0}),
    ("hyperfed-shared", {}),
    ("hyperfed-geodesic", {}),
)
"""Methods with keys beyond their defaults: every kind of local work once but FedAvg's."""


def rows(place: Place) -> list[Row]:
    """Single layers, on the CPU, then methods on graphs and on images."""
    graph = {"dataset": place.graph, "data-dir": str(place.data or ""), "device": place.device}
    linear = f"Lorentz linear layer {WIDTH} to {WIDTH}, 300 nodes, forward and backward"
    layer = f"Lorentz layer with centroid and gate, client of {place.graph}, forward and backward"
    layers = [
        Row(linear, "linear layer", _linear_against_flat, None, 9, 100),
        Row(layer, "GCN layer", partial(_layer_against_flat, place), None, 9, 50),
    ]
    gcn = "fedavg's GCN of equal width"
    on_graphs = [_row(place, method, graph, variant, gcn, STEPS) for method, variant in ON_GRAPHS]

    def tuned() -> Pair:
        settings = graph | {"fine-tune-epochs": 10}
        return a_fine_tuning(settings | {"method": "adafgl"}), a_fine_tuning(
            settings | {"method": "fedavg"}
        )

    adafgl = Row(
        f"adafgl: 10 passes of its own network, {place.graph}",
        "as many of fedavg's GCN",
        tuned,
        repeats=7,
    )
    images: dict[str, Any] = {"dataset": "digits", "partition": "iid", "device": place.device}
    if place.data:
        images |= {"dataset": "mnist", "data-dir": str(place.data)}
        images |= {"images.train-subset": 6000, "images.test-subset": 1000}
    on_images = []
    for method, variant in ON_IMAGES:
        # The heads' share shows beside a network of a size that is used; learners repeat passes,
        # whatever the network.
        base = images | {
            "model": "convnet" if learner_class(METHODS[method]).train is Learner.train else "cnn"
        }
        against = f"fedavg, {base['model']}"
        on_images.append(_row(place, method, base, variant, against, 1))
        if place.processor == "cuda" and not variant:
            on_images.append(
                _row(place, method, base | {"mixed-precision": True}, {}, f"{against}, bfloat16", 1)
            )
    private = [_private_row(images, network) for network in ("cnn", "convnet")]
    return [
        *([*layers, *links()] if place.processor == "cpu" else []),
        *on_graphs,
        adafgl,
        *on_images,
        *private,
    ]


def _row(
    place: Place, method: str, base: Settings, variant: Settings, against: str, passes: int
) -> Row:
    """Steps or rounds of a method, and of FedAvg with the same optimiser and passes."""
    plain = learner_class(METHODS[method]).train is Learner.train
    mixed = "mixed-precision" in base
    changed = "".join(f", {key} = {value}" for key, value in variant.items())

    def make() -> Pair:
        settings = {**base, **variant, "method": method}
        config = resolve_defaults(parse(dict(settings)), tasks_of(settings["dataset"])[0])
        twin = {
            **base,
            "method": "fedavg",
            "optimizer": config.optimizer,
            "local-epochs": config.local_epochs,
        }
        if not plain:
            return a_round(settings), a_round(twin)
        ours, theirs = (a_client(keys)[0].learner for keys in (settings, twin))
        num = place.size(passes, 1)
        return lambda: run_epochs(ours, num), lambda: run_epochs(theirs, num)

    what = ("steps" if plain else "a round at the client") + " in bfloat16" * mixed
    goal = None if variant or mixed else GOALS.get(method)
    repeats = 7 if passes > 1 else 5
    calls = 1 if plain else 1 + passes // 10
    buys = FLATLAND_BUYS if method == "flatland" else ""
    name = f"{method}{changed}: {what}, {base['dataset']}"
    return Row(name, against, make, goal, repeats, calls, buys=buys)


def _private_row(images: Settings, network: str) -> Row:
    """FedAvg's steps on gradients of single examples with noise, and without either."""

    def make() -> Pair:
        plain = {**images, "model": network, "method": "fedavg", "batch-size": 128}
        theirs = a_client(plain)[0].learner
        rate = min(1.0, 128 / theirs.local.task.num_examples)
        # with a given noise the accountant's package is not needed
        steps = PrivateSteps(rate, clip=1.0, noise=1.0)
        ours = Learner(replace(a_client(plain)[0].learner.local, private=steps))
        return lambda: run_epochs(ours, 1), lambda: run_epochs(theirs, 1)

    what = f"fedavg, dp.unit = record: steps of {network}, {images['dataset']}"
    return Row(what, "without privacy", make, 3.0, buys=PRIVATE_BUYS)


def _linear_against_flat() -> Pair:
    """M space + time mᵀ + b against M x + b."""
    generator = torch.Generator().manual_seed(0)
    x, weight, ones = (torch.randn(n, WIDTH, generator=generator) / 8 for n in (300, WIDTH, 300))
    bias = torch.zeros(WIDTH, requires_grad=True)
    column = torch.zeros(WIDTH, requires_grad=True)
    curvature = torch.tensor(-1.0, requires_grad=True)
    flat = (x.requires_grad_(), weight.requires_grad_(), bias)
    curved = (*flat, column, curvature)
    gradients = torch.autograd.grad
    return lambda: gradients(lorentz_linear(*curved), curved, ones), lambda: gradients(
        F.linear(*flat), flat, ones
    )


def links() -> list[Row]:
    """Steps of curved embeddings against the inner product's: 1,000 links, 50 negatives, 10
    dimensions, and WordNet's 1,180 mammals."""
    return [
        Row(
            f"links: steps of {kind}, 1,000 links and 50 negatives",
            "inner product and bias",
            partial(_links_against_inner, kind),
            2.0,
        )
        for kind in ("normal", "hyperboloid")
    ]


def _links_against_inner(kind: str) -> Pair:
    generator = torch.Generator().manual_seed(0)
    number = 1180
    heads = torch.randint(number, (1000,), generator=generator)
    tails = torch.randint(number, (1000, 51), generator=generator)
    same = torch.zeros_like(heads)

    def step_of(spec: LinkModelSpec) -> Callable[[], None]:
        model = spec.build(0)
        parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
        optimizer = make_optimizer(parameters, RunKeys(optimizer="adamw", learning_rate=0.01))

        def step() -> None:
            optimizer.zero_grad()
            torch.autograd.backward(F.cross_entropy(model(heads, same, tails), same))
            optimizer.step()

        return step

    curved = LinkModelSpec(kind, number, 1, 10)
    flat = LinkModelSpec("normal", number, 1, 10, curvature=0.0, score="inner", bias=True)
    return step_of(curved), step_of(flat)


def _layer_against_flat(place: Place) -> Pair:
    """FlatLand's layer in the middle of its network against the GCN's, on the adjacency of client
    0's graph."""
    graph = own_graph(place.graph, place.data)
    task = client_task(graph, graph.class_names, torch.device("cpu"))
    adjacency = next(iter(task.batches(torch.nn.Identity()))).inputs.adjacency
    layer = LorentzConv(WIDTH, WIDTH)
    curvature = torch.tensor(-1.0, requires_grad=True)
    generator = torch.Generator().manual_seed(0)
    x, ones = (torch.randn(len(graph.features), WIDTH, generator=generator) / 8 for _ in range(2))
    own = [x.requires_grad_(), curvature, *layer.parameters()]

    def lorentz() -> None:
        square = x.square().sum(dim=1, keepdim=True)
        out, _ = layer.convolved(x @ layer.weight.t(), square, adjacency, curvature)
        torch.autograd.grad(out, own, ones)

    def flat() -> None:
        out = adjacency @ (x @ layer.weight.t()) + layer.bias
        torch.autograd.grad(out, (x, layer.weight, layer.bias), ones)

    return lorentz, flat


NETWORKS = ("resnet18", "mobilenetv2")
IMAGES = {"cpu": 64, "cuda": 640}  # of each client


def networks(place: Place) -> list[Row]:
    """Every network, method and precision against the loop; then precisions, the compiler, and
    clients side by side."""
    on = place.processor
    rows = []
    for network, precision, method in product(
        NETWORKS, ("float32", "bfloat16"), ("fedavg", "hyperfed", "spherefed")
    ):
        make = partial(_against_loop, place, network, method, precision == "bfloat16")
        what = f"{method}: steps of {network} in {precision}, on {on}"
        loop = "a plain PyTorch loop with cross-entropy"
        rows.append(Row(what, loop, make, 1.05, 3, buys=MADE_BATCHES))
    for network in NETWORKS:
        make = partial(_precisions, place, network)
        rows.append(
            Row(f"fedavg: steps of {network} in bfloat16, on {on}", "in float32", make, repeats=3)
        )
    compiled = f"fedavg: steps of resnet18 whose body torch.compile has made, on {on}"
    beside = f"2 clients with resnet18 in processes side by side, on {on}: until both have trained"
    two, alone = (partial(side_by_side, place, number) for number in (2, 1))
    return [
        *rows,
        Row(compiled, "as it is", partial(_compiled, place), repeats=3),
        Row(beside, "one alone", lambda: (two, alone), repeats=3, is_figure=True),
    ]


def _against_loop(place: Place, network: str, method: str, mixed: bool) -> Pair:
    ours = _client(place, network, method, mixed)
    theirs = _client(place, network, "fedavg", mixed)
    return lambda: run_epochs(ours.learner, 1), plain_steps(theirs, mixed)


def _precisions(place: Place, network: str) -> Pair:
    ours, theirs = (_client(place, network, "fedavg", mixed) for mixed in (True, False))
    return lambda: run_epochs(ours.learner, 1), lambda: run_epochs(theirs.learner, 1)


def _compiled(place: Place) -> Pair:
    """The first call compiles, which takes about a minute."""
    network = place.size("resnet18", "cnn")
    client, other = (_client(place, network, "fedavg", False) for _ in range(2))
    body: Any = torch.compile(other.model.body)
    return plain_steps(other, False, lambda images: other.model.head(body(images))), plain_steps(
        client, False
    )


def _client(place: Place, network: str, method: str, mixed: bool) -> Any:
    most = 10 * IMAGES[place.processor] if place.data else 640  # of digits
    settings: dict[str, Any] = {
        "dataset": "mnist" if place.data else "digits",
        "data-dir": str(place.data or ""),
        "partition": "iid",
        "model": network,
        "method": method,
        "batch-size": 64,
        "mixed-precision": mixed,
        "optimizer": "sgd",
        "images.train-subset": most,
        "images.test-subset": 100,
        "device": place.device,
    }
    return a_client(settings)[0]


def side_by_side(place: Place, number: int) -> float:
    """Seconds from the moment when all processes are ready until the last has trained."""
    context = multiprocessing.get_context("spawn")
    line = context.Barrier(number + 1, timeout=120)
    processes = [
        context.Process(target=_train, args=(place, line), daemon=True) for _ in range(number)
    ]
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
    torch.set_num_threads(1)
    client = _client(place, place.size("resnet18", "cnn"), "fedavg", False)
    run_epochs(client.learner, 1)
    line.wait()
    run_epochs(client.learner, 3)
    line.wait()

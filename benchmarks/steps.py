"""Local training of one client, with its method and as in FedAvg on the Euclidean twin: the same data, width and batches.

A method whose learner is the plain one is timed by its steps: forward, loss, backward, pulls, optimiser. Where the learner
does more, it is the client's round: receive, train, reply; then the ratio also counts the models that it trains besides.
Methods whose local work is that of a row above them, or FedAvg's own, have no row.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.row import Place, Row
from benchmarks.timing import Ratio, compare
from curvfed.client_app.client import Client
from curvfed.strategies.base.aggregation import weighed
from curvfed.strategies.base.average import Update
from curvfed.strategies.base.learner import copy_in
from curvfed.strategies.base.method import Method
from curvfed.strategies.base.training import make_optimizer, train
from curvfed.strategies.config.defaults import settled
from curvfed.strategies.config.halves import aggregation
from curvfed.strategies.config.model_spec import build_model, fixed_head, model_spec
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import home
from curvfed.strategies.methods import METHODS
from curvfed.strategies.wire.messages import Facts
from curvfed.tasks.graphs.client_graph import ClientGraph
from curvfed.tasks.graphs.client_task import client_task
from curvfed.tasks.graphs.data import GraphSpec, load_client
from curvfed.tasks.graphs.lorentz_ops import lorentz_linear
from curvfed.tasks.graphs.node_models import LorentzLayer
from curvfed.tasks.registry import tasks_of

STEPS = 50
CLIENTS = 10
WIDTH = 128
GRAPH_REPEATS, IMAGE_REPEATS, LAYER_REPEATS = 7, 5, 9

Settings = Mapping[str, Any]

GRAPH_GOALS = {"flatland": 1.15}
IMAGE_GOALS = {"hyperfed": 1.05, "spherefed": 1.05}

GRAPH_VARIANTS: dict[str, tuple[Settings, ...]] = {
    "flatland": ({}, {"local-epochs": 5}),  # in a round of one step the proximal term is 0, and is left out
    "fedprox": ({"local-epochs": 5},),
    "fedsage+": ({}, {"fedsage.generator-rounds": 1}),  # a round that trains the generator, and one after these
}
IMAGE_VARIANTS: dict[str, tuple[Settings, ...]] = {
    "hyperfed": ({}, {"hyperfed.negatives": "all"}, {"hyperfed.mixup": 2.0}),
}
"""What a method is timed with beyond its defaults; a method that is not here once, with these."""

TUNED = {"fine-tune-epochs": 10}


def rows(place: Place) -> list[Row]:
    """Single layers, then every method on graphs and on images."""
    graph = {"dataset": place.graph, "data-dir": str(place.folder), "device": place.device}
    of_layers = [
        Row(
            f"Lorentz linear layer {WIDTH} to {WIDTH}, 300 nodes, forward and backward",
            "linear layer",
            "twin",
            linear_against_flat,
        ),
        Row(
            f"Lorentz layer with centroid and gate, client of {place.graph}, forward and backward",
            "GCN layer",
            "twin",
            lambda: layer_against_flat(place),
        ),
    ]
    adafgl = Row(
        f"adafgl: {TUNED['fine-tune-epochs']} passes of its own network, {place.graph}",
        "as many of fedavg's GCN",
        "twin",
        lambda: compare(
            a_fine_tuning(graph | TUNED | {"method": "adafgl"}),
            a_fine_tuning(graph | TUNED | {"method": "fedavg"}),
            GRAPH_REPEATS,
        ),
    )
    # The layers by themselves are measured on the CPU.
    return [*(of_layers if place.processor == "cpu" else []), *_on_graphs(graph), adafgl, *_on_images(place)]


def _on_graphs(base: Settings) -> list[Row]:
    found = []
    for method in _distinct("nodes"):
        for variant in GRAPH_VARIANTS.get(method, ({},)):
            goal = None if variant else GRAPH_GOALS.get(method)
            found.append(_row(method, base, variant, goal, "fedavg's GCN of equal width", STEPS, GRAPH_REPEATS))
    return found


def _on_images(place: Place) -> list[Row]:
    base: dict[str, Any] = {"dataset": "digits", "partition": "iid", "device": place.device}
    if place.data:
        base |= {"dataset": "mnist", "data-dir": str(place.data), "images.train-subset": 6000}
        base |= {"images.test-subset": 1000}
    found = []
    for method in _distinct("images"):
        # The heads' share shows beside a network of a size that is used; learners repeat passes, whatever the network.
        model = {"model": "convnet" if METHODS[method].client is None else "cnn"}
        for variant in IMAGE_VARIANTS.get(method, ({},)):
            goal = None if variant else IMAGE_GOALS.get(method)
            against = f"fedavg, {model['model']}"
            found.append(_row(method, base | model, variant, goal, against, 1, IMAGE_REPEATS))
        if place.processor == "cuda":
            mixed = base | model | {"mixed-precision": True}
            found.append(_row(method, mixed, {}, None, f"fedavg, {model['model']}, bfloat16", 1, IMAGE_REPEATS))
    return found


def _row(
    method: str, base: Settings, variant: Settings, goal: float | None, against: str, passes: int, repeats: int
) -> Row:
    plain = METHODS[method].client is None
    changed = "".join(f", {key} = {value}" for key, value in variant.items())

    def measure() -> Ratio:
        settings = {**base, **variant, "method": method}
        twin = _twin(base, settings)
        if plain:
            return compare(steps(settings, passes), steps(twin, passes), repeats)
        return compare(a_round(settings), a_round(twin), repeats, calls=1 + passes // 10)

    what = "steps" if plain else "a round at the client"
    mixed = " in bfloat16" if base.get("mixed-precision") else ""
    return Row(f"{method}{changed}: {what}{mixed}, {base['dataset']}", against, "twin", measure, goal)


def _twin(base: Settings, settings: Settings) -> dict[str, Any]:
    """FedAvg with the optimiser and the passes of these settings."""
    config = settled(parse(dict(settings)), tasks_of(settings["dataset"])[0])
    return {**base, "method": "fedavg", "optimizer": config.optimizer, "local-epochs": config.local_epochs}


def _distinct(task: str) -> list[str]:
    """The methods of a task by what a client computes, each kind of local work once, FedAvg's left out."""
    seen, found = {_local_work(METHODS["fedavg"])}, []
    for name, method in METHODS.items():
        work = _local_work(method)
        # AdaFGL's rounds are FedAvg's; its fine-tuning has a row of its own.
        if task in method.tasks and work not in seen and not method.tunes_own_network:
            seen.add(work)
            found.append(name)
    return found


def _local_work(method: Method) -> tuple[Any, ...]:
    fixed = method.head_from != "training"
    model = (method.space, method.head, fixed, method.learns_curvature, method.selection)
    return (*model, method.loss, method.proximal, method.sparsity, method.client)


def steps(settings: Settings, passes: int) -> Callable[[], object]:
    """Passes over client 0's examples, by its learner's steps; set up once."""
    client, _ = a_client(settings)
    return lambda: client.learner.descend(passes)


def a_round(settings: Settings) -> Callable[[], object]:
    """The second round of client 0, over and over: nothing is aggregated in between. Set up once."""
    client, facts = a_client(settings)
    learner, server = client.learner, aggregation(client.config, facts, CLIENTS)
    learner.round = 1
    learner.receive(server.sent_to(0))
    trained = learner.train()
    reply = {name: np.array(array) for name, array in learner.share().items()}
    server.aggregate(weighed({0: Update(client.task.num_examples, reply, trained.steps)}, client.config.weights))
    learner.round = 2

    def once() -> None:
        learner.receive(server.sent_to(0))
        learner.train()
        learner.share()

    return once


def a_fine_tuning(settings: Settings) -> Callable[[], object]:
    """The fine-tuning of client 0; set up once."""
    client, _ = a_client(settings)
    return client.learner.fine_tune


def a_client(settings: Settings) -> tuple[Client, Facts]:
    """The first of ten, with its model at its start; it writes nothing to the disk."""
    config = parse(dict(settings))
    client = Client(config, "benchmark", 0, {"partition-id": 0, "num-partitions": CLIENTS})
    about = client.describe()
    partitions = tuple(range(CLIENTS)) if client.method.lists_clients else ()
    facts = Facts(about.task, about.num_features, about.class_names, about.shape, partitions=partitions)
    client.prepare(facts, 0)
    if client.fixed:
        copy_in(fixed_head(model_spec(client.config, facts), config.seed), client.tensors)
    return client, facts


def linear_against_flat(nodes: int = 300) -> Ratio:
    """M space + time mᵀ + b against M x + b."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    x, weight, ones = (torch.randn(n, WIDTH, generator=generator) / 8 for n in (nodes, WIDTH, nodes))
    bias, column = torch.zeros(WIDTH, requires_grad=True), torch.zeros(WIDTH, requires_grad=True)
    radius = torch.ones((), requires_grad=True)
    x.requires_grad_(), weight.requires_grad_()

    def lorentz() -> None:
        torch.autograd.grad(lorentz_linear(x, weight, bias, column, radius), (x, weight, bias, column, radius), ones)

    def flat() -> None:
        torch.autograd.grad(F.linear(x, weight, bias), (x, weight, bias), ones)

    return compare(lorentz, flat, LAYER_REPEATS, calls=100)


def layer_against_flat(place: Place) -> Ratio:
    """FlatLand's layer in the middle of its network against the GCN's, on the adjacency of client 0's graph."""
    torch.set_num_threads(1)
    graph = load_client(GraphSpec(place.graph, place.folder), 0, CLIENTS, home() / "cache")
    task = client_task(graph, graph.class_names, torch.device("cpu"))
    adjacency = next(iter(task.batches(torch.nn.Identity()))).inputs.adjacency
    layer, radius = LorentzLayer(WIDTH, WIDTH, gate=True), torch.ones((), requires_grad=True)
    generator = torch.Generator().manual_seed(0)
    x, ones = (torch.randn(len(graph.features), WIDTH, generator=generator) / 8 for _ in range(2))
    x.requires_grad_()
    own = [x, radius, *layer.parameters()]

    def lorentz() -> None:
        square = x.square().sum(dim=1, keepdim=True)
        torch.autograd.grad(layer(x @ layer.weight.t(), square, adjacency, radius), own, ones)

    def flat() -> None:
        out = adjacency @ (x @ layer.weight.t()) + layer.bias
        torch.autograd.grad(out, (x, layer.weight, layer.bias), ones)

    return compare(lorentz, flat, LAYER_REPEATS, calls=50)


def lorentz_against_flat(data_dir: Path, dataset: str = "cora", clients: int = 10, repeats: int = 9) -> Ratio:
    """Ratio of the seconds for `STEPS` training steps of flatland and of fedavg, on one thread."""
    graph = load_client(GraphSpec(dataset, data_dir), 0, clients, home() / "cache")
    return compare(stepper(graph, "flatland"), stepper(graph, "fedavg"), repeats)


def stepper(graph: ClientGraph, method: str) -> Callable[[], object]:
    """`STEPS` training steps of a method's model on a client's graph; set up once."""
    torch.set_num_threads(1)
    config = settled(parse({"method": method}), "nodes")
    facts = Facts("nodes", graph.features.shape[1], graph.class_names)
    task = client_task(graph, facts.class_names, torch.device("cpu"))
    model = build_model(model_spec(config, facts), 0)
    optimizer = make_optimizer(dict(model.named_parameters()), config)
    return lambda: train(model, task, optimizer, STEPS)

"""Local training of one client, with its method and as in FedAvg on the Euclidean twin: the same data, width and batches.

A method whose learner is the plain one is timed by its steps: forward, loss, backward, pulls, optimiser. Where the learner
does more, it is the client's round: receive, train, reply; then the ratio also counts the models that it trains besides.
Methods whose local work is that of a row above them, or FedAvg's own, have no row.
"""

from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from one_client import CLIENTS, Settings, a_client, a_fine_tuning, a_round

from benchmarks.measure import Call, Pair, Place, Row
from curvfed.client_app.training import make_optimizer, train
from curvfed.strategies.config import home, parse
from curvfed.strategies.defaults import settled
from curvfed.strategies.messages import Facts
from curvfed.strategies.method import Method
from curvfed.strategies.methods import METHODS
from curvfed.strategies.model_spec import build_model, model_spec
from curvfed.tasks.graphs.client_graph import ClientGraph
from curvfed.tasks.graphs.client_task import client_task
from curvfed.tasks.graphs.data import GraphSpec, load_client
from curvfed.tasks.graphs.lorentz_ops import lorentz_linear
from curvfed.tasks.graphs.node_models import LorentzLayer
from curvfed.tasks.registry import tasks_of

STEPS = 50
WIDTH = 128

GOALS = {"flatland": 1.15, "hyperfed": 1.05, "spherefed": 1.05}

VARIANTS: dict[tuple[str, str], tuple[Settings, ...]] = {
    ("nodes", "flatland"): ({}, {"local-epochs": 5}),  # a round of one step leaves the proximal term, which is 0, out
    ("nodes", "fedprox"): ({"local-epochs": 5},),
    ("nodes", "fedsage+"): ({}, {"fedsage.generator-rounds": 1}),  # a round that trains the generator, one after these
    ("images", "hyperfed"): ({}, {"hyperfed.negatives": "all"}, {"hyperfed.mixup": 2.0}),
}
"""What a method of a task is timed with beyond its defaults; a method that is not here once, with these."""


def rows(place: Place) -> list[Row]:
    """Single layers, on the CPU, then every method on graphs and on images."""
    graph = {"dataset": place.graph, "data-dir": str(place.data or ""), "device": place.device}
    linear = f"Lorentz linear layer {WIDTH} to {WIDTH}, 300 nodes, forward and backward"
    layer = f"Lorentz layer with centroid and gate, client of {place.graph}, forward and backward"
    layers = [
        Row(linear, "linear layer", _linear_against_flat, None, 9, 100),
        Row(layer, "GCN layer", partial(_layer_against_flat, place), None, 9, 50),
    ]
    on_graphs = [
        _row(place, method, graph, variant, "fedavg's GCN of equal width", STEPS)
        for method in _distinct("nodes")
        for variant in VARIANTS.get(("nodes", method), ({},))
    ]

    def tuned() -> Pair:
        settings = graph | {"fine-tune-epochs": 10}
        return a_fine_tuning(settings | {"method": "adafgl"}), a_fine_tuning(settings | {"method": "fedavg"})

    adafgl = Row(f"adafgl: 10 passes of its own network, {place.graph}", "as many of fedavg's GCN", tuned, repeats=7)
    return [*(layers if place.processor == "cpu" else []), *on_graphs, adafgl, *_on_images(place)]


def _on_images(place: Place) -> list[Row]:
    base: dict[str, Any] = {"dataset": "digits", "partition": "iid", "device": place.device}
    if place.data:
        base |= {"dataset": "mnist", "data-dir": str(place.data)}
        base |= {"images.train-subset": 6000, "images.test-subset": 1000}
    found = []
    for method in _distinct("images"):
        # The heads' share shows beside a network of a size that is used; learners repeat passes, whatever the network.
        model = {"model": "convnet" if METHODS[method].learner == "plain" else "cnn"}
        against = f"fedavg, {model['model']}"
        for variant in VARIANTS.get(("images", method), ({},)):
            found.append(_row(place, method, base | model, variant, against, 1))
        if place.processor == "cuda":
            found.append(_row(place, method, base | model | {"mixed-precision": True}, {}, f"{against}, bfloat16", 1))
    return found


def _row(place: Place, method: str, base: Settings, variant: Settings, against: str, passes: int) -> Row:
    """Steps or rounds of a method, and of FedAvg with the same optimiser and passes."""
    plain, mixed = METHODS[method].learner == "plain", "mixed-precision" in base
    changed = "".join(f", {key} = {value}" for key, value in variant.items())

    def make() -> Pair:
        settings = {**base, **variant, "method": method}
        config = settled(parse(dict(settings)), tasks_of(settings["dataset"])[0])
        twin = {**base, "method": "fedavg", "optimizer": config.optimizer, "local-epochs": config.local_epochs}
        if plain:
            return _steps(settings, place.size(passes, 1)), _steps(twin, place.size(passes, 1))
        return a_round(settings), a_round(twin)

    what = ("steps" if plain else "a round at the client") + " in bfloat16" * mixed
    goal = None if variant or mixed else GOALS.get(method)
    repeats, calls = 7 if passes > 1 else 5, 1 if plain else 1 + passes // 10
    return Row(f"{method}{changed}: {what}, {base['dataset']}", against, make, goal, repeats, calls)


def _distinct(task: str) -> list[str]:
    """The methods of a task by what a client computes, each kind of local work once, FedAvg's left out."""
    seen, found = {_local_work(METHODS["fedavg"])}, []
    for name, method in METHODS.items():
        work = _local_work(method)
        # AdaFGL's rounds are FedAvg's; its fine-tuning has a row of its own.
        if task in method.tasks and work not in seen and method.learner != "adafgl":
            seen.add(work)
            found.append(name)
    return found


def _local_work(method: Method) -> tuple[Any, ...]:
    fixed = method.head_from != "training"
    model = (method.space, method.head, fixed, method.learns_curvature, method.selection)
    return (*model, method.loss, method.proximal, method.sparsity, method.learner)


def _steps(settings: Settings, passes: int) -> Call:
    """Passes over client 0's examples, by its learner's steps."""
    client, _ = a_client(settings)
    return lambda: client.learner.descend(passes)


def own_graph(place: Place) -> ClientGraph:
    """Client 0's of ten."""
    return load_client(GraphSpec(place.graph, place.data or Path()), 0, CLIENTS, home() / "cache")


def graph_steps(graph: ClientGraph, method: str, num: int = STEPS) -> Call:
    """Training steps of a method's model on a graph."""
    config = settled(parse({"method": method}), "nodes")
    facts = Facts("nodes", graph.features.shape[1], graph.class_names)
    task = client_task(graph, facts.class_names, torch.device("cpu"))
    model = build_model(model_spec(config, facts), 0)
    optimizer = make_optimizer(dict(model.named_parameters()), config)
    return lambda: train(model, task, optimizer, num)


def _linear_against_flat() -> Pair:
    """M space + time mᵀ + b against M x + b."""
    generator = torch.Generator().manual_seed(0)
    x, weight, ones = (torch.randn(n, WIDTH, generator=generator) / 8 for n in (300, WIDTH, 300))
    bias, column = torch.zeros(WIDTH, requires_grad=True), torch.zeros(WIDTH, requires_grad=True)
    radius = torch.ones((), requires_grad=True)
    own = (x.requires_grad_(), weight.requires_grad_(), bias, column, radius)
    return (
        lambda: torch.autograd.grad(lorentz_linear(*own), own, ones),
        lambda: torch.autograd.grad(F.linear(x, weight, bias), (x, weight, bias), ones),
    )


def _layer_against_flat(place: Place) -> Pair:
    """FlatLand's layer in the middle of its network against the GCN's, on the adjacency of client 0's graph."""
    graph = own_graph(place)
    task = client_task(graph, graph.class_names, torch.device("cpu"))
    adjacency = next(iter(task.batches(torch.nn.Identity()))).inputs.adjacency
    layer, radius = LorentzLayer(WIDTH, WIDTH, gate=True), torch.ones((), requires_grad=True)
    generator = torch.Generator().manual_seed(0)
    x, ones = (torch.randn(len(graph.features), WIDTH, generator=generator) / 8 for _ in range(2))
    own = [x.requires_grad_(), radius, *layer.parameters()]

    def lorentz() -> None:
        square = x.square().sum(dim=1, keepdim=True)
        torch.autograd.grad(layer(x @ layer.weight.t(), square, adjacency, radius), own, ones)

    def flat() -> None:
        out = adjacency @ (x @ layer.weight.t()) + layer.bias
        torch.autograd.grad(out, (x, layer.weight, layer.bias), ones)

    return lorentz, flat

"""One training step: Lorentz GCN against flat GCN of equal width, on the same client."""

from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.timing import Ratio, compare
from client_app.training import make_optimizer, train
from strategies.config import home, parse
from strategies.defaults import settled
from strategies.messages import Facts
from strategies.model_spec import build_model, model_spec
from tasks.graphs.client_graph import ClientGraph
from tasks.graphs.client_task import client_task
from tasks.graphs.data import GraphSpec, load_client

STEPS = 50


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

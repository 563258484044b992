"""Training in plain loops: what a run must reach bit for bit, and limits of its speed."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from curvfed.client_app.client import Client
from curvfed.client_app.data import load_data, make_task
from curvfed.client_app.node import Node
from curvfed.strategies.base.run_keys import home
from curvfed.strategies.base.statistics import Statistics, named_state
from curvfed.strategies.base.training import Proximal, make_optimizer, seed_dropout, train
from curvfed.strategies.config.build_method import (
    build_model,
    fixed_head,
    initial_aggregation,
    is_fixed,
    model_spec,
)
from curvfed.strategies.config.run_config import RunConfig, resolve_defaults
from curvfed.strategies.methods import METHODS
from curvfed.strategies.wire.messages import Facts
from curvfed.tasks.images.client_task import evaluate
from curvfed.tasks.images.dataset import ImageDataset
from curvfed.tasks.registry import tasks_of


class PlainLoop:
    """Clients as a list, models in memory, no message and no file; data and tasks are set up
    outside the clock.

    Only for FlatLand, and for methods of images that share all that is trained, such as fedavg and
    hyperfed.

    Parameters
    ----------
    config : RunConfig
    num_clients : int
    """

    def __init__(self, config: RunConfig, num_clients: int) -> None:
        torch.set_num_threads(config.threads)
        task = tasks_of(config.dataset)[0]
        self.config = config = resolve_defaults(config, task)
        data = [
            load_data(config, Node(partition=client, num_partitions=num_clients))
            for client in range(num_clients)
        ]
        names = tuple(dict.fromkeys(name for one in data for name in one.class_names))
        self.facts = Facts(task, data[0].num_features, names, shape=data[0].shape)
        self.device = torch.device("cpu")
        spec = model_spec(config, self.facts)
        self.start = build_model(spec, config.seed)
        if config.network.head_from != "training":
            with torch.no_grad():
                for name, array in fixed_head(spec, config.seed).items():
                    self.start.state_dict()[name].copy_(torch.from_numpy(array))
        self.tasks = [make_task(one, config, names, self.device, self.start) for one in data]
        is_personal = METHODS[config.method].is_personal
        self.keeps_optimizer = any(
            is_personal(name) for name, p in self.start.named_parameters() if p.requires_grad
        )
        self.shared = [
            n for n in named_state(self.start) if not is_personal(n) and not is_fixed(config, n)
        ]
        self.curvatures = np.array([one.forman for one in data]) if task == "nodes" else None
        self.test = (
            ImageDataset.of_run(config, home() / "cache").test() if task == "images" else None
        )

    def run(self) -> list[dict[str, Any]]:
        """All rounds from the start, each scored as a run scores it; the scores of the last."""
        config = self.config
        server, server_model = (
            initial_aggregation(config, self.facts, range(len(self.tasks))),
            copy.deepcopy(self.start),
        )
        models = [copy.deepcopy(self.start) for _ in self.tasks]
        if self.curvatures is not None:
            starts = (self.curvatures - self.curvatures.mean()) / self.curvatures.std()
            for model, curvature in zip(models, starts, strict=True):
                torch.nn.init.constant_(model.get_parameter("k"), float(curvature))
        optimizers = [
            make_optimizer(
                {name: p for name, p in model.named_parameters() if p.requires_grad}, config
            )
            for model in models
        ]
        scores: list[dict[str, Any]] = []
        for number in range(1, config.num_rounds + 1):
            scores, updates = [], {}
            for client, (model, task, optimizer) in enumerate(
                zip(models, self.tasks, optimizers, strict=True)
            ):
                _load(model, server.global_model())
                shared = [p for name, p in model.named_parameters() if name in self.shared]
                coefficient = proximal(config)
                pulled = coefficient and config.local_epochs * task.num_steps > 1
                if not self.keeps_optimizer:
                    optimizer.reset()
                task.scores(model)
                seed = np.random.SeedSequence([config.seed, client, number])
                seed_dropout(int(seed.generate_state(1, np.uint64)[0]) >> 1, self.device)
                train(
                    model,
                    task,
                    optimizer,
                    config.local_epochs,
                    [Proximal(shared, coefficient)] if pulled else [],
                )
                scores.append(task.scores(model))
                state = named_state(model)
                updates[client] = Statistics(
                    {name: state[name].detach().numpy() for name in self.shared}, task.num_examples
                )
            server.aggregate(updates)
            due = number == config.num_rounds or (
                config.global_every and number % config.global_every == 0
            )
            if self.test is not None and due:
                _load(server_model, server.global_model())
                evaluate(server_model, self.test, self.facts.class_names, self.device)
        return scores


def proximal(config: RunConfig) -> float:
    """The factor of ‖w - w_t‖²: FlatLand's λ, or half of FedProx's μ."""
    table = next(iter(config.row.keys), "")
    return {
        "flatland": lambda: config["flatland.proximal"],
        "fedprox": lambda: config["fedprox.mu"] / 2,
        "spherefed": lambda: config["spherefed.mu"] / 2,
    }.get(table, lambda: 0.0)()


def _load(model: torch.nn.Module, arrays: Any) -> None:
    state = named_state(model)
    with torch.no_grad():
        for name, array in arrays.items():
            state[name].copy_(torch.from_numpy(np.asarray(array)))


def plain_steps(
    client: Client, mixed: bool, model: Callable[[Any], Any] | None = None
) -> Callable[[], None]:
    """The steps that anyone would write, on batches that are made already."""
    own, task = client.model, client.task
    own.train()
    batches = [(batch.inputs, batch.labels) for batch in task.batches(own)]
    decay = client.config.weight_decay
    momentum = client.config.momentum
    optimizer = torch.optim.SGD(own.parameters(), 0.01, momentum, weight_decay=decay)

    def steps() -> None:
        total = torch.zeros((), device=client.device)
        for images, labels in batches:
            optimizer.zero_grad()
            with torch.autocast(images.device.type, torch.bfloat16, enabled=mixed):
                loss = F.cross_entropy((model or own)(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        total.item()  # until all is done on a device that works by itself

    return steps

"""FlatLand in one plain loop: the limit for whatever wraps the same training."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from curvfed.strategies.base.training import Proximal, make_optimizer, seed_dropout, train
from curvfed.strategies.config.defaults import settled
from curvfed.strategies.config.model_spec import build_model, model_spec
from curvfed.strategies.config.run_config import RunConfig, home
from curvfed.strategies.methods import METHODS
from curvfed.strategies.wire.messages import Facts
from curvfed.tasks.graphs.client_task import client_task
from curvfed.tasks.graphs.data import GraphSpec, load_client


class PlainLoop:
    """Clients as a list, models in memory, no message and no file; set up outside the clock.

    Parameters
    ----------
    config : RunConfig
    num_clients : int
    """

    def __init__(self, config: RunConfig, num_clients: int) -> None:
        torch.set_num_threads(config.threads)
        self.config = config = settled(config, "nodes")
        spec = GraphSpec(config.dataset, Path(config.data_path), seed=config.seed)
        graphs = [load_client(spec, index, num_clients, home() / "cache") for index in range(num_clients)]
        curvatures = np.array([graph.forman for graph in graphs])
        facts = Facts("nodes", graphs[0].features.shape[1], graphs[0].class_names)
        device = torch.device("cpu")
        self.tasks = [client_task(graph, facts.class_names, device) for graph in graphs]
        self.models = [build_model(model_spec(config, facts), config.seed) for _ in graphs]
        for model, start in zip(self.models, (curvatures - curvatures.mean()) / curvatures.std(), strict=True):
            with torch.no_grad():
                model.get_parameter("k").fill_(float(start))
        self.optimizers = [make_optimizer(dict(model.named_parameters()), config) for model in self.models]
        method = METHODS[config.method]
        self.shared = [name for name, _ in self.models[0].named_parameters() if not method.is_personal(name)]
        self.arrays = {name: self.models[0].get_parameter(name).detach().clone() for name in self.shared}

    def run(self) -> list[dict[str, Any]]:
        """All rounds; the scores of the last."""
        weights = np.array([task.num_examples for task in self.tasks])
        weights = weights / weights.sum()
        scores: list[dict[str, Any]] = []
        for number in range(1, self.config.num_rounds + 1):
            scores = []
            mean = {name: np.zeros(tuple(value.shape)) for name, value in self.arrays.items()}
            for client, (model, task, optimizer) in enumerate(
                zip(self.models, self.tasks, self.optimizers, strict=True)
            ):
                with torch.no_grad():
                    for name, value in self.arrays.items():
                        model.get_parameter(name).copy_(value)
                steps = self.config.local_epochs * task.num_steps
                shared = [model.get_parameter(name) for name in self.shared]
                pulls = [Proximal(shared, self.config.proximal)] if self.config.proximal and steps > 1 else []
                task.scores(model)
                seed = np.random.SeedSequence([self.config.seed, client, number])
                seed_dropout(int(seed.generate_state(1, np.uint64)[0]) >> 1, torch.device("cpu"))
                train(model, task, optimizer, self.config.local_epochs, pulls)
                scores.append(task.scores(model))
                for name in self.shared:
                    mean[name] += model.get_parameter(name).detach().numpy() * weights[client]
            self.arrays = {name: torch.from_numpy(value.astype(np.float32)) for name, value in mean.items()}
        return scores

"""Methods of images in one plain loop: the limit for whatever wraps the same training."""

import copy
from typing import Any

import numpy as np
import torch

from curvfed.client_app.data import load_data, make_task
from curvfed.strategies.base.aggregation import Update
from curvfed.strategies.base.model_state import named_state
from curvfed.strategies.base.training import make_optimizer, seed_dropout, train
from curvfed.strategies.config.defaults import settled
from curvfed.strategies.config.halves import aggregation
from curvfed.strategies.config.image_data import image_spec
from curvfed.strategies.config.model_spec import build_model, fixed_head, has_fixed_head, is_fixed, model_spec
from curvfed.strategies.config.run_config import RunConfig, home
from curvfed.strategies.methods import METHODS
from curvfed.strategies.wire.messages import Facts
from curvfed.tasks.images.client_images import ClientImages
from curvfed.tasks.images.client_task import evaluate
from curvfed.tasks.images.data import load_test


class PlainImages:
    """Clients as a list, models in memory, no message and no file; set up outside the clock.

    Only for methods that share all that is trained and keep nothing at the clients: fedavg, hyperfed and their like.

    Parameters
    ----------
    config : RunConfig
    num_clients : int
    """

    def __init__(self, config: RunConfig, num_clients: int) -> None:
        torch.set_num_threads(config.threads)
        self.config = config = settled(config, "images")
        data = [load_data(config, number, {"num-partitions": num_clients}) for number in range(num_clients)]
        first = data[0]
        assert isinstance(first, ClientImages)
        names = tuple(dict.fromkeys(name for one in data for name in one.class_names))
        self.facts = Facts("images", first.num_features, names, shape=first.shape)
        self.device = torch.device("cpu")
        spec = model_spec(config, self.facts)
        start = build_model(spec, config.seed)
        if has_fixed_head(config):
            with torch.no_grad():
                for name, array in fixed_head(spec, config.seed).items():
                    start.state_dict()[name].copy_(torch.from_numpy(array))
        self.models = [copy.deepcopy(start) for _ in data]
        self.server_model = copy.deepcopy(start)
        self.tasks = [make_task(one, config, names, self.device, start) for one in data]
        self.optimizers = [
            make_optimizer({name: p for name, p in model.named_parameters() if p.requires_grad}, config)
            for model in self.models
        ]
        self.shared = [
            name
            for name in named_state(start)
            if not METHODS[config.method].is_personal(name) and not is_fixed(config, name)
        ]
        self.aggregation = aggregation(config, self.facts, num_clients)
        self.test = load_test(image_spec(config), home() / "cache")

    def run(self) -> list[dict[str, Any]]:
        """All rounds, each scored as a run scores it; the scores of the last."""
        scores: list[dict[str, Any]] = []
        for number in range(1, self.config.num_rounds + 1):
            scores = []
            updates = {}
            for client, (model, task, optimizer) in enumerate(
                zip(self.models, self.tasks, self.optimizers, strict=True)
            ):
                self._load(model)
                optimizer.reset()
                task.scores(model)
                seed = np.random.SeedSequence([self.config.seed, client, number])
                seed_dropout(int(seed.generate_state(1, np.uint64)[0]) >> 1, self.device)
                train(model, task, optimizer, self.config.local_epochs)
                scores.append(task.scores(model))
                state = named_state(model)
                updates[client] = Update(task.num_examples, {n: state[n].detach().numpy() for n in self.shared})
            self.aggregation.aggregate(updates)
            every, is_last = self.config.global_every, number == self.config.num_rounds
            if is_last or (every and number % every == 0):
                self._load(self.server_model)
                evaluate(self.server_model, self.test, self.facts.class_names, self.device)  # type: ignore[arg-type]
        return scores

    def _load(self, model: torch.nn.Module) -> None:
        state = named_state(model)
        with torch.no_grad():
            for name, array in self.aggregation.global_model().items():
                state[name].copy_(torch.from_numpy(np.asarray(array)))

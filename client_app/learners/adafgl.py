"""AdaFGL's local work (Li et al., ICDE 2024): FedAvg, then a network of the client's own over the shared one."""

import copy
from typing import cast

import torch
from torch import Tensor, nn

from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.learner import Learner, Local, fresh_optimizer
from curvfed.strategies.base.training import train
from curvfed.tasks.graphs.adaptive import AdaptiveNet, AdaptiveSpec, homophily_confidence
from curvfed.tasks.task import Batch

MOST_NODES = 6_000
"""Of a client's graph: training holds about ten matrices of its nodes by its nodes, of float32 then 1.4 GB."""


class AdaFGL(Learner):
    """Rounds as in FedAvg, whose model is the federated knowledge extractor; then `fine-tune-epochs` passes of stage 2.

    Stage 2 is `curvfed.tasks.graphs.adaptive`. It starts anew at every fine-tuning, from the same weights at every
    client, and goes on with the run's optimiser and dropout, at its learning rate. The network is that of the last
    pass, where the authors take the best by validation.

    Parameters
    ----------
    local : Local

    Raises
    ------
    ConfigError
        If the client's graph is too large for stage 2.
    """

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self._tuned: AdaptiveNet | None = None
        nodes = self._batch().inputs.num_nodes
        if local.config.fine_tunes and nodes > MOST_NODES:
            raise ConfigError(
                f'method = "adafgl" with fine-tune-epochs = {local.config.fine_tune_epochs}: allowed are clients of up to '
                f"{MOST_NODES} nodes, for matrices of nodes by nodes are kept; this one has {nodes}"
            )

    def fine_tune(self) -> float | None:
        """The client's own network over the parameters received."""
        local, config, batch = self.local, self.local.config, self._batch()
        inputs, rows = batch.inputs, cast(Tensor, batch.rows)
        with torch.inference_mode():
            num_classes = local.model.eval()(inputs).shape[1]
        spec = AdaptiveSpec(
            num_features=inputs.features.matrix.shape[1],
            num_classes=num_classes,
            width=config.adafgl.width,
            dropout=config.dropout,
            steps=config.adafgl.steps,
            alpha=config.adafgl.alpha,
            beta=config.adafgl.beta,
        )
        confidence = homophily_confidence(inputs, rows, batch.labels, num_classes)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            network = AdaptiveNet(copy.deepcopy(local.model), spec, confidence)
        matrix = inputs.features.matrix
        self._tuned = network.to(matrix.device, matrix.dtype)
        optimizer = fresh_optimizer(self._tuned, config)
        return train(
            self._tuned, local.task, optimizer, config.fine_tune_epochs, clip_norm=config.clip_norm, loss=_loss
        )

    @property
    def tuned(self) -> nn.Module:
        """That network; of a client without examples the shared one."""
        return self._tuned or self.local.model

    def _batch(self) -> Batch:
        """All of the client's nodes: the only batch of a pass."""
        return next(iter(self.local.task.batches(self.local.model)))


def _loss(network: nn.Module, batch: Batch) -> Tensor:
    return cast(AdaptiveNet, network).loss(batch.inputs, batch.labels, cast(Tensor, batch.rows))


LEARNER = AdaFGL

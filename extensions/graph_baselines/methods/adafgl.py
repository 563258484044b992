"""AdaFGL (Li et al., ICDE 2024): FedAvg, then a personal network at each client on top of the
shared one."""

import copy
from collections.abc import Iterator
from typing import Any, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from curvfed.extensions.graph_baselines.adaptive import (
    UNKNOWN,
    AdaptiveNet,
    AdaptiveSpec,
    homophily_confidence,
)
from curvfed.strategies.base.keys import Table
from curvfed.strategies.base.learner import Learner, Local, Tuned, fresh_optimizer
from curvfed.strategies.base.method import Method
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.base.training import train
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.draws import seeded
from curvfed.tasks.task import Batch


class Keys(Table):
    """Keys of AdaFGL."""

    alpha: float = Field(default=0.5, ge=0, le=1)
    """alpha, the edges' weight in the matrix that propagates features; pairs of nodes with similar
    predictions of the shared model have the rest. 1: only edges. The authors' first code has .05"""
    beta: float = Field(default=0.0, ge=0, le=1)
    """beta, the weight of these pairs in the signed weights of heterophilous message passing; pairs
    that the client's own network finds similar have the rest. The authors' first code has .2"""
    steps: int = Field(default=3, ge=1, le=100)
    """k, number of propagation steps before features are read"""
    width: int = Field(default=64, ge=1, le=100_000)
    """hidden width of the client's own network"""

    def conflicts(self, config: RunKeys) -> Iterator[tuple[str, str]]:
        """It trains a network of its own on the whole graph."""
        if config.fine_tune in ("all", "head"):
            yield "fine-tune method", "fine-tune = auto or trained, for the client's own network"
        if config.batch_size:
            yield "batch-size method", "batch-size = auto or 0, for it uses whole graphs"


MAX_NODES = 6_000
"""Largest graph of a client: training holds about ten matrices of nodes by nodes, 1.4 GB in
float32."""


class AdaFglClient(Learner):
    """Rounds as in FedAvg, with the federated knowledge extractor as model; then `fine-tune-epochs`
    passes of stage 2.

    Stage 2 is `curvfed.extensions.graph_baselines.adaptive`. Every fine-tuning starts from the same
    initial weights at all clients, and uses the run's optimiser, learning rate and dropout. The
    result is the network after the last pass; the authors take the best one by validation.

    Raises
    ------
    ConfigError
        If the client's graph is too large for stage 2.
    """

    keys: Keys

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        nodes = self._batch().inputs.num_nodes
        if local.config.fine_tunes and nodes > MAX_NODES:
            raise ConfigError(
                f'method = "adafgl" with fine-tune-epochs = {local.config.fine_tune_epochs}:'
                f" allowed are clients of up to {MAX_NODES} nodes, because matrices of nodes by"
                f" nodes are stored; this client has {nodes}",
                key="too-many-nodes",
            )

    def fine_tune(self) -> Tuned:
        """Train the personal network on top of the received parameters."""
        local = self.local
        config = self.local.config
        batch = self._batch()
        inputs = batch.inputs
        rows = cast(Tensor, batch.rows)
        with torch.inference_mode():
            num_classes = local.model.eval()(inputs).shape[1]
        spec = _adaptive_spec(
            self.keys, config.dropout, inputs.features.matrix.shape[1], num_classes
        )
        confidence = homophily_confidence(inputs, rows, batch.labels, num_classes)
        with seeded(config.seed):  # a GPU's draws of this client go on
            network = AdaptiveNet(copy.deepcopy(local.model), spec, confidence)
        network.to(inputs.features.matrix.device, inputs.features.matrix.dtype)

        def loss(_: nn.Module, batch: Batch) -> Tensor:
            return network.loss(batch.inputs, batch.labels, rows)

        optimizer = fresh_optimizer(network, config)
        optimizer.learning_rate = config.fine_tuning_rate
        last_loss = train(
            network,
            local.task,
            optimizer,
            config.fine_tune_epochs,
            clip_norm=config.clip_norm,
            loss=loss,
        )
        return Tuned(network, last_loss)

    @staticmethod
    def tuned_network(model: nn.Module, state: Arrays, config: Any) -> nn.Module:
        """The personal network; for a client without examples the shared model."""
        if "confidence" not in state:
            return model
        num_features = state["plain.layers.0.weight"].shape[1]
        num_classes = len(state["plain.layers.2.bias"])
        spec = _adaptive_spec(config.own_keys, config.dropout, num_features, num_classes)
        return AdaptiveNet(model, spec, UNKNOWN)

    def _batch(self) -> Batch:
        """The only batch of a pass: all of the client's nodes."""
        return next(iter(self.local.task.batches(self.local.model)))


def _adaptive_spec(keys: Keys, dropout: float, num_features: int, num_classes: int) -> AdaptiveSpec:
    return AdaptiveSpec(
        num_features=num_features,
        num_classes=num_classes,
        width=keys.width,
        dropout=dropout,
        steps=keys.steps,
        alpha=keys.alpha,
        beta=keys.beta,
    )


METHODS = {
    "adafgl": Method(
        "fedavg, then each client's own network over the shared model's predictions (Li et al.,"
        " 2024)",
        space="flat",
        tasks=("nodes",),
        settings={"nodes": {"fine_tune_epochs": 100}},
        keys={"adafgl": Keys},
        tuned={"nodes": {"adafgl.alpha": (0.3, 0.8)}},
        client=AdaFglClient,
    ),
}

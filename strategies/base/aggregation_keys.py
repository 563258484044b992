"""The tables of keys of Flower's strategies and of the robust aggregations, and their names."""

from typing import Literal

from pydantic import Field

from curvfed.strategies.base.keys import Rate, Table

RobustName = Literal["median", "trimmed-mean", "krum", "geometric-median", "near-mean", "robust"]

FlowerName = Literal[
    "flower:FedAdagrad",
    "flower:FedAdam",
    "flower:FedAvgM",
    "flower:FedYogi",
    "flower:FedMedian",
    "flower:FedTrimmedAvg",
    "flower:Krum",
    "flower:MultiKrum",
    "flower:Bulyan",
    "flower:QFedAvg",
]

FLOWER: dict[str, tuple[str, ...]] = {
    "flower:FedAdagrad": ("eta", "tau"),
    "flower:FedAdam": ("eta", "beta_1", "beta_2", "tau"),
    "flower:FedAvgM": ("server_learning_rate", "server_momentum"),
    "flower:FedYogi": ("eta", "beta_1", "beta_2", "tau"),
    "flower:FedMedian": (),
    "flower:FedTrimmedAvg": ("beta",),
    "flower:Krum": ("num_malicious_nodes",),
    "flower:MultiKrum": ("num_malicious_nodes", "num_nodes_to_select"),
    "flower:Bulyan": ("num_malicious_nodes",),
    "flower:QFedAvg": ("client_learning_rate", "q"),
}
"""Arguments of each strategy's class that are keys here, by the strategy's name."""

NEED_ONLY_MEAN = ("flower:FedAdagrad", "flower:FedAdam", "flower:FedAvgM", "flower:FedYogi")
"""The strategies that use only the mean of the clients' parameters."""


class Flower(Table):
    """Keys of Flower's strategies, named after their arguments; auto is Flower's default."""

    eta: Rate | None = Field(default=None, gt=0)
    """the server's learning rate, for FedAdagrad, FedAdam and FedYogi; auto: Flower's default"""
    beta_1: Rate | None = Field(default=None, ge=0, lt=1)
    """decay of the first moment, for FedAdam and FedYogi"""
    beta_2: Rate | None = Field(default=None, ge=0, lt=1)
    """decay of the second moment, for FedAdam and FedYogi"""
    tau: Rate | None = Field(default=None, gt=0)
    """added to the root of the second moment, for FedAdagrad, FedAdam and FedYogi"""
    server_learning_rate: Rate | None = Field(default=None, gt=0)
    """the server's learning rate, for FedAvgM; 1 moves the model to the average"""
    server_momentum: Rate | None = Field(default=None, ge=0, lt=1)
    """the server's momentum, for FedAvgM"""
    beta: Rate | None = Field(default=None, ge=0, lt=0.5)
    """share of the clients left out at either end, for FedTrimmedAvg"""
    num_malicious_nodes: int | None = Field(default=None, ge=0, le=1_000_000)
    """number of clients that may lie, for Krum, MultiKrum and Bulyan; Bulyan needs 4 times this
    number of replies plus 3"""
    num_nodes_to_select: int | None = Field(default=None, ge=1, le=1_000_000)
    """number of clients whose models are averaged, for MultiKrum"""
    client_learning_rate: Rate | None = Field(default=None, gt=0)
    """1 / L, the clients' learning rate, for QFedAvg; auto: the learning-rate"""
    q: Rate | None = Field(default=None, ge=0)
    """how much more a client with a large loss weighs, for QFedAvg; 0: no more"""


class Robust(Table):
    """Keys of the robust aggregations."""

    share: Rate = Field(default=0.25, ge=0, lt=0.5)
    """share of the clients that may send false updates: trimmed-mean leaves out this share of the
    weight at either end of each parameter, krum this share of the clients; median, geometric-median
    and near-mean stand up to half of the weight"""

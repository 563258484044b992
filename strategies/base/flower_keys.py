"""Flower's strategies that a run can use as its aggregation: their names, and their arguments as keys."""

from typing import Literal

from pydantic import Field

from curvfed.strategies.base.keys import Rate, Table

FlowerName = Literal[
    "flower:FedAdagrad", "flower:FedAdam", "flower:FedAvgM", "flower:FedYogi", "flower:FedMedian", "flower:FedTrimmedAvg",
    "flower:Krum", "flower:MultiKrum", "flower:Bulyan", "flower:QFedAvg",
]  # fmt: skip

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

    eta: Rate | None = Field(
        default=None,
        gt=0,
        description="the server's learning rate, of FedAdagrad, FedAdam and FedYogi; auto: Flower's own",
    )
    beta_1: Rate | None = Field(
        default=None, ge=0, lt=1, description="of FedAdam and FedYogi: decay of the first moment"
    )
    beta_2: Rate | None = Field(
        default=None, ge=0, lt=1, description="of FedAdam and FedYogi: decay of the second moment"
    )
    tau: Rate | None = Field(
        default=None, gt=0, description="of FedAdagrad, FedAdam and FedYogi: added to the root of the second moment"
    )
    server_learning_rate: Rate | None = Field(
        default=None, gt=0, description="of FedAvgM; 1 goes all the way to the average"
    )
    server_momentum: Rate | None = Field(default=None, ge=0, lt=1, description="of FedAvgM")
    beta: Rate | None = Field(
        default=None,
        ge=0,
        lt=0.5,
        description="of FedTrimmedAvg: the share of the clients left out at either end",
    )
    num_malicious_nodes: int | None = Field(
        default=None,
        ge=0,
        le=1_000_000,
        description="of Krum, MultiKrum and Bulyan: how many clients may lie. Bulyan needs 4 times as many replies and 3",
    )
    num_nodes_to_select: int | None = Field(
        default=None, ge=1, le=1_000_000, description="of MultiKrum: how many clients' models are averaged"
    )
    client_learning_rate: Rate | None = Field(
        default=None, gt=0, description="of QFedAvg: 1 / L, the clients' learning rate; auto: this run's learning-rate"
    )
    q: Rate | None = Field(
        default=None, ge=0, description="of QFedAvg: how much more a client of large loss weighs; 0: no more"
    )

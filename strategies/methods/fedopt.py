"""FedOpt (Reddi et al., ICLR 2021): the server's optimiser applies the mean update: FedAvgM,
FedAdam or FedYogi."""

from typing import Any, Literal

from pydantic import Field

from curvfed.strategies.base.flower_strategy import FlowerStrategy
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.method import IMAGES, Method


class Keys(Table):
    """Keys of FedOpt."""

    optimizer: Literal["avgm", "adam", "yogi"] = "avgm"
    """the server's optimiser: Flower's FedAvgM, …"""
    learning_rate: Rate = Field(default=1.0, gt=0)
    """the server's learning rate"""
    beta1: Rate = Field(default=0.3, ge=0, lt=1)
    """the server's momentum, beta_1 of Adam and Yogi"""
    beta2: Rate = Field(default=0.99, ge=0, lt=1)
    """beta_2 of Adam and Yogi"""
    tau: Rate = Field(default=1e-3, gt=0)
    """tau, which Adam and Yogi add to the root of the second moment"""


class FedOpt(FlowerStrategy):
    """Flower's strategy for the chosen optimiser."""

    summed_clients = "any"
    keys: Keys

    def choice(self) -> tuple[str, dict[str, Any]]:
        """FedAvgM, FedAdam or FedYogi, by the method's own keys."""
        keys = self.keys
        if keys.optimizer == "avgm":
            momentum = {"server_learning_rate": keys.learning_rate, "server_momentum": keys.beta1}
            return "flower:FedAvgM", momentum
        moments = {
            "eta": keys.learning_rate,
            "beta_1": keys.beta1,
            "beta_2": keys.beta2,
            "tau": keys.tau,
        }
        return "flower:FedAdam" if keys.optimizer == "adam" else "flower:FedYogi", moments


METHODS = {
    "fedopt": Method(
        "fedavg with a server optimiser: FedAvgM, FedAdam or FedYogi (Reddi et al., 2021)",
        space="flat",
        tasks=IMAGES,
        keys={"fedopt": Keys},
        tuned={"images": {"fedopt.learning-rate": (0.3, 1.5)}},
        server=FedOpt,
    ),
}

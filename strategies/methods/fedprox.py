"""FedProx (Li et al., MLSys 2020): FedAvg with a proximal term."""

from pydantic import Field

from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.method import GRAPHS, IMAGES, POINTS, Method


class Keys(Table):
    """Keys of FedProx."""

    mu: Rate = Field(default=0.01, ge=0)
    """mu of the term mu/2 ||w - w_t||^2; no effect with a single local step"""

    def proximal_terms(self) -> dict[str, float]:
        """FedProx's term."""
        return {"mu": self.mu / 2}


METHODS = {
    "fedprox": Method(
        "fedavg with a proximal term (Li et al., 2020)",
        space="flat",
        tasks=(*GRAPHS, *IMAGES, *POINTS),
        keys={"fedprox": Keys},
        tuned={task: {"fedprox.mu": (0.001, 0.1, 1.0)} for task in ("graphs", *IMAGES)},
    ),
}

"""FedProx (Li et al., MLSys 2020): FedAvg with a proximal term."""

from pydantic import Field

from curvfed.strategies.base.keys import Proximity, Table
from curvfed.strategies.base.learner import Learner
from curvfed.strategies.base.method import GRAPHS, IMAGES, POINTS, Method
from curvfed.strategies.base.training import GradientTerm


class Keys(Table):
    """Keys of FedProx."""

    mu: Proximity = Field(
        default=0.01,
        ge=0,
        description="mu of the term mu/2 ||w - w_t||^2; no effect with a single local step",
    )


class FedProx(Learner):
    """FedAvg's local work with a proximal term."""

    keys: Keys

    def gradient_terms(self) -> list[GradientTerm]:
        """The gradient of mu/2 ||w - w_t||^2."""
        return [*super().gradient_terms(), *self.proximal_terms(self.keys.mu / 2)]


METHODS = {
    "fedprox": Method(
        "fedavg with a proximal term (Li et al., 2020)",
        space="flat",
        client=FedProx,
        tasks=(*GRAPHS, *IMAGES, *POINTS),
        keys={"fedprox": Keys},
        tuned={task: {"fedprox.mu": (0.001, 0.1, 1.0)} for task in ("graphs", *IMAGES)},
    ),
}

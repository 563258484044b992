"""SphereFed (Dong et al., ECCV 2022): features on the sphere, a fixed orthonormal classifier, one calibration."""

from typing import Literal

import numpy as np
from pydantic import Field

from curvfed.strategies.base.calibration import Sums, solve
from curvfed.strategies.base.classifier_inputs import classifier_inputs
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.learner import Learner, copy_in
from curvfed.strategies.base.method import HEAD, IMAGES, Method


class Keys(Table):
    """Keys of SphereFed."""

    head: Literal["orthonormal", "uniform", "random", "trained"] = Field(
        default="orthonormal",
        description="the classifier: fixed with orthonormal rows (uniformly spread ones where there are more classes than "
        "dimensions), fixed and uniformly spread, fixed at random, or trained and averaged with the rest",
    )
    normalize: bool = Field(default=True, description="bring features to unit length")
    loss: Literal["mse", "cross-entropy"] = Field(
        default="mse", description="squared error to the one-hot label, or cross-entropy at the temperature"
    )
    temperature: Rate = Field(
        default=10.0, gt=0, description="tau, which multiplies the cosines under cross-entropy; of no account under mse"
    )
    mu: Rate = Field(default=0.0, ge=0, description="mu of FedProx's term, to have FedProx as the base algorithm")
    ridge: Rate = Field(
        default=0.0,
        ge=0,
        description="lambda times the number of examples that the calibration adds to the diagonal; 0: the pseudo-inverse",
    )


class SphereFedClient(Learner):
    """FedAvg's local work; fine-tuning can be the closed form of the calibration, on the client's own images."""

    keys: Keys

    def fine_tune(self) -> float | None:
        """As `Learner.fine_tune`, or by Eq. 7 from the client's sums."""
        if self.local.config.fine_tune != "closed-form":
            return super().fine_tune()
        local = self.local
        features, labels = classifier_inputs(local.model, local.task)
        classes, dim = local.model.get_parameter(f"{HEAD}weight").shape
        total = Sums.zeros(dim, classes)
        total.add(features, labels)
        found = solve(total.gram, total.targets, self.keys.ridge * local.task.num_examples)
        copy_in({f"{HEAD}weight": found.astype(np.float32)}, local.tensors)
        return None


METHODS = {
    "spherefed": Method(
        "features on the unit sphere, fixed orthonormal classifier, squared error, then one closed-form calibration",
        space="flat",
        head="sphere",
        head_from="server",
        loss="mse",
        proximal="spherefed.mu",
        after=("calibrate",),
        tasks=IMAGES,
        keys={"spherefed": Keys},
        client=SphereFedClient,
    ),
}

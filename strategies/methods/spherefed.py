"""SphereFed (Dong et al., ECCV 2022): features on the sphere, a fixed orthonormal classifier, and a
final calibration."""

from typing import Literal

import numpy as np
from pydantic import Field

from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.learner import Learner, Tuned
from curvfed.strategies.base.least_squares import ClosedForm, Sums, solve
from curvfed.strategies.base.method import IMAGES, Method, Network
from curvfed.strategies.base.statistics import HEAD
from curvfed.strategies.base.tensors import load_arrays


class Keys(Table):
    """Keys of SphereFed."""

    head: Literal["orthonormal", "uniform", "random", "trained"] = "orthonormal"
    """the classifier: fixed with orthonormal rows (uniformly spread rows if there are more classes
    than dimensions), fixed and uniformly spread, fixed at random, or trained and averaged with the
    rest"""
    normalize: bool = True
    """scale features to unit length"""
    loss: Literal["mse", "cross-entropy"] = "mse"
    """squared error to the one-hot label, or cross-entropy at the temperature"""
    temperature: Rate = Field(default=10.0, gt=0)
    """tau, which multiplies the cosines under cross-entropy; ignored under mse"""
    mu: Rate = Field(default=0.0, ge=0)
    """mu of FedProx's term, to use FedProx as the base algorithm"""
    ridge: Rate = Field(default=0.0, ge=0)
    """lambda times the number of examples, which the calibration adds to the diagonal; 0: the
    pseudo-inverse"""

    def proximal_terms(self) -> dict[str, float]:
        """FedProx's term."""
        return {"mu": self.mu / 2}


class SphereFedClient(Learner):
    """FedAvg's or FedProx's local work; fine-tuning can solve the calibration's least squares on
    the client's own images."""

    keys: Keys
    hides_records = True
    closed_form = True

    def fine_tune(self) -> Tuned:
        """Fine-tune as `Learner`, or in closed form (Eq. 7) from the client's sums."""
        if self.local.config.fine_tune != "closed-form":
            return super().fine_tune()
        local = self.local
        total, _ = ClosedForm.collect(local.model, local.task)
        classes, dim = local.tensors[f"{HEAD}weight"].shape
        sums = Sums.unpack(total, dim, classes)
        classifier = solve(sums.gram, sums.targets, self.keys.ridge * local.task.num_examples)
        load_arrays({f"{HEAD}weight": classifier.astype(np.float32)}, local.tensors)
        return Tuned(local.model)


def network(keys: Keys) -> Network:
    """The classifier on the sphere that the keys choose."""
    uses_temperature = keys.loss == "cross-entropy"
    return Network(
        head="sphere",
        head_from="training" if keys.head == "trained" else "server",
        loss=keys.loss,
        options={
            "start": "default" if keys.head in ("random", "trained") else keys.head,
            "normalize": keys.normalize,
            "scale": keys.temperature if uses_temperature else 1.0,
        },
        calibration=ClosedForm,
    )


METHODS = {
    "spherefed": Method(
        "features on the unit sphere, fixed orthonormal classifier, squared error, then one"
        " closed-form calibration",
        space="flat",
        network=network,
        tasks=IMAGES,
        keys={"spherefed": Keys},
        client=SphereFedClient,
        # A sphere of growing radius is not a plane for its loss.
        control={"method": "fedavg", "calibration": "ffc"},
    ),
}

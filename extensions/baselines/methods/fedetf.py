"""FedETF (Li et al., ICCV 2023): a fixed simplex as classifier, and a loss for balanced classes."""

from collections.abc import Mapping

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from curvfed.extensions.baselines.methods.fedrod import log_class_counts
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.learner import Learner, Local, Tuned
from curvfed.strategies.base.method import IMAGES, Method, Network
from curvfed.strategies.base.statistics import HEAD
from curvfed.strategies.base.training import Loss, make_optimizer, train, training_only
from curvfed.tasks.task import Batch


class Keys(Table):
    """Keys of FedETF."""

    retired = (("learn-temperature", True),)

    temperature: Rate = Field(default=1.0, gt=0)
    """beta, which multiplies the cosines of features and prototypes, at the start; it is trained
    and averaged with the other parameters"""
    alternations: int = Field(default=1, ge=1, le=1_000)
    """times that fine-tuning trains first a client's prototypes and then its projection,
    fine-tune-epochs each; the authors' code has 20 of 3 epochs"""


PROJECTION = "body.1."
"""Prefix of the names of the linear layer between the network and the classifier."""


class FedEtfClient(Learner):
    """FedAvg's local work on the cross-entropy of β cos(g(z), w_c) + log n_kc over the classes c:
    Section 4.2.

    The prototypes w_c are the corners of a regular simplex, with cosines of −1/(C − 1): the
    equiangular tight frame, turned at random. It needs a width of C − 1 or more; the paper lacks
    smaller ones, and here the w_c are then spread as far apart as possible. g is the linear layer
    of width `embedding-dim`, n_kc the client's number of training examples of class c, or 1 without
    any, as in the authors' code.

    Fine-tuning (Section 4.3) first trains as in a round, at the rate of fine-tuning. Then it trains
    the client's copy of the prototypes and g in turn, by the cross-entropy of β cos(g(z), w_c); the
    rest is fixed. The authors' code has rates of its own for the two.
    """

    keys: Keys
    hides_records = False

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self._log_counts = log_class_counts(local).clamp(min=0)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The cross-entropy as if all classes were equally frequent at the client."""
        return F.cross_entropy(model(batch.inputs) + self._log_counts, batch.labels)

    def fine_tune(self) -> Tuned:
        """The model, with the loss of the last pass over the projection, or without one over the
        prototypes."""
        config = self.local.config
        parameters = dict(self.local.model.named_parameters())
        projection = [name for name in parameters if name.startswith(PROJECTION)]
        loss = self._tune(self.local.trained, config.local_epochs, self.loss)
        for _ in range(self.keys.alternations):
            for names in filter(None, ([f"{HEAD}weight"], projection)):
                with training_only(parameters, names):
                    chosen = {name: parameters[name] for name in names}
                    loss = self._tune(chosen, config.fine_tune_epochs)
        return Tuned(self.local.model, loss)

    def _tune(
        self, parameters: Mapping[str, nn.Parameter], epochs: int, loss: Loss | None = None
    ) -> float:
        config = self.local.config
        optimizer = make_optimizer(parameters, config)
        optimizer.learning_rate = config.fine_tuning_rate
        return train(
            self.local.model,
            self.local.task,
            optimizer,
            epochs,
            clip_norm=config.clip_norm,
            loss=loss,
        )


def network(keys: Keys) -> Network:
    """Cosines to the corners of a simplex, times the temperature."""
    options = {
        "start": "uniform",
        "scale": keys.temperature,
        "learns_scale": True,
    }
    return Network(head="sphere", head_from="server", options=options)


METHODS = {
    "fedetf": Method(
        "fixed simplex as classifier, cosines, loss as for balanced classes (Li et al., 2023)",
        space="flat",
        network=network,
        tasks=IMAGES,
        keys={"fedetf": Keys},
        tuned={"images": {"fedetf.temperature": (5.0, 20.0)}},
        client=FedEtfClient,
    ),
}

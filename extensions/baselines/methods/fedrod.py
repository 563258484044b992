"""Fed-RoD (Chen & Chao, ICLR 2022): a shared classifier trained for balanced classes, plus a
personal classifier."""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.extensions.baselines.own_model import kept_moments
from curvfed.strategies.base.learner import Learner, Local, fresh_optimizer
from curvfed.strategies.base.method import IMAGES, Method, Network
from curvfed.strategies.base.statistics import Arrays, select_prefix
from curvfed.strategies.base.tensors import load_arrays
from curvfed.strategies.base.training import GradientTerm, Trained
from curvfed.tasks.task import Batch

OWN_HEAD = "own-head/"
"""Prefix of the names of the personal classifier's parameters in the local state."""


class FedRodClient(Learner):
    """Body and generic head g learn by the balanced softmax, the personal head h_k by the usual
    one: Algorithm 1.

    The shared parameters are trained on the cross-entropy of g(z) + log n_k, where n_k are the
    client's numbers of training examples by class (Eq. 5 with Ren et al., 2020, γ = 1). This makes
    g predict as if all classes were equally frequent at every client. A class without examples has
    n = 0 and drops out of the softmax, so its row of the generic head does not change. h_k is
    trained on the cross-entropy of g(z) + h_k(z), without a gradient in g and z (Eq. 6, the linear
    form). Each part has its own optimiser, and both use the logits of the same batch.

    h_k starts at 0, where the personal model equals the generic one; the paper leaves the start
    open, and its code is not public. The client's scores are those of g + h_k; h_k and n_k are
    never sent.
    """

    own_model = True

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self._own = _own_head(local.model)
        with torch.no_grad():
            for parameter in self._own.parameters():
                parameter.zero_()
        self._optimizer = fresh_optimizer(self._own, local.config)
        self._log_counts = log_class_counts(local)
        self._both = with_head(local.model, BothHeads(local.model, self._own))

    def local_state(self) -> dict[str, Tensor]:
        """h_k, and its optimiser's moments if the run keeps moments."""
        head = {f"{OWN_HEAD}{name}": parameter for name, parameter in self._own.named_parameters()}
        return head | kept_moments(self._optimizer, self.local.config)

    def train(self) -> Trained:
        """The round's steps of both parts; the loss is the sum of their losses."""
        if self.local.config.optimizer_state != "kept":
            self._optimizer.reset()
        self._optimizer.learning_rate = self.local.optimizer.learning_rate
        return super().train()

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The sum of both cross-entropies; no parameter has a gradient from both."""
        features = model.features(batch.inputs)  # type: ignore[operator]
        generic = model.head(features)  # type: ignore[operator]
        personal = generic.detach() + self._own(features.detach())
        shared_loss = F.cross_entropy(generic + self._log_counts, batch.labels)
        return shared_loss + F.cross_entropy(personal, batch.labels)

    def gradient_terms(self) -> list[GradientTerm]:
        """The terms of the shared parameters, and the step of the personal head, which changes no
        other gradient."""
        return [*super().gradient_terms(), self._step]

    def _step(self) -> None:
        if clip_norm := self.local.config.clip_norm:
            nn.utils.clip_grad_norm_(self._own.parameters(), clip_norm)
        self._optimizer.step()
        self._optimizer.zero_grad()

    @property
    def scored(self) -> nn.Module:
        """The model with logits g + h_k."""
        return self._both

    @staticmethod
    def restored(model: nn.Module, state: Arrays) -> nn.Module:
        """The scored model, with the stored personal head."""
        head = _own_head(model)
        load_arrays(select_prefix(state, OWN_HEAD), dict(head.named_parameters()))
        return with_head(model, BothHeads(model, head))


def log_class_counts(local: Local) -> Tensor:
    """Logarithms of a client's numbers of training examples by class, (C,); −∞ for none."""
    weight = local.tensors["head.weight"]
    counts = torch.bincount(local.task.train_labels, minlength=len(weight))
    return counts.to(weight.dtype).log()


class BothHeads(nn.Module):
    """The sum of the logits of a model's classifier, not a copy, and of another's."""

    def __init__(self, model: nn.Module, personal: nn.Module) -> None:
        super().__init__()
        self.generic: nn.Module = model.head  # type: ignore[assignment]
        self.own = personal

    def forward(self, features: Tensor) -> Tensor:
        """(n, d) -> (n, C)."""
        return self.generic(features) + self.own(features)


def with_head(model: nn.Module, head: nn.Module) -> nn.Module:
    """A model with the same modules, not copies, except for its head."""
    combined = copy.deepcopy(model, {id(child): child for child in model.children()})
    combined.head = head
    return combined


def _own_head(model: nn.Module) -> nn.Module:
    """A classifier of the same kind, a copy of the model's."""
    return copy.deepcopy(model.head)  # type: ignore[return-value]


METHODS = {
    "fedrod": Method(
        "shared classifier as for balanced classes, plus a personal classifier (Chen & Chao, 2022)",
        space="flat",
        tasks=IMAGES,
        settings={"images": {"fine_tune_epochs": 0}},
        network=Network(separates_head=True),
        client=FedRodClient,
    ),
}

"""Fed-RoD (Chen & Chao, ICLR 2022): a classifier as for balanced classes, and one of each client's own on top."""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.strategies.base.average import Arrays
from curvfed.strategies.base.learner import Learner, Local, fresh_optimizer, load_arrays, select_prefix
from curvfed.strategies.base.method import (
    IMAGES,
    Method,
)
from curvfed.strategies.base.training import GradientTerm, Trained
from curvfed.tasks.task import Batch

OWN_HEAD = "own-head/"
"""What the names of its own classifier's parameters begin with."""


class FedRodClient(Learner):
    """Body and generic head on the balanced softmax, and beside them h_k, on the features as they are: Algorithm 1.

    The shared parameters are trained on the cross-entropy of g(z) + log n_k, n_k the numbers of the client's training
    examples by class (Eq. 5 with Ren et al., 2020, γ = 1): what g then says is as if all classes were as frequent, at every
    client. A class that the client has none of has n = 0 and takes no part in the sum of the softmax, so its row of the
    generic head rests. h_k lowers the cross-entropy of g(z) + h_k(z), of which neither g nor z has a gradient (Eq. 6, the
    linear form). Each has an optimiser of its own, and both step on the logits of the same batch.

    h_k begins at 0, where the client's own model is the generic one; the paper leaves it open, and its code is not public.
    Its optimiser starts afresh in every round. The client's scores are those of g + h_k; h_k and n_k never leave.

    Parameters
    ----------
    local : Local
    """

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self._own = _own_head(local.model)
        with torch.no_grad():
            for parameter in self._own.parameters():
                parameter.zero_()
        self._optimizer = fresh_optimizer(self._own, local.config)
        weight = local.tensors["head.weight"]
        counts = torch.bincount(local.task.train_labels, minlength=len(weight))
        self._log_counts = counts.to(weight.dtype).log()
        self._both = with_own_head(local.model, self._own)

    def local_state(self) -> dict[str, Tensor]:
        """h_k."""
        return {f"{OWN_HEAD}{name}": parameter for name, parameter in self._own.named_parameters()}

    def train(self) -> Trained:
        """The round's steps of both; the loss is the sum of theirs."""
        self._optimizer.reset()
        self._optimizer.learning_rate = self.local.optimizer.learning_rate
        return super().train()

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Both cross-entropies, whose gradients have no parameter in common."""
        features = model.features(batch.inputs)  # type: ignore[operator]
        generic = model.head(features)  # type: ignore[operator]
        own = generic.detach() + self._own(features.detach())
        return F.cross_entropy(generic + self._log_counts, batch.labels) + F.cross_entropy(own, batch.labels)

    def gradient_terms(self) -> list[GradientTerm]:
        """Those of the shared parameters, and with them the own head's step, which touches no other gradient."""
        return [*super().gradient_terms(), self._step]

    def _step(self) -> None:
        if clip_norm := self.local.config.clip_norm:
            nn.utils.clip_grad_norm_(self._own.parameters(), clip_norm)
        self._optimizer.step()
        self._optimizer.zero_grad()

    @property
    def scored(self) -> nn.Module:
        """The model whose logits are g + h_k."""
        return self._both

    @staticmethod
    def restored(model: nn.Module, kept: Arrays) -> nn.Module:
        """The same of the model with the shared parameters."""
        own = _own_head(model)
        load_arrays(select_prefix(kept, OWN_HEAD), dict(own.named_parameters()))
        return with_own_head(model, own)


class BothHeads(nn.Module):
    """The sum of two classifiers' logits.

    Parameters
    ----------
    generic, own : Module
    """

    def __init__(self, generic: nn.Module, own: nn.Module) -> None:
        super().__init__()
        self.generic, self.own = generic, own

    def forward(self, features: Tensor) -> Tensor:
        """(n, d) -> (n, C)."""
        logits: Tensor = self.generic(features) + self.own(features)
        return logits


def with_own_head(model: nn.Module, own: nn.Module) -> nn.Module:
    """A model of the same parts, not copies of them, whose head is the sum of its own and another."""
    found = copy.deepcopy(model, {id(child): child for child in model.children()})
    found.head = BothHeads(found.head, own)  # type: ignore[arg-type]
    return found


def _own_head(model: nn.Module) -> nn.Module:
    """A classifier of the same kind, to be filled."""
    found: nn.Module = copy.deepcopy(model.head)  # type: ignore[assignment]
    return found


METHODS = {
    "fedrod": Method(
        "classifier as for balanced classes, averaged, and on top of it one of each client's own (Chen & Chao, 2022)",
        space="flat",
        own_model=True,
        tasks=IMAGES,
        settings={"images": {"fine_tune_epochs": 0}},
        reads_classifier=True,
        client=FedRodClient,
    ),
}

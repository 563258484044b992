"""FedHPro (Wang et al., ICML 2026): prototypes that the server learns by matching gradients."""

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from curvfed.strategies.base.aggregation import Average, Replies, split_average
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.learner import Learner, Local
from curvfed.strategies.base.method import IMAGES, Method, Network
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.base.tensors import load_arrays
from curvfed.strategies.base.training import Trained
from curvfed.strategies.wire.checks import check_arrays
from curvfed.tasks.images.client_task import classifier_inputs
from curvfed.tasks.task import Batch

PROTOTYPES = "hyper-prototypes"
"""Name of the prototypes (C, l, d), l of each class, which the server sends with the model."""

SUMS = "sums/gradients"
COUNTS = "counts/gradients"
"""Names of a client's sums by class of the gradients (C, d), and of its numbers of examples (C,),
both divided by its number of examples."""


class Keys(Table):
    """Keys of FedHPro."""

    retired = (
        ("steps", 30),
        ("rate", 0.1),
        ("temperature", 0.05),
    )

    prototypes: int = Field(default=5, ge=1, le=1000)
    """prototypes of each class"""
    contrast: Rate = Field(default=1 / 64, ge=0)
    """weight of the contrastive term; the authors' code divides its mean over a batch once more by
    the batch size, which is 64"""


STEPS = 30
RATE = 0.1
"""Steps of the server on the prototypes in a round, and the learning rate of their plain SGD."""

TEMPERATURE = 0.05
"""tau, which divides the cosines of features and prototypes."""


class FedHProServer(Average):
    """FedAvg, and l prototypes of each class with gradients that match those of the examples.

    With the new classifier, ĝ_c is the mean over the prototypes s of class c of the gradient of
    their cross-entropy in s, and g_c the mean of the examples' gradients in their features. SGD
    lowers Σ_c 1 − cos(g_c, ĝ_c) over the classes that a client has. They start as normal numbers.

    This follows the authors' code with its option `cos`, except that g_c is the mean over all
    examples, where the code averages the means of up to 100 augmented images of each client. The
    code's default sums the quotients of single coordinates, g_ci ĝ_ci/(|g_ci| |ĝ_ci| + 1e-6), which
    are ±1 or nearly so. The code also trains a new classifier in each round, on features that match
    the classifier's gradients; its figure of the method lacks this step, and so does this class.
    """

    name = "hyper-prototypes"
    summed_clients = "own"
    keys: Keys

    def begin(self, arrays: Arrays) -> None:
        """Start with random prototypes, from the seed."""
        super().begin(arrays)
        classes, dim = arrays["head.weight"].shape
        shape = (classes, self.keys.prototypes, dim)
        draws = np.random.default_rng(self.config.seed).standard_normal(shape)
        self._prototypes = draws.astype(np.float32)
        self._sent = self.state()

    def sent_to(self, partition: int) -> Arrays:
        """The average and the prototypes, the same for every client."""
        return self._sent

    def expected_reply(self, partition: int) -> Arrays:
        """The model, and sums and numbers by class."""
        zeros = np.zeros_like(self._arrays["head.weight"])
        return self._arrays | {SUMS: zeros, COUNTS: zeros[:, 0]}

    def aggregate(self, replies: Replies) -> None:
        """Average, and match the gradients."""
        totals = split_average(self.expected_reply(0), list(replies.values()))
        sums = totals.pop(SUMS)
        is_known = totals.pop(COUNTS) > 0
        self._arrays = totals
        prototypes = torch.tensor(self._prototypes, requires_grad=True)
        head = [torch.from_numpy(totals[f"head.{name}"]) for name in ("weight", "bias")]
        for _ in range(STEPS if is_known.any() else 0):
            apart = mismatch(prototypes, head[0], head[1], torch.from_numpy(sums))
            (slope,) = torch.autograd.grad(apart[is_known].sum(), prototypes)
            with torch.no_grad():
                prototypes -= RATE * slope
        self._prototypes = prototypes.detach().numpy()
        self._sent = self.state()

    def state(self) -> Arrays:
        """The model and the prototypes."""
        return self._arrays | {PROTOTYPES: self._prototypes}

    def load(self, state: Arrays) -> None:
        """Continue from a stored state."""
        self._sent = dict(state)
        self._arrays = {name: array for name, array in state.items() if name != PROTOTYPES}
        self._prototypes = state[PROTOTYPES]


class FedHProClient(Learner):
    """FedAvg's local work on the cross-entropy plus a contrastive term and an alignment.

    With v the features z at unit length and u_c the mean of the prototypes of class c at unit
    length, the contrastive term is −log(exp(⟨v, u_y⟩/τ)/(m + Σ_c exp(⟨v, u_c⟩/τ))). The alignment
    is the smooth L1 distance of v from the direction of the class's mean prototype, the mean over
    its d entries. The client's margin m is Σ_{b≠c} ⟨p_b, p_c⟩/(C − 1)² over the mean features p_c
    of its classes, and 0 if that is negative. It is computed once per round; in the authors' code
    it is optional, and computed for each batch.

    Before its steps the client sums by class the gradients Wᵀ(softmax(Wz + b) − e_y) of its
    examples' cross-entropy in their features. A real node leaves out its small classes.
    """

    keys: Keys
    reports_statistics = True
    sums_by_name = True
    hides_records = False

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        weight = local.tensors["head.weight"].detach()
        classes, dim = weight.shape
        self._prototypes = weight.new_zeros(classes, self.keys.prototypes, dim)
        self._margin = weight.new_zeros(())
        self._forget()

    def _forget(self) -> None:
        self._sums = torch.zeros_like(self.local.tensors["head.weight"].detach())
        self._counts = torch.zeros_like(self._sums[:, 0])

    def receive(self, arrays: Arrays) -> None:
        """The model and the prototypes; without training the client shares no gradients."""
        prototypes = {PROTOTYPES: self._prototypes}
        template = {PROTOTYPES: self._prototypes.numpy(force=True)}
        check_arrays(arrays, Learner.share(self) | template)
        load_arrays({name: arrays[name] for name in self.local.shared}, self.local.tensors)
        load_arrays({PROTOTYPES: arrays[PROTOTYPES]}, prototypes)
        self._forget()

    def train(self) -> Trained:
        """Sums of gradients, the margin, and the round's steps."""
        tensors = self.local.tensors
        features, labels = classifier_inputs(self.local.model, self.local.task)
        weight, bias = (tensors[f"head.{name}"].detach().cpu() for name in ("weight", "bias"))
        one_hot = F.one_hot(labels, len(weight)).to(features.dtype)
        classes = one_hot / max(len(labels), 1)
        means = (one_hot.T @ features) / one_hot.sum(0).clamp(min=1)[:, None]
        self._margin = margin(means).to(self._prototypes.device)
        slopes = (F.linear(features, weight, bias).softmax(1) - one_hot) @ weight
        leaves = self.local.leaving.examples(labels.numpy())
        classes *= torch.from_numpy(leaves)[:, None]
        self._sums = classes.T @ slopes
        self._counts = classes.sum(0)
        return super().train()

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The cross-entropy and the two terms of the prototypes."""
        features: Tensor = model.features(batch.inputs)  # type: ignore[operator]
        logits = model.head(features)  # type: ignore[operator]
        loss = F.cross_entropy(logits, batch.labels)
        apart = contrast(features, batch.labels, self._prototypes, TEMPERATURE, self._margin)
        return (
            loss + self.keys.contrast * apart + alignment(features, batch.labels, self._prototypes)
        )

    def share(self) -> Arrays:
        """The model, and sums and numbers by class, over the number of examples."""
        return super().share() | {
            SUMS: self._sums.numpy(force=True),
            COUNTS: self._counts.numpy(force=True),
        }


def mismatch(prototypes: Tensor, weight: Tensor, bias: Tensor, gradients: Tensor) -> Tensor:
    """1 − cos(g_c, ĝ_c) of each class (C,), for prototypes (C, l, d), a classifier and
    the gradients g (C, d) of the examples."""
    shares = F.linear(prototypes, weight, bias).softmax(-1).mean(1)
    slopes = (shares - torch.eye(len(weight))) @ weight
    lengths = slopes.norm(dim=1) * gradients.norm(dim=1)
    cosines: Tensor = (slopes * gradients).sum(1) / (lengths + 1e-6)
    return 1 - cosines


def margin(means: Tensor) -> Tensor:
    """A client's margin, from the mean features (C, d) of its classes, 0 for a class that it
    lacks."""
    products = means @ means.T
    total: Tensor = products.sum() - products.trace()
    return (total / max(len(means) - 1, 1) ** 2).clamp(min=0)


def contrast(
    features: Tensor, labels: Tensor, prototypes: Tensor, temperature: float, margin: Tensor
) -> Tensor:
    """The contrastive term, the mean over a batch."""
    centres = F.normalize(prototypes, dim=2).mean(1)
    logits = F.normalize(features) @ centres.T / temperature
    total = torch.logaddexp(logits.logsumexp(1), margin.log())
    return F.nll_loss(logits - total[:, None], labels)


def alignment(features: Tensor, labels: Tensor, prototypes: Tensor) -> Tensor:
    """The alignment, the mean over a batch."""
    centres = F.normalize(prototypes.mean(1))[labels]
    return F.smooth_l1_loss(F.normalize(features), centres)


METHODS = {
    "fedhpro": Method(
        "fedavg, and features drawn to prototypes that the server learns by matching gradients"
        " (Wang et al., 2026)",
        space="flat",
        network=Network(separates_head=True),
        tasks=IMAGES,
        keys={"fedhpro": Keys},
        tuned={"images": {"fedhpro.contrast": (0.1, 0.5)}},
        server=FedHProServer,
        client=FedHProClient,
    ),
}

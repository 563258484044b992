"""FedTGP (Zhang et al., AAAI 2024): FedProto with prototypes that the server trains to be apart."""

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from curvfed.extensions.baselines.methods import fedproto
from curvfed.extensions.baselines.methods.fedproto import COUNTS, MEANS, PERSONAL, SUMS
from curvfed.geometry.arrays import Floats, Integers
from curvfed.strategies.base.aggregation import Replies
from curvfed.strategies.base.keys import Rate
from curvfed.strategies.base.method import IMAGES, Method, Network
from curvfed.strategies.base.statistics import Arrays, add_prefix, select_prefix


class Keys(fedproto.Keys):
    """Keys of FedTGP."""

    retired = (
        ("predicts", "prototypes"),
        ("margin", 100.0),
    )

    epochs: int = Field(default=100, ge=1, le=100_000)
    """passes of the server over the clients' means in a round; the authors: 1000"""
    rate: Rate = Field(default=0.01, gt=0)
    """learning rate of plain SGD on the prototypes"""
    batch_size: int = Field(default=10, ge=1, le=100_000)
    """clients' means in a step of the server"""


MARGIN = 100.0
"""tau, the largest margin between a client's mean and the other prototypes, as in the authors'
code."""

GENERATOR = "generator/"
"""Prefix of the names in the state of the arrays that the server trains."""


class FedTgpServer(fedproto.FedProtoServer):
    """Prototypes W₂ relu(W₁ e_c + a₁) + a₂ of trained vectors e_c, by the clients' means p of each
    class (Eqs. 6 to 9).

    SGD lowers the cross-entropy of −(‖p − c_j‖ + m [j = y]) over the classes j, where y is p's
    class: each p is to be nearer to its own prototype than to any other by m. The margin m is the
    largest over the classes of the distance of a class's plain mean over the clients from the
    nearest other class's, and at most τ. Means of single clients are needed, so that no sum is
    enough.
    """

    keys: Keys

    def begin(self, arrays: Arrays) -> None:
        """Start with random weights, from the seed."""
        super().begin(arrays)
        classes, dim = arrays[MEANS].shape
        rng = np.random.default_rng(self.config.seed)
        shapes = {"vectors": (classes, dim), "weight1": (dim, dim), "bias1": (dim,)}
        shapes |= {"weight2": (dim, dim), "bias2": (dim,)}
        self._generator: dict[str, Tensor] = {}
        for name, shape in shapes.items():
            values = rng.uniform(-(dim**-0.5), dim**-0.5, shape)
            if name == "vectors":
                values = rng.standard_normal(shape)
            self._generator[name] = torch.tensor(values, dtype=torch.float32, requires_grad=True)
        self._round = 0

    def compared(self, arrays: Arrays) -> Arrays:
        """With the client's means, which are long where it claims too few examples."""
        means, _ = client_means(arrays)
        return arrays | {f"means/{MEANS}": means}

    def aggregate(self, replies: Replies) -> None:
        """Train the prototypes on the clients' means."""
        self._round += 1
        pairs = [client_means(update.arrays) for update in replies.values() if update.weight]
        if not pairs:
            return
        means = np.concatenate([means for means, _ in pairs])
        labels = np.concatenate([labels for _, labels in pairs])
        margin = min(largest_gap(means, labels), MARGIN)
        points = torch.from_numpy(means.astype(np.float32))
        targets = torch.from_numpy(labels)
        draws = torch.Generator().manual_seed(self.config.seed + self._round)
        for _ in range(self.keys.epochs):
            order = torch.randperm(len(points), generator=draws)
            for batch in order.split(self.keys.batch_size):
                self._step(points[batch], targets[batch], margin)
        with torch.no_grad():
            trained = prototypes(self._generator).numpy()
        self._arrays = {MEANS: trained.astype(self._arrays[MEANS].dtype)}

    def _step(self, points: Tensor, targets: Tensor, margin: float) -> None:
        loss = separation(points, targets, prototypes(self._generator), margin)
        parameters = list(self._generator.values())
        with torch.no_grad():
            for parameter, slope in zip(
                parameters, torch.autograd.grad(loss, parameters), strict=True
            ):
                parameter -= self.keys.rate * slope

    def state(self) -> Arrays:
        """The prototypes, their generator, and the number of rounds."""
        generator = {name: tensor.detach().numpy() for name, tensor in self._generator.items()}
        return self._arrays | add_prefix(GENERATOR, generator) | {"rounds": np.array(self._round)}

    def load(self, state: Arrays) -> None:
        """Continue from a stored state."""
        self._arrays = {MEANS: state[MEANS]}
        self._round = int(state["rounds"])
        for name, array in select_prefix(state, GENERATOR).items():
            self._generator[name] = torch.tensor(array, requires_grad=True)


def client_means(arrays: Arrays) -> tuple[Floats, Integers]:
    """A client's mean features (n, d) of its classes, and the classes (n,)."""
    labels = np.flatnonzero(arrays[COUNTS] > 0)
    sums = arrays[SUMS][labels].astype(np.float64)
    return sums / arrays[COUNTS][labels, None], labels


def largest_gap(means: Floats, labels: Integers) -> float:
    """The largest distance of a class's mean over the clients from that of the nearest other class;
    0 for a single class."""
    centres = np.stack([means[labels == label].mean(axis=0) for label in np.unique(labels)])
    if len(centres) < 2:
        return 0.0
    distances = np.linalg.norm(centres[:, None] - centres, axis=2)
    np.fill_diagonal(distances, np.inf)
    return float(distances.min(axis=1).max())


def prototypes(generator: dict[str, Tensor]) -> Tensor:
    """The prototypes (C, d) of a generator's weights."""
    hidden = F.linear(generator["vectors"], generator["weight1"], generator["bias1"]).relu()
    return F.linear(hidden, generator["weight2"], generator["bias2"])


def separation(points: Tensor, labels: Tensor, centres: Tensor, margin: float) -> Tensor:
    """The cross-entropy of the negative distances (n, C) of points (n, d) from the centres (C, d),
    with a margin added to those of their own classes."""
    # Differences have gradient 0 at a distance of 0.
    distances = torch.cdist(points, centres, compute_mode="donot_use_mm_for_euclid_dist")
    is_own_class = F.one_hot(labels, len(centres))
    margins = margin * is_own_class.to(distances.dtype)
    return F.cross_entropy(-(distances + margins), labels)


METHODS = {
    "fedtgp": Method(
        "fedproto whose server trains the prototypes to be apart (Zhang et al., 2024)",
        space="flat",
        personal=PERSONAL,
        network=Network(head="means"),
        tasks=IMAGES,
        settings={"images": {"fine_tune_epochs": 0}},
        keys={"fedtgp": Keys},
        tuned={"images": {"fedtgp.weight": (0.1, 10.0)}},
        server=FedTgpServer,
        client=fedproto.FedProtoClient,
    ),
}

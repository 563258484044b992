"""The task: handwritten digits of scikit-learn, most of a client's from a few classes, and a small
network."""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn


class Net(nn.Module):
    """A body, and the head that names the digit."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 32), nn.ReLU())
        self.head = nn.Linear(32, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Logits (n, 10) of images (n, 64)."""
        return self.head(self.body(images))


def initial_model() -> Net:
    """The model that all start from."""
    torch.manual_seed(0)
    return Net()


def load_data(partition: int, num_partitions: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images and labels to train on, and to test on: half of the images in a mixed order, half
    sorted by class."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    mixed, rest = np.array_split(order, 2)
    by_class = rest[np.argsort(labels[rest], kind="stable")]
    own = np.concatenate(
        [np.array_split(part, num_partitions)[partition] for part in (mixed, by_class)]
    )
    own = np.random.default_rng(partition).permutation(own)
    x, y = torch.tensor(images[own] / 16, dtype=torch.float32), torch.tensor(labels[own])
    cut = len(own) * 3 // 4
    return x[:cut], y[:cut], x[cut:], y[cut:]


def train(model: Net, x: Tensor, y: Tensor, epochs: int, learning_rate: float) -> float:
    """Train by SGD on batches of 16; the mean loss of the last pass."""
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    losses: list[float] = []
    for _ in range(epochs):
        losses = []
        for batch in torch.randperm(len(y)).split(16):
            loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return sum(losses) / len(losses)


def accuracy(model: Net, x: Tensor, y: Tensor) -> float:
    """Share of the images that are named rightly."""
    with torch.no_grad():
        return (model(x).argmax(dim=1) == y).float().mean().item()

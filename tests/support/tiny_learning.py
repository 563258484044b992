"""A learner of 17 parameters and 8 examples, and the same in NumPy, by differences."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from app_runs import dotted_keys
from numpy.typing import NDArray
from torch import Tensor, nn

from curvfed.strategies.base.learner import Learner, Local
from curvfed.strategies.base.statistics import named_state
from curvfed.strategies.base.training import make_optimizer
from curvfed.strategies.config.build_method import learner_class
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import RunConfig, resolve_defaults
from curvfed.strategies.methods import METHODS
from curvfed.tasks.task import Batch, Task

Arrays = dict[str, NDArray[Any]]
FEATURES, WIDTH, CLASSES, EXAMPLES = 3, 2, 3, 8
STEP = 1e-5
"""Of the differences: their error is STEP² times third derivatives, about 1e-9."""


class Net(nn.Module):
    """Body and head, as in networks of images: logits W tanh(A x) + b."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, WIDTH, bias=False), nn.Tanh())
        self.head = nn.Linear(WIDTH, CLASSES)

    def features(self, x: Tensor) -> Tensor:
        result: Tensor = self.body(x)
        return result

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits


class Examples(Task):
    """Examples in batches of two, always in the same order."""

    def __init__(self, x: Tensor, labels: Tensor, batch_size: int) -> None:
        self.metric, self.num_examples, self.train_labels = "accuracy", len(x), labels
        self.x, self.batch_size = x, batch_size

    @property
    def num_steps(self) -> int:
        return -(-self.num_examples // self.batch_size)

    def batches(self, model: nn.Module) -> Iterator[Batch]:
        for start in range(0, self.num_examples, self.batch_size):
            chosen = slice(start, start + self.batch_size)
            yield Batch(self.x[chosen], self.train_labels[chosen])

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return F.cross_entropy(model(batch.inputs), batch.labels)

    def logits(self, model: nn.Module) -> Tensor:
        return model(self.x)

    def scores(self, model: nn.Module) -> dict[str, float]:
        with torch.no_grad():
            return {
                "score": float((model(self.x).argmax(dim=1) == self.train_labels).double().mean())
            }


def learner(
    method: str,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    batch_size: int = 2,
    examples: int = EXAMPLES,
    head: nn.Module | None = None,
    **settings: Any,
) -> Learner:
    """The learner of a method on these examples, which `seed` draws, from the start that every seed
    has in common; `head` replaces the linear one."""
    keys = dotted_keys(settings)
    config = resolve_defaults(
        parse({"method": method, "dataset": "digits", "weight-decay": 0.0, "momentum": 0.0} | keys),
        "images",
    )
    start, data = np.random.default_rng(0), np.random.default_rng(seed + 1)
    net = Net()
    net.head = head or net.head
    net.to(dtype)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.from_numpy(start.normal(0, 0.7, tuple(parameter.shape))))
    x = torch.from_numpy(data.normal(0, 1, (examples, FEATURES))).to(dtype)
    labels = torch.from_numpy(data.integers(0, CLASSES, examples))
    tensors = named_state(net)
    parameters = {name: p for name, p in net.named_parameters() if p.requires_grad}
    row = METHODS[method]
    shared = tuple(name for name in tensors if not row.is_personal(name))
    optimizer = make_optimizer(parameters, config)
    local = local_of(
        config, net, Examples(x, labels, batch_size), tensors, shared, parameters, optimizer
    )
    return learner_class(row)(local)


def local_of(config: RunConfig, *parts: Any) -> Local:
    """What a learner works with, by a configuration and the parts from the model on."""
    return Local(config, config.own_keys, *parts)


def state(module: nn.Module) -> Arrays:
    """A network's parameters as they are now."""
    return {
        name: np.array(tensor.numpy(force=True)) for name, tensor in named_state(module).items()
    }


def drawn(client: Learner, rng: np.random.Generator, scale: float = 0.7) -> Arrays:
    """Arrays such as the learner awaits, from a server that sends what it likes."""
    return {
        name: rng.normal(0, scale, array.shape).astype(array.dtype)
        for name, array in client.share().items()
    }


def own_state(client: Learner, prefix: str) -> Arrays:
    """What a client keeps under a prefix, without it."""
    return {
        name.removeprefix(prefix): np.array(tensor.numpy(force=True))
        for name, tensor in client.local_state().items()
        if name.startswith(prefix)
    }


def softmax_loss(
    arrays: Mapping[str, NDArray[Any]], x: NDArray[Any], labels: NDArray[Any]
) -> float:
    """The mean cross-entropy of the network of these parameters."""
    logits = features(arrays, x) @ arrays["head.weight"].T + arrays["head.bias"]
    return cross_entropy(logits, labels)


def features(arrays: Mapping[str, NDArray[Any]], x: NDArray[Any]) -> NDArray[np.float64]:
    """What its head sees."""
    result: NDArray[np.float64] = np.tanh(x @ arrays["body.0.weight"].T)
    return result


def cross_entropy(logits: NDArray[Any], labels: NDArray[Any]) -> float:
    """The mean over the rows."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    return float(
        (np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(labels)), labels]).mean()
    )


def gradient(loss: Callable[[Arrays], float], arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """Of a function of named arrays, by central differences."""
    result = {}
    for name, array in arrays.items():
        slopes = np.zeros(array.shape)
        for index in np.ndindex(array.shape):
            ends = []
            for sign in (1, -1):
                moved = {other: np.array(value, np.float64) for other, value in arrays.items()}
                moved[name][index] += sign * STEP
                ends.append(loss(moved))
            slopes[index] = (ends[0] - ends[1]) / (2 * STEP)
        result[name] = slopes
    return result


def batches(task: Examples) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """The task's batches as arrays, in float64."""
    return [
        (batch.inputs.numpy(force=True).astype(np.float64), batch.labels.numpy(force=True))
        for batch in task.batches(nn.Identity())
    ]


def descend(
    arrays: Mapping[str, NDArray[Any]],
    task: Examples,
    rate: float,
    epochs: int,
    pull: Callable[[Arrays], Mapping[str, NDArray[Any]]] = lambda arrays: {},
) -> Arrays:
    """Gradient steps on the cross-entropy and what `pull` adds to the gradient."""
    result = {name: np.array(array, np.float64) for name, array in arrays.items()}
    for _ in range(epochs):
        for x, labels in batches(task):
            slopes = gradient(lambda moved: softmax_loss(moved, x, labels), result)
            added = pull(result)
            result = {
                name: array - rate * (slopes[name] + added.get(name, 0.0))
                for name, array in result.items()
            }
    return result


def assert_near(
    one: Mapping[str, NDArray[Any]], other: Mapping[str, NDArray[Any]], tolerance: float = 1e-8
) -> None:
    """The same names and, but for the error of the differences, the same values."""
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_allclose(array, other[name], rtol=0, atol=tolerance, err_msg=name)


def copied(result: Learner) -> Arrays:
    """What it would send now."""
    return {name: np.array(array) for name, array in result.share().items()}

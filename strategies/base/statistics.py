"""The clients' contributions to a phase: named arrays, a weight, and figures; and functions of
arrays by name: those of a model, and those with a prefix, such as "client/3/head.weight"."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from curvfed.geometry.arrays import Array, Booleans, Floats, Integers

if TYPE_CHECKING:
    from torch import Tensor, nn

Arrays = dict[str, Array]
Value = TypeVar("Value")


def in_large_classes(labels: Integers, minimum: int) -> Booleans:
    """Whether the class of each example has at least this many examples, (n,)."""
    return np.asarray(np.bincount(labels)[labels] >= minimum)


def spread(number: int, limit: float) -> Booleans:
    """Which of a number of examples to take, (number,): all, or as many as the limit, evenly spread
    over their order."""
    if limit >= number:
        return np.ones(number, np.bool_)
    places = np.arange(number + 1) * int(limit) // number
    return np.asarray(places[1:] > places[:-1])


@dataclass(frozen=True, eq=False)
class Leaving:
    """Which classes' figures may leave a client.

    Attributes
    ----------
    minimum : int
        Minimum number of training examples of the class.
    few : bool array (C,)
        Whether too few members of a secure sum have the class, by its number among the
        federation's, or the entity of links; empty without such a rule.
    max_examples : float
        Maximum number of examples. They are the same ones whichever classes leave: otherwise two
        sums would show the client's part.

    Examples
    --------
    >>> labels = np.array([0, 0, 1, 2, 2])
    >>> Leaving(minimum=2, few=np.array([False, False, True])).examples(labels)
    array([ True,  True, False, False, False])
    >>> Leaving(max_examples=3).examples(labels)
    array([False,  True, False,  True,  True])
    """

    minimum: int = 1
    few: Booleans = field(default_factory=lambda: np.zeros(0, np.bool_))
    max_examples: float = math.inf

    def examples(self, labels: Integers) -> Booleans:
        """Whether values computed from each example may leave, by the numbers of their classes,
        (n,)."""
        leaves = spread(len(labels), self.max_examples)
        leaves[leaves] = in_large_classes(labels[leaves], self.minimum)
        if self.few.size:
            return leaves & ~self.few[labels]
        return leaves

    def classes_lost(self, labels: Integers) -> int:
        """The number of classes with fewer than the minimum among `max_examples`, but not among
        all examples, by the labels (n,)."""
        taken = labels[spread(len(labels), self.max_examples)]
        large = np.unique(labels[in_large_classes(labels, self.minimum)])
        return len(large) - len(np.unique(taken[in_large_classes(taken, self.minimum)]))


@dataclass(frozen=True, eq=False)
class Statistics:
    """The contribution of a client, or of several clients together.

    Attributes
    ----------
    arrays : dict of str to array
        The shared parameters after local training, or sums over the examples.
    weight : int
        Number of training examples, 0 or more, or another weight that the aggregation uses.
    figures : mapping of str to float
        Figures about the client, by name; a figure that is not reported is left out.
    clients : int
        Number of clients; more than one after a secure sum.
    error : float
        Bound on the absolute error of the arrays' entries, from the fixed-point numbers of a secure
        sum.
    noise : float
        The root of the factor of the variances of differentially private sums; 0 for sums without
        noise.

    Examples
    --------
    >>> both = Statistics({"w": np.ones(2)}, 3) + Statistics({"w": np.zeros(2)}, 1)
    >>> both.arrays["w"], both.weight, both.clients
    (array([1., 1.]), 4, 2)
    >>> (Statistics({}, noise=3.0) + Statistics({}, noise=4.0)).noise
    5.0
    """

    arrays: Arrays
    weight: int = 0
    figures: Mapping[str, float] = field(default_factory=dict)
    clients: int = 1
    error: float = 0.0
    noise: float = 0.0

    @property
    def steps(self) -> int:
        """Number of optimiser steps; 0 if it is not reported."""
        return int(self.figures.get("steps", 0))

    @property
    def loss(self) -> float:
        """Mean loss of the last pass; NaN if it is not reported."""
        return self.figures.get("loss", math.nan)

    def __add__(self, other: "Statistics") -> "Statistics":
        """Both contributions together, with independent noise; their figures are not kept."""
        arrays = {name: array + other.arrays[name] for name, array in self.arrays.items()}
        weight = self.weight + other.weight
        noise = math.hypot(self.noise, other.noise)
        return Statistics(
            arrays,
            weight,
            clients=self.clients + other.clients,
            error=self.error + other.error,
            noise=noise,
        )

    def flatten(self) -> Floats:
        """All entries in one float64 vector, in the order of the arrays' names: a checkpoint has
        another order than a model."""
        pieces = [np.ravel(array).astype(np.float64) for _, array in sorted(self.arrays.items())]
        return np.concatenate([np.zeros(0), *pieces])

    def unflatten(self, vector: Floats) -> "Statistics":
        """The entries of a vector in arrays of the names and shapes of this contribution's, in
        float64; the inverse of `flatten`."""
        return replace(self, arrays=dict(_split(vector, self.arrays)))


def _split(vector: Floats, like: Mapping[str, Array]) -> Iterator[tuple[str, Floats]]:
    begin = 0
    for name, array in sorted(like.items()):
        yield name, vector[begin : begin + array.size].reshape(array.shape)
        begin += array.size


def total(contributions: Sequence[Statistics]) -> Statistics:
    """The sum of contributions, added in this order.

    Parameters
    ----------
    contributions : sequence of Statistics
        At least one.
    """
    first, *further = contributions
    return sum(further, start=first)


WHOLE = "whole/"
"""Prefix of the names of arrays that, times the client's weight, are whole numbers also in a secure
sum."""

OF_UPDATE = "variate/"
"""Prefix of the names of arrays that follow from a client's update: a secure sum that shortens the
update shortens them, too."""

HEAD = "head."
"""Prefix of the names of a classifier's parameters."""

BUFFERS = ("running_mean", "running_var")
"""Suffixes of the names of batch normalisation's running statistics. They lack gradients and are
always averaged."""


def is_buffer(name: str) -> bool:
    """Whether the array of this name is a running statistic, which is not trained."""
    return name.endswith(BUFFERS)


def not_finite(arrays: Arrays) -> str:
    """The arrays that are not finite, in words; "" if all are finite. Sums of finite replies can
    exceed float32."""
    names = [name for name, array in arrays.items() if not np.isfinite(array).all()]
    if not names:
        return ""
    verb = "is" if len(names) == 1 else "are"
    return f"{', '.join(names[:3])} {verb} not finite"


def named_state(model: "nn.Module") -> "dict[str, Tensor]":
    """All tensors that a model computes with: its parameters, and the running statistics of its
    batch normalisation."""
    running = {name: buffer for name, buffer in model.named_buffers() if is_buffer(name)}
    return dict(model.named_parameters()) | running


def rounded_names(model: "nn.Module") -> frozenset[str]:
    """Names of the parameters that `wire-precision` rounds: the trained parameters in float32."""
    import torch

    return frozenset(
        name
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and parameter.dtype == torch.float32
    )


def add_prefix(prefix: str, values: Mapping[str, Value]) -> dict[str, Value]:
    """The values, such as arrays or tensors, with a prefix before each name."""
    return {f"{prefix}{name}": value for name, value in values.items()}


def select_prefix(values: Mapping[str, Value], prefix: str) -> dict[str, Value]:
    """The values with names that begin with a prefix; the prefix is removed."""
    return {
        name.removeprefix(prefix): value
        for name, value in values.items()
        if name.startswith(prefix)
    }


def split_prefix(
    values: Mapping[str, Value], prefix: str
) -> tuple[dict[str, Value], dict[str, Value]]:
    """The values with names that do not begin with a prefix, and those of `select_prefix`."""
    without_prefix = {name: value for name, value in values.items() if not name.startswith(prefix)}
    return without_prefix, select_prefix(values, prefix)


def join_groups(prefix: str, groups: Mapping[int, Arrays]) -> Arrays:
    """The arrays of numbered groups as "prefix<number>/name", in ascending order of the numbers."""
    joined: Arrays = {}
    for number in sorted(groups):
        joined |= add_prefix(f"{prefix}{number}/", groups[number])
    return joined


def split_groups(arrays: Mapping[str, Array], prefix: str) -> dict[int, Arrays]:
    """Inverse of `join_groups`; arrays without the prefix are left out."""
    groups: dict[int, Arrays] = {}
    for key, array in select_prefix(arrays, prefix).items():
        number, _, name = key.partition("/")
        groups.setdefault(int(number), {})[name] = array
    return groups

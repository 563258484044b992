"""Arrays by name: those of a model, and those whose names have a prefix, such as
"client/3/head.weight"."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.base.statistics import Arrays

if TYPE_CHECKING:  # a list of methods, those of other packages too, is printed without torch
    from torch import Tensor, nn

HEAD = "head."
"""Prefix of the names of a classifier's parameters."""

BUFFERS = ("running_mean", "running_var")
"""Suffixes of the names of batch normalisation's running statistics. They have no gradient and are
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


def add_prefix(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """The arrays with a prefix before each name."""
    return {f"{prefix}{name}": array for name, array in arrays.items()}


def select_prefix(arrays: Mapping[str, NDArray[Any]], prefix: str) -> Arrays:
    """The arrays whose names begin with a prefix; the prefix is removed."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def join_groups(prefix: str, groups: Mapping[int, Arrays]) -> Arrays:
    """The arrays of numbered groups as "prefix<number>/name", in ascending order of the numbers."""
    joined: Arrays = {}
    for number in sorted(groups):
        joined |= add_prefix(f"{prefix}{number}/", groups[number])
    return joined


def split_groups(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[int, Arrays]:
    """Inverse of `join_groups`; arrays without the prefix are left out."""
    groups: dict[int, Arrays] = {}
    for key, array in select_prefix(arrays, prefix).items():
        number, _, name = key.partition("/")
        groups.setdefault(int(number), {})[name] = array
    return groups

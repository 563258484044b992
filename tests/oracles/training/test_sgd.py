"""The clients' SGD against torch's own, to the bit."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from curvfed.strategies.base.optimizer import SGD

SHAPES = {"a": (3, 2), "b": (), "c": (4,)}


def parameters(dtype):
    generator = torch.Generator().manual_seed(0)
    return {
        name: nn.Parameter(torch.randn(shape, generator=generator, dtype=dtype))
        for name, shape in SHAPES.items()
    }


def give(mine, generator, with_gradient):
    for name, parameter in mine.items():
        gradient = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
        parameter.grad = gradient if name in with_gradient else None


@given(
    st.sampled_from([torch.float32, torch.float64]),
    st.sampled_from([0.0, 0.5, 0.9]),
    st.sampled_from([0.0, 1e-5, 0.1]),
    st.lists(st.sets(st.sampled_from(sorted(SHAPES))), min_size=1, max_size=6),
)
def test_is_torchs_to_the_bit(dtype, momentum, weight_decay, steps):
    ours, theirs = parameters(dtype), parameters(dtype)
    optimizer = SGD(ours, 0.1, momentum, weight_decay)
    reference = torch.optim.SGD(
        theirs.values(), lr=0.1, momentum=momentum, weight_decay=weight_decay
    )
    for number, names in enumerate(steps):
        for mine in (ours, theirs):
            give(mine, torch.Generator().manual_seed(number), names)
        optimizer.learning_rate = reference.param_groups[0]["lr"] = 0.1 / (number + 1)
        optimizer.step()
        reference.step()
        assert all(torch.equal(ours[name], theirs[name]) for name in SHAPES)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_stored_state_goes_on_to_the_same_bits_and_a_reset_one_starts_afresh(momentum):
    def go(mine, optimizer, numbers):
        for number in numbers:
            give(mine, torch.Generator().manual_seed(number), SHAPES)
            optimizer.step()

    undisturbed, stored = parameters(torch.float32), parameters(torch.float32)
    first, second = SGD(undisturbed, 0.1, momentum, 1e-3), SGD(stored, 0.1, momentum, 1e-3)
    go(undisturbed, first, range(3))
    with torch.no_grad():
        for name in SHAPES:
            stored[name].copy_(undisturbed[name])
    second.load({name: tensor.clone() for name, tensor in first.state().items()})
    go(undisturbed, first, range(3, 5))
    go(stored, second, range(3, 5))
    assert all(torch.equal(undisturbed[name], stored[name]) for name in SHAPES)
    second.reset()
    assert not any(tensor.any() for tensor in second.state().values())

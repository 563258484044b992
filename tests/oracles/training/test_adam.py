"""The client's Adam against torch's own, to the bit."""

import pytest
import torch
from torch import nn

from curvfed.strategies.base.optimizer import Adam
from curvfed.tasks.graphs.model_spec import store_by_input

SHAPES = {"first.weight": (8, 8), "first.bias": (5,), "gate": (), "k": (), "frozen": (3,)}
RATE = 0.01


def parameters(seed: int = 0, dtype: torch.dtype = torch.float32) -> dict[str, nn.Parameter]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: nn.Parameter(torch.randn(shape, generator=generator, dtype=dtype))
        for name, shape in SHAPES.items()
    }


def set_gradients(
    tensors: dict[str, nn.Parameter], step: int, without: tuple[str, ...] = ()
) -> None:
    """Gradients of very different sizes, the same for every set of parameters at the same step."""
    generator = torch.Generator().manual_seed(1000 + step)
    for place, (name, parameter) in enumerate(tensors.items()):
        gradient = torch.randn(
            parameter.shape, generator=generator, dtype=parameter.dtype
        ) * 10.0 ** (2 - 2 * place)
        parameter.grad = None if name in without else gradient


def torch_adam(
    tensors: dict[str, nn.Parameter], decay: float, decoupled: bool
) -> torch.optim.Optimizer:
    decayed = [parameter for name, parameter in tensors.items() if name != "k"]
    groups = [
        {"params": decayed, "weight_decay": decay},
        {"params": [tensors["k"]], "weight_decay": 0.0},
    ]
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    return kind(groups, lr=RATE, fused=True)


def same(first: dict[str, nn.Parameter], second: dict[str, nn.Parameter]) -> bool:
    return all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(("decay", "decoupled"), [(0.0, False), (0.1, False), (0.1, True)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("by_input", [False, True])
def test_equal_to_torch_to_the_bit_over_many_steps(decay, decoupled, dtype, by_input):
    mine, theirs = parameters(dtype=dtype), parameters(dtype=dtype)
    if by_input:  # gradients in the order of the parameter, and in the other order
        store_by_input(mine["first.weight"])
    adam = Adam(mine, RATE, decay, undecayed=["k"], decoupled=decoupled)
    oracle = torch_adam(theirs, decay, decoupled)
    for step in range(50):
        # Now and then a gradient is missing: such a parameter stays, and its count of steps with
        # it.
        without = ("frozen",) if step % 3 else ("frozen", "gate", "first.bias")
        for tensors in (mine, theirs):
            set_gradients(tensors, step, without)
        if by_input and step % 2 and (gradient := mine["first.weight"].grad) is not None:
            mine["first.weight"].grad = torch.empty_like(mine["first.weight"]).copy_(gradient)
        adam.step()
        oracle.step()
        assert same(mine, theirs)
    assert torch.equal(mine["frozen"], parameters(dtype=dtype)["frozen"])
    state = adam.state()
    for name, parameter in theirs.items():
        if name != "frozen":
            for slot, moment in {"exp_avg": "mean", "exp_avg_sq": "square", "step": "step"}.items():
                expected = oracle.state[parameter][slot]
                if by_input and name == "first.weight":
                    expected = expected.t()
                assert torch.equal(state[f"{moment}/{name}"], expected)


def steps(tensors: dict[str, nn.Parameter], adam: Adam, numbers: range) -> None:
    for step in numbers:
        set_gradients(tensors, step)
        adam.step()


def test_a_state_taken_up_again_goes_on_as_if_never_put_down():
    undisturbed = parameters()
    steps(undisturbed, Adam(undisturbed, RATE, 0.1, "k"), range(20))

    first = parameters()
    adam = Adam(first, RATE, 0.1, "k")
    steps(first, adam, range(11))
    put_down = {key: value.clone() for key, value in adam.state().items()}
    second = {name: nn.Parameter(parameter.detach().clone()) for name, parameter in first.items()}
    resumed = Adam(second, RATE, 0.1, "k")
    steps(first, adam, range(11, 13))  # what goes on in the first must not show in the second
    resumed.load(put_down)
    steps(second, resumed, range(11, 20))
    assert same(second, undisturbed)
    assert put_down.keys() == resumed.state().keys()


def test_reset_forgets_everything():
    tensors, fresh = parameters(), parameters()
    adam = Adam(tensors, RATE, 0.0, "k")
    steps(tensors, adam, range(5))
    with torch.no_grad():
        for name, parameter in parameters().items():
            tensors[name].copy_(parameter)
    adam.reset()
    steps(tensors, adam, range(5, 8))
    steps(fresh, Adam(fresh, RATE, 0.0, "k"), range(5, 8))
    assert same(tensors, fresh)


def test_a_state_of_another_model_is_refused():
    adam = Adam(parameters(), RATE, 0.0, "k")
    good = {key: value.clone() for key, value in adam.state().items()}
    with pytest.raises(KeyError, match="mean/k"):
        adam.load({key: value for key, value in good.items() if key != "mean/k"})
    with pytest.raises(ValueError, match=r"mean/first.bias has shape \[4\], expected \[5\]"):
        adam.load(good | {"mean/first.bias": torch.zeros(4)})

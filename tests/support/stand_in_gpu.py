"""A device that stands in for a GPU: it computes on the CPU, and refuses what a GPU would refuse.

Its tensors are of device "meta", with which autograd needs no driver, and hold their values in a
tensor of the CPU. Refused are an operation with a tensor of the CPU (but for scalars, copies and
indices, as on a GPU) and `numpy` without `force`. Draws come from a generator of its own. Convolutions have their
channels last, as on a GPU; the code's other branches on a device of type "cuda" are not taken.
"""

import contextlib
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

import curvfed.client_app.client
import curvfed.client_app.client_data
import curvfed.client_app.resources

GPU = torch.device("meta")
MIXES = ("index", "_unsafe_index", "index_put_", "copy_", "_to_copy")
"""Operations that take a further tensor from the CPU on a GPU too."""

draws = torch.Generator()
"""The device's own."""


class OnGpu(Tensor):
    """A tensor of the device; `held` has its values."""

    held: Tensor
    layout = property(lambda self: self.held.layout)

    @staticmethod
    def __new__(cls, held: Tensor) -> "OnGpu":
        strides = {"strides": held.stride()} if held.layout == torch.strided else {}
        result = Tensor._make_wrapper_subclass(
            cls, held.size(), dtype=held.dtype, device=GPU, **strides
        )
        result.held = held.detach()
        return result

    def __init__(self, held: Tensor) -> None:
        super().__init__()

    def __repr__(self) -> str:
        return f"OnGpu({self.held})"

    def __deepcopy__(self, memo):
        copied = self.detach().clone().requires_grad_(self.requires_grad)
        memo[id(self)] = copied = (
            torch.nn.Parameter(copied, self.requires_grad) if hasattr(self, "_is_param") else copied
        )
        return copied

    def to_dense(self):
        return OnGpu(self.held.to_dense())

    def numpy(self, *, force=False):
        if not force:
            raise RuntimeError("a tensor of the GPU has no numpy")
        return self.detach().cpu().numpy()

    def tolist(self):
        return self.held.tolist()

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return run(func, args, kwargs or {})


class Device(TorchDispatchMode):
    """Also catches what makes a tensor of the device from none."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return run(func, args, kwargs or {})


def run(func, args, kwargs):
    """An operation on the device, on the CPU, or from one to the other."""
    name, given = (
        func.__name__.partition(".")[0],
        [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)],
    )
    wrappers = [tensor for tensor in given if isinstance(tensor, OnGpu)]
    if (
        wrappers
        and name not in MIXES
        and any(tensor.dim() for tensor in given if not isinstance(tensor, OnGpu))
    ):
        raise RuntimeError(
            f"Expected all tensors to be on the same device: {func} of the GPU and the CPU"
        )
    target = kwargs.get("device")
    here = bool(wrappers) if target is None else torch.device(target).type == GPU.type
    if name == "copy_":
        here = isinstance(args[0], OnGpu)
    held = {id(tensor.held): tensor for tensor in wrappers}
    if target is not None:
        kwargs = kwargs | {"device": torch.device("cpu")}
    args, kwargs = tree_map(
        lambda leaf: leaf.held if isinstance(leaf, OnGpu) else leaf, (args, kwargs)
    )
    if name == "_fused_adam_" and here:
        return _fused_adam(args, kwargs)
    with drawn_here() if here else contextlib.nullcontext():
        result = func(*args, **kwargs)
    if not here:
        return result
    return tree_map(lambda leaf: _wrapped(leaf, held) if isinstance(leaf, Tensor) else leaf, result)


def _fused_adam(args, kwargs) -> None:
    """A GPU's kernel takes tensors of any strides, alike for all four; the CPU's contiguous."""
    for of_one in zip(*args[:4], strict=True):
        if len({tensor.stride() for tensor in of_one}) > 1:
            raise RuntimeError(
                "params, grads, exp_avgs, and exp_avg_sqs must have same dtype, device, and layout"
            )
    copies = [[tensor.contiguous() for tensor in tensors] for tensors in args[:4]]
    torch.ops.aten._fused_adam_(*copies, *args[4:], **kwargs)
    for tensors, changed in zip(args[:4], copies, strict=True):
        for tensor, values in zip(tensors, changed, strict=True):
            tensor.copy_(values)


def _wrapped(result: Tensor, held: dict[int, "OnGpu"]) -> "OnGpu":
    return held[id(result)] if id(result) in held else OnGpu(result)


@contextlib.contextmanager
def drawn_here() -> Iterator[None]:
    """Draws are from the device's generator."""
    of_cpu = torch.default_generator.get_state()
    torch.default_generator.set_state(draws.get_state())
    try:
        yield
    finally:
        draws.set_state(torch.default_generator.get_state())
        torch.default_generator.set_state(of_cpu)


def move_to_device(model: torch.nn.Module, device: torch.device) -> torch.nn.Module:
    """The model on the device, as `curvfed.strategies.config.device.move_to_device`; torch moves none to a
    subclass of tensors."""
    if device.type != GPU.type:
        return model.to(device)
    for module in model.to(memory_format=torch.channels_last).modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[name] = torch.nn.Parameter(
                    OnGpu(parameter.detach()), parameter.requires_grad
                )
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = OnGpu(buffer)
    return model


def seeded(seed: int, device: torch.device) -> None:
    """As `seed_dropout`."""
    (draws if device.type == GPU.type else torch.default_generator).manual_seed(seed)


_tensor_of_cpu, _autocast_of_torch, _is_autocast_enabled = (
    torch.tensor,
    torch.autocast,
    torch.is_autocast_enabled,
)


def _known(kind: str) -> str:
    return "cpu" if kind == GPU.type else kind


def _autocast(kind: str, *of, **named):
    return _autocast_of_torch(_known(kind), *of, **named)


def _tensor(data, *, device=None, **named):
    made = _tensor_of_cpu(data, **named)
    return OnGpu(made) if device is not None and torch.device(device).type == GPU.type else made


@contextlib.contextmanager
def standing_in() -> Iterator[None]:
    """Clients that are set up within the block have the device."""
    with pytest.MonkeyPatch.context() as patch, Device():
        patch.setattr(curvfed.client_app.client_data, "device_of", lambda *_: GPU)
        patch.setattr(curvfed.client_app.client, "seed_dropout", seeded)
        patch.setattr(curvfed.client_app.resources, "free_memory", lambda device: 2**40)
        patch.setattr(curvfed.client_app.resources, "move_to_device", move_to_device)
        patch.setattr(torch, "tensor", _tensor)
        patch.setattr(torch, "autocast", _autocast)
        patch.setattr(torch, "is_autocast_enabled", lambda kind: _is_autocast_enabled(_known(kind)))
        patch.setattr(torch, "inference_mode", lambda mode=True: torch.set_grad_enabled(not mode))
        yield

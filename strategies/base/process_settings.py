"""The settings of torch and NumPy that a run relies on, whatever the program around it sets."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

_BACKENDS: Any = torch.backends  # whose types lack the newer names


@contextlib.contextmanager
def own_settings() -> Iterator[None]:
    """Let torch compute as in a fresh process within the block, and restore the settings after it.

    These are float32 as default type, the CPU as default device, gradients, full precision,
    algorithms that need not be deterministic except for convolutions on a GPU, and NumPy's reaction
    to floating-point errors.

    Examples
    --------
    >>> with torch.no_grad(), own_settings():
    ...     torch.is_grad_enabled()
    True
    """
    dtype = torch.get_default_dtype()
    is_strict = torch.are_deterministic_algorithms_enabled()
    only_warns = torch.is_deterministic_algorithms_warn_only_enabled()
    with contextlib.ExitStack() as stack:
        stack.callback(torch.set_default_dtype, dtype)
        _keep_precision(stack)
        if is_strict:  # the call imports torch's compiler, which takes more than a second
            stack.callback(torch.use_deterministic_algorithms, True, warn_only=only_warns)
            torch.use_deterministic_algorithms(False)
        torch.set_default_dtype(torch.float32)
        _BACKENDS.fp32_precision = "none"
        torch.set_float32_matmul_precision("highest")
        for name, value in (("deterministic", True), ("benchmark", False)):
            stack.callback(setattr, torch.backends.cudnn, name, getattr(torch.backends.cudnn, name))
            setattr(torch.backends.cudnn, name, value)
        if torch.get_default_device().type != "cpu":  # such a block slows every call down
            stack.enter_context(torch.device("cpu"))
        # A block of torch.autocast would keep the weights that a network casts within it.
        for device in ("cpu", "cuda"):
            stack.callback(torch.set_autocast_enabled, device, torch.is_autocast_enabled(device))
            torch.set_autocast_enabled(device, False)
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"))
        yield


def _keep_precision(stack: contextlib.ExitStack) -> None:
    """Let the stack restore the precision of products.

    Programs set it by an older or a newer function of torch, and the older function cannot read a
    setting of the newer one.
    """
    try:
        stack.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
    except RuntimeError:
        for products in (_BACKENDS.cuda.matmul, _BACKENDS.mkldnn.matmul):
            stack.callback(setattr, products, "fp32_precision", products.fp32_precision)
    stack.callback(setattr, _BACKENDS, "fp32_precision", _BACKENDS.fp32_precision)

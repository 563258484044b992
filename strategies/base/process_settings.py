"""What a run relies on in torch and NumPy, whatever the program around it or an imported package
has set."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

_BACKENDS: Any = torch.backends  # whose types lack the newer names


@contextlib.contextmanager
def own_settings() -> Iterator[None]:
    """Within the block torch computes as in a fresh process; the settings that were there come back
    after it.

    These are float32 as default type, the CPU as default device, gradients, whole precision,
    algorithms that need not be deterministic, and NumPy's reaction to floating-point errors.

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
        stack.callback(torch.use_deterministic_algorithms, is_strict, warn_only=only_warns)
        torch.set_default_dtype(torch.float32)
        _BACKENDS.fp32_precision = "none"
        torch.set_float32_matmul_precision("highest")
        torch.use_deterministic_algorithms(False)
        if torch.get_default_device().type != "cpu":  # such a block slows every call down
            stack.enter_context(torch.device("cpu"))
        for device in ("cpu", "cuda"):
            stack.enter_context(torch.autocast(device, enabled=False))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"))
        yield


def _keep_precision(stack: contextlib.ExitStack) -> None:
    """Let the stack restore the precision of products, which programs set by an older or a newer
    function of torch.

    torch refuses to read by the older one what was set by the newer one.
    """
    try:
        stack.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
    except RuntimeError:
        for products in (_BACKENDS.cuda.matmul, _BACKENDS.mkldnn.matmul):
            stack.callback(setattr, products, "fp32_precision", products.fp32_precision)
    stack.callback(setattr, _BACKENDS, "fp32_precision", _BACKENDS.fp32_precision)

"""The device of a model, and the settings of torch and NumPy that a run relies on, whatever the
program around it sets."""

import contextlib
import functools
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from curvfed.strategies.errors import ConfigError


def pick_device(name: str) -> torch.device:
    """The device with this name: "auto", "cpu", "cuda" or "cuda:N".

    Raises
    ------
    ConfigError
        If this machine does not have it.
    """
    if name == "auto":
        return torch.device("cuda" if has_gpu() else "cpu")
    check_device(name)
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f'device = "{name}": allowed on this machine is {devices()}', key="no-such-device"
        )
    return device


def has_gpu() -> bool:
    """Whether CUDA works in this process."""
    return torch.cuda.device_count() > 0 and _cuda_works()


@functools.cache
def _cuda_works() -> bool:
    """The answer of torch, which starts CUDA: forks of the process could not use it any more.

    So a fork is asked first, unless the program has other threads, whose locks a fork would keep.
    """
    is_started = torch.cuda.is_initialized()
    if not is_started and threading.active_count() == 1 and forked_answer(torch.cuda.is_available):
        return True
    return torch.cuda.is_available()


def forked_answer(question: Callable[[], bool]) -> bool:
    """The answer of a fork of this process; False if it cannot be forked, or the fork fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads of a library, and by the fork
        try:
            process = os.fork()
        except OSError:  # too many processes
            return False
        if not process:
            status = 1
            try:
                status = int(not question())
            finally:
                os._exit(status)
    return os.waitpid(process, 0)[1] == 0


def check_device(name: str) -> None:
    """Refuse a name that no device has.

    Raises
    ------
    ConfigError
    """
    if not re.fullmatch(r"auto|cpu|cuda(:[0-9]{1,3})?", name):
        raise ConfigError(
            f'device = "{name}": allowed is auto, cpu, cuda or cuda:N', key="no-such-device"
        )


def devices() -> str:
    """The names and descriptions of this machine's devices."""
    names = [
        f"cuda:{number} ({torch.cuda.get_device_name(number)})"
        for number in range(torch.cuda.device_count())
    ]
    if names:
        return "cpu, " + ", ".join(names)
    build = "without CUDA"
    if torch.version.cuda:
        build = f"for CUDA {torch.version.cuda}, whose driver or device is absent"
    return f"only cpu: PyTorch {torch.__version__} here is built {build}"


def move_to_device(model: nn.Module, device: torch.device) -> nn.Module:
    """The model on its device; on a GPU in the channels-last layout, which makes convolutions
    faster."""
    if device.type == "cuda":
        return model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model.to(device)


_BACKENDS: Any = torch.backends  # their types lack the newer names


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
        # Programs set the precision of products by an older or a newer function of torch, and the
        # older one cannot read a setting of the newer one.
        try:
            products = torch.get_float32_matmul_precision()
            stack.callback(torch.set_float32_matmul_precision, products)
        except RuntimeError:
            for kind in (_BACKENDS.cuda.matmul, _BACKENDS.mkldnn.matmul):
                stack.callback(setattr, kind, "fp32_precision", kind.fp32_precision)
        stack.callback(setattr, _BACKENDS, "fp32_precision", _BACKENDS.fp32_precision)
        if is_strict:  # the call imports torch's compiler, which takes more than a second
            stack.callback(torch.use_deterministic_algorithms, True, warn_only=only_warns)
            torch.use_deterministic_algorithms(False)
        torch.set_default_dtype(torch.float32)
        _BACKENDS.fp32_precision = "none"
        torch.set_float32_matmul_precision("highest")
        for name, value in (("deterministic", True), ("benchmark", False)):
            stack.callback(setattr, torch.backends.cudnn, name, getattr(torch.backends.cudnn, name))
            setattr(torch.backends.cudnn, name, value)
        # Such a block slows every call down. `torch.get_default_device` takes ten times as long.
        if torch.empty(0).device.type != "cpu":
            stack.enter_context(torch.device("cpu"))
        # A block of torch.autocast would keep the weights that a network casts within it.
        for device in ("cpu", "cuda"):
            stack.callback(torch.set_autocast_enabled, device, torch.is_autocast_enabled(device))
            torch.set_autocast_enabled(device, False)
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"))
        yield

"""The device that a run computes on."""

import re

import torch
from torch import nn

from curvfed.strategies.base.errors import ConfigError


def pick_device(name: str) -> torch.device:
    """The device with this name: "auto", "cpu", "cuda" or "cuda:N".

    Raises
    ------
    ConfigError
        If this machine does not have it.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    check_device(name)
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f'device = "{name}": allowed on this machine is {devices()}', key="no-such-device"
        )
    return device


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
    """The model on its device; on a GPU in the channels-last layout, in which convolutions are
    faster."""
    if device.type == "cuda":
        return model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]
    return model.to(device)

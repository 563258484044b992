"""The device that a run computes on."""

import re

import torch
from torch import nn

from curvfed.strategies.base.errors import ConfigError


def pick_device(name: str) -> torch.device:
    """The device of a configuration: "auto", "cpu", "cuda" or "cuda:N".

    Raises
    ------
    ConfigError
        If the machine does not have it.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    check_device(name)
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f'device = "{name}": this machine has {devices()}')
    return device


def check_device(name: str) -> None:
    """Refuse what names a device on no machine.

    Raises
    ------
    ConfigError
    """
    if not re.fullmatch(r"auto|cpu|cuda(:[0-9]{1,3})?", name):
        raise ConfigError(f'device = "{name}": allowed is auto, cpu, cuda or cuda:N')


def devices() -> str:
    """What this machine has, and by which names it is allowed."""
    names = [
        f"cuda:{number} ({torch.cuda.get_device_name(number)})"
        for number in range(torch.cuda.device_count())
    ]
    if names:
        return "cpu, " + ", ".join(names)
    built = (
        f"for CUDA {torch.version.cuda}, whose driver or device is absent"
        if torch.version.cuda
        else "without CUDA"
    )
    return f"cpu alone: PyTorch {torch.__version__} here is built {built}"


def placed(model: nn.Module, device: torch.device) -> nn.Module:
    """The model on its device; on a GPU with the channels of a pixel side by side, as its
    convolutions want them."""
    if device.type == "cuda":
        return model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]
    return model.to(device)

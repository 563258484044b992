"""The device that a run computes on."""

import torch
from torch import nn

from strategies.run_config import ConfigError


def pick_device(name: str) -> torch.device:
    """The device of a configuration: "auto", "cpu", "cuda" or "cuda:N".

    Raises
    ------
    ConfigError
        If the machine does not have it.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f'device = "{name}": allowed is auto, cpu, cuda or cuda:N') from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f'device = "{name}": this machine has {torch.cuda.device_count()} CUDA devices; try "cpu"')
    return device


def placed(model: nn.Module, device: torch.device) -> nn.Module:
    """The model on its device; on a GPU with the channels of a pixel side by side, as its convolutions want them."""
    if device.type == "cuda":
        return model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]
    return model.to(device)

"""The device that a run computes on."""

import torch

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

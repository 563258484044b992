"""The local loop: device, optimiser, proximal term."""

import math
from collections.abc import Mapping

import torch
from torch import nn

from client_app.adam import Adam
from strategies.config import ConfigError, RunConfig
from tasks.graphs.client_task import GraphTask


class TrainingError(RuntimeError):
    """Local training that came to nothing; the text is safe to send."""


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


def make_optimizer(model: nn.Module, config: RunConfig) -> Adam:
    """Adam over what is trained; k, which sets the curvature, is never decayed."""
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    return Adam(trained, config.learning_rate, config.weight_decay, undecayed="k")


def seed_dropout(seed: int, device: torch.device) -> None:
    """Seed the generator that dropout draws from; `torch.manual_seed` also records a stack trace, a millisecond each."""
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


def train(
    model: nn.Module,
    task: GraphTask,
    optimizer: Adam,
    epochs: int,
    proximal: float,
    shared: Mapping[str, nn.Parameter],
) -> float:
    """Full-batch local epochs on the task's loss + proximal · ‖shared - received‖².

    Parameters
    ----------
    shared : mapping of str to Parameter
        The shared ones of the model's parameters, as received. At the first step the term and its gradient are 0.

    Returns
    -------
    float
        Loss of the task in the last epoch.

    Raises
    ------
    TrainingError
        If the loss is not finite.
    """
    model.train()
    pulled = [parameter for parameter in shared.values() if parameter.requires_grad] if proximal and epochs > 1 else []
    anchors = [parameter.detach().clone() for parameter in pulled]
    value = math.nan
    for epoch in range(epochs):
        loss = task.loss(model)
        value = loss.item()
        if not math.isfinite(value):
            raise TrainingError(f"the loss is {value} in local epoch {epoch + 1} of {epochs}")
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if epoch:
            for parameter, anchor in zip(pulled, anchors, strict=True):
                if parameter.grad is not None:
                    parameter.grad.add_(parameter.detach() - anchor, alpha=2 * proximal)
        optimizer.step()
    return value

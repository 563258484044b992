"""What never leaves this client: personal parameters and the optimiser's moments, on its own disk."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from client_app.adam import Adam
from strategies.arrays import MessageError
from strategies.config import RunConfig, home
from strategies.store import StoreError


def state_folder(config: RunConfig, run: str, partition: int, node_config: Mapping[str, Any]) -> Path:
    """Where a client's personal state lies.

    Simulated clients keep it in the run directory, so that a run can be moved and resumed as one. A real node, one with
    a `data-path` or a `state-path` of its own, keeps it there or below the user's folder.

    Raises
    ------
    MessageError
        If the run's name, which the server gives, is no plain file name.
    """
    if not re.fullmatch(r"[\w.-]+", run) or run in (".", ".."):
        raise MessageError("the name of the run is no plain file name")
    name = f"{partition:05d}"
    if "state-path" in node_config:
        return Path(str(node_config["state-path"])).expanduser() / run / name
    if "data-path" in node_config:
        return home() / "personal" / run / name
    return config.results_path / run / "checkpoint" / "clients" / name


def gather(personal: Mapping[str, nn.Parameter], optimizer: Adam | None) -> dict[str, NDArray[Any]]:
    """Personal parameters and, if given, the optimiser's state, by name."""
    tensors = {f"parameter/{name}": parameter for name, parameter in personal.items()}
    if optimizer is not None:
        tensors |= {f"optimizer/{key}": value for key, value in optimizer.state().items()}  # type: ignore[misc]
    return {key: tensor.detach().cpu().numpy() for key, tensor in tensors.items()}


def scatter(arrays: Mapping[str, NDArray[Any]], personal: Mapping[str, nn.Parameter], optimizer: Adam | None) -> None:
    """Inverse of `gather`.

    Raises
    ------
    StoreError
        If the arrays are of another model.
    """
    tensors = {key: torch.from_numpy(array) for key, array in arrays.items()}
    try:
        with torch.no_grad():
            for name, parameter in personal.items():
                parameter.copy_(tensors[f"parameter/{name}"])
        if optimizer is not None:
            prefix = "optimizer/"
            optimizer.load(
                {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
            )
    except (KeyError, ValueError, RuntimeError) as error:
        raise StoreError(f"the stored personal state belongs to another model: {error}") from None

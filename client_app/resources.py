"""Checks whether a run fits into memory before its model is built, and errors if memory runs
out."""

import resource
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from curvfed.client_app.data import Data
from curvfed.client_app.node import Node
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.training import TrainingError
from curvfed.strategies.config.build_method import build_model
from curvfed.strategies.config.device import move_to_device, pick_device
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.run_log import log
from curvfed.tasks.errors import SafeError

REMEDIES = "a smaller embedding-dim, model or batch-size, or another device"

SIGNS = ("out of memory", "can't allocate memory", "not enough memory", "alloc_failed")
"""Texts in errors about memory that lack a class of their own."""

CLIENT_BYTES = 2 * 10**4
"""Minimum memory of a simulated client at the server: its messages, figures and context."""

POINT_BYTES = 150
"""Memory of a point of the data set `uniform` during its partition."""


def device_of(config: RunKeys, node: Node) -> torch.device:
    """The device of the node's configuration, or of the run.

    Raises
    ------
    ConfigError
        If the machine lacks the device.
    """
    return pick_device(node.device or config.device)


def fitting_model(spec: Any, config: RunKeys, data: Data, device: torch.device) -> nn.Module:
    """The model with its seeded initial parameters on the device.

    Raises
    ------
    ConfigError
        If the device has too little memory to train it on these data.
    """
    free = free_memory(device)
    # A far too large network cannot even be built, so the first check uses only its widths.
    _check(spec.min_parameters, config, data, device, free)
    model = build_model(spec, config.seed)
    _check(sum(parameter.numel() for parameter in model.parameters()), config, data, device, free)
    return move_to_device(model, device)


def free_memory(device: torch.device) -> int:
    """Bytes that this process can still allocate on the device."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        # Memory cached by torch counts as used, but can be reused.
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    import psutil

    used = psutil.Process().memory_info()
    available = [int(psutil.virtual_memory().available), _free_in_group()]
    # `ulimit`, and many batch systems
    sizes = {resource.RLIMIT_AS: used.vms, resource.RLIMIT_DATA: getattr(used, "data", 0)}
    for kind, size in sizes.items():
        limit = resource.getrlimit(kind)[0]
        if limit != resource.RLIM_INFINITY:
            available.append(max(0, limit - int(size)))
    return min(available)


def _free_in_group(groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes up to the memory limit of the process's control group (container, service or job)."""
    try:
        name = Path("/proc/self/cgroup").read_text(encoding="ascii").strip().rpartition("::")[2]
        folder = groups / name.lstrip("/")
        if not (folder / "memory.max").exists():
            folder = groups
        limit, used = (
            (folder / file).read_text(encoding="ascii").strip()
            for file in ("memory.max", "memory.current")
        )
        return sys.maxsize if limit == "max" else max(0, int(limit) - int(used))
    except (OSError, ValueError):  # another system, or no limit
        return sys.maxsize


def _check(parameters: int, config: RunKeys, data: Data, device: torch.device, free: int) -> None:
    # Weights, gradients, moments, and a copy of the received or sent parameters.
    values = 3 + (2 if config.optimizer != "sgd" else int(config.momentum > 0))
    of_model = parameters * values * torch.float32.itemsize
    of_data = data.bytes_on(device)
    if of_model + of_data <= free:
        return
    # The log stays here; the error may be sent.
    log.warning("the data of this client take %s of device %s", _gib(of_data), device)
    raise ConfigError(
        f"training a model of {parameters:,} parameters takes {_gib(of_model)} (weights, gradients,"
        " moments, a copy), and this client's data and the activations of a batch need more;"
        f" device {device} has {_gib(free)} free. Use {REMEDIES}",
        key="no-memory",
    )


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def is_about_memory(error: Exception) -> bool:
    """Whether memory ran out; some such errors differ from others only in the text."""
    is_known = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return is_known or any(sign in str(error).lower() for sign in SIGNS)


def memory_error(error: Exception, config: RunKeys, node: Node) -> SafeError | None:
    """An error about memory as one with a public text; None for other errors."""
    if not isinstance(error, MemoryError | RuntimeError) or not is_about_memory(error):
        return None
    try:
        device = device_of(config, node)
    except ConfigError as absent:
        return absent
    return TrainingError(
        f"device {device} ran out of memory at batch-size = {config.batch_size}; use {REMEDIES}",
        key="no-memory",
    )


def check_memory(config: RunConfig, number: int) -> None:
    """Refuse a number of clients or points that does not fit into memory.

    Raises
    ------
    ConfigError
    """
    free = free_memory(torch.device("cpu"))
    points = config.points.num if config.dataset.lower() == "uniform" else 0
    for key, count, size in (
        ("num-supernodes", number, CLIENT_BYTES),
        ("points.num", points, POINT_BYTES),
    ):
        if count * size > free:
            raise ConfigError(
                f"{key} = {count}: takes {count * size / 2**30:.1f} GiB of memory, and this process"
                f" may take {free / 2**30:.1f} GiB more; allowed are up to {free // size}",
                key="no-memory",
            )

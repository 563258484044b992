"""Checks whether a run fits into memory before its model is built, and errors if memory runs
out."""

import contextlib
import logging
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from curvfed.client_app.data.load import Data
from curvfed.client_app.node.node import Node
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.method import GRAPHS
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.training import TrainingError
from curvfed.strategies.config.device import move_to_device, pick_device
from curvfed.strategies.config.model_spec import build_model
from curvfed.tasks.graphs.model_spec import ModelSpec
from curvfed.tasks.names import MODELS

if TYPE_CHECKING:
    from curvfed.strategies.config.model_spec import AnyModelSpec

log = logging.getLogger("curvfed")

REMEDIES = "a smaller embedding-dim, model or batch-size, or another device"

SIGNS = ("out of memory", "can't allocate memory", "not enough memory", "alloc_failed")
"""Texts in errors about memory that have no class of their own."""


def device_of(config: RunKeys, node: Node) -> torch.device:
    """The device of the node's configuration, or of the run.

    Raises
    ------
    ConfigError
        If the machine has no such device.
    """
    return pick_device(node.device or config.device)


def fitting_model(
    spec: "AnyModelSpec", config: RunKeys, data: Data, device: torch.device
) -> nn.Module:
    """The model with its seeded initial parameters on the device.

    Raises
    ------
    ConfigError
        If the device has too little memory to train it on these data.
    """
    free = free_memory(device)
    # A far too large network cannot even be built, so the first check uses only its widths.
    _check(min_parameters(spec), config, data, device, free)
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


def min_parameters(spec: "AnyModelSpec") -> int:
    """A lower bound on the number of parameters, from the widths alone; 0 for images, points and
    models of other packages.

    It counts at least half of the parameters of a wide graph network: one layer from the features
    and, between hidden layers, one for nodes or four for graphs.
    """
    if not isinstance(spec, ModelSpec) or spec.kind not in MODELS[spec.task]:
        return 0
    return spec.width * (spec.num_features + (4 if spec.task == "graphs" else 1) * spec.width)


def _check(parameters: int, config: RunKeys, data: Data, device: torch.device, free: int) -> None:
    # Weights, gradients, moments, and a copy of the received or sent parameters.
    values = 3 + (2 if config.optimizer != "sgd" else int(config.momentum > 0))
    of_model = parameters * values * torch.float32.itemsize
    of_data = data_bytes(data, device)
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


def data_bytes(data: Any, device: torch.device) -> int:
    """Bytes that a task needs on its device beside the data in main memory.

    The features of a single graph are stored a second time, transposed, and its edges as a matrix
    with half-size indices and weights. Images are views of existing data; batches of graphs and of
    clusters are small.
    """
    stored = 0
    copied = 0
    if data.task in GRAPHS:
        stored = _bytes(data.features) + data.edge_index.nbytes
        is_single_graph = data.graph_of_node is None and data.clusters is None
        if is_single_graph:
            copied = stored
    elif data.task == "images":
        stored = data.images.nbytes
    if device.type != "cpu":
        copied += stored
    return copied


def _bytes(matrix: Tensor) -> int:
    if matrix.layout != torch.sparse_csr:
        return matrix.nbytes
    return matrix.crow_indices().nbytes + matrix.col_indices().nbytes + matrix.values().nbytes


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def is_about_memory(error: Exception) -> bool:
    """Whether memory ran out; some such errors differ from others only in the text."""
    is_known = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return is_known or any(sign in str(error).lower() for sign in SIGNS)


@contextlib.contextmanager
def memory_errors(config: RunKeys, node: Node) -> Iterator[None]:
    """Within the block, an error about memory becomes one whose text may be sent.

    Raises
    ------
    TrainingError
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_about_memory(error):
            raise
        raise TrainingError(
            f"device {device_of(config, node)} ran out of memory at batch-size ="
            f" {config.batch_size}; use {REMEDIES}",
            key="no-memory",
        ) from None

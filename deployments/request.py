"""Read a simulation from `key=value` arguments, and refuse it if no machine can run it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from curvfed.deployments.arguments import (
    NUM_SUPERNODES,
    UsageError,
    Value,
    pop_supernodes,
    read_pairs,
)
from curvfed.server_app.sinks import check_installed
from curvfed.strategies.base.dotted import EXTRA
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.run_keys import folder_of
from curvfed.strategies.config.all_keys import defaults
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import RunConfig, flatten, resolve_defaults
from curvfed.tasks import plugins
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.tu import is_path
from curvfed.tasks.public_data import find_path
from curvfed.tasks.registry import num_sets, tasks_of

CLIENT_BYTES = 2 * 10**4
"""Minimum memory of a simulated client at the server: its messages, figures and context."""

NOTE = "note: "
"""The beginning of lines about data that each command prints."""

POINT_BYTES = 150
"""Memory of a point of the data set `uniform` during its partition."""


@dataclass(frozen=True)
class Request:
    """A checked request for a run.

    Attributes
    ----------
    settings : dict
        The keys that the user set.
    num_supernodes : int
    config : RunConfig
        The whole configuration, parsed.
    """

    settings: dict[str, Value]
    num_supernodes: int
    config: RunConfig

    @property
    def task(self) -> str:
        """The task of the run: the first that data set and method have in common."""
        return next(task for task in tasks_of(self.config.dataset) if task in self.config.row.tasks)

    @cached_property
    def resolved(self) -> RunConfig:
        """The configuration with the defaults of the task and the method resolved."""
        return resolve_defaults(self.config, self.task)


def read_request(pairs: Sequence[str]) -> Request:
    """Read the arguments, and refuse values that are wrong on every machine.

    Raises
    ------
    UsageError, ConfigError
    """
    settings = read_pairs(pairs, defaults() | {"num-supernodes": NUM_SUPERNODES})
    number = pop_supernodes(settings, NUM_SUPERNODES)
    check_place(settings)
    return checked(settings, number)


def check_place(settings: dict[str, Value]) -> None:
    """Refuse a missing path of a data set, before the imports of a method and torch, which take
    seconds.

    Raises
    ------
    ConfigError
    """
    from curvfed.tasks.formats import FILE_ENDINGS

    keys = defaults() | settings
    dataset = str(keys["dataset"])
    is_file = dataset.lower().endswith(FILE_ENDINGS)
    if is_file or (is_path(dataset) and not Path(dataset).suffix):
        folder = folder_of(str(keys["data-dir"]), "data")
        try:
            find_path(dataset, folder, Path.is_file if is_file else Path.is_dir)
        except (DataError, RuntimeError) as error:  # or no such user
            raise ConfigError(f'dataset = "{dataset}": {error}', key="data") from None


def checked(settings: dict[str, Value], number: int) -> Request:
    """Check a run in this process.

    Raises
    ------
    UsageError, ConfigError
    """
    config = parse(settings)
    if settings.pop(EXTRA, ""):  # its keys count like any others
        default = defaults()
        settings |= {key: value for key, value in flatten(config).items() if value != default[key]}
    request = Request(settings, number, config)
    if config.model is not None and plugins.is_model(config.model):
        try:
            plugins.factory_of(config.model)
        except DataError as error:
            raise ConfigError(str(error), key="model") from None
    check_installed(config.sinks)
    if config.min_replies > number:
        raise UsageError(
            f"min-replies is {config.min_replies}; allowed for num-supernodes = {number} is up to"
            f" {number}",
            key="min-replies",
        )
    sets = num_sets(config.dataset)  # client p has a part of data set p modulo their number
    if number % sets:
        raise UsageError(
            f"num-supernodes is {number}; allowed for {sets} data sets is a multiple of {sets}",
            key="num-supernodes",
        )
    _check_memory(config, number)
    if request.resolved.is_masked:
        from curvfed.deployments.secure_sum_check import check_secure_sums

        check_secure_sums(request.resolved, number)
    return request


def _check_memory(config: RunConfig, number: int) -> None:
    """Refuse a number of clients or points that does not fit into memory."""
    import torch  # its import takes seconds

    from curvfed.client_app.resources import free_memory

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

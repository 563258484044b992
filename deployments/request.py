"""A simulation as it was asked for: read from `key=value` arguments, and refused if it can never
run."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from curvfed.deployments.pairs import NUM_SUPERNODES, UsageError, Value, pop_supernodes, read_pairs
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
from curvfed.tasks.names import num_sets, tasks_of
from curvfed.tasks.public_data import find_path

CLIENT_BYTES = 2 * 10**4
"""Least memory that a simulated client takes at the server: its messages, figures and context."""

NOTE = "note: "
"""A line about data begins so that a user should know whatever command it is."""

POINT_BYTES = 150
"""Memory that a point of the data set `uniform` takes while it is drawn, split and dealt."""


@dataclass(frozen=True)
class Request:
    """A run as it was asked for, checked.

    Attributes
    ----------
    settings : dict
        The keys that were given.
    num_supernodes : int
    config : RunConfig
        The whole configuration, parsed.
    """

    settings: dict[str, Value]
    num_supernodes: int
    config: RunConfig

    @property
    def task(self) -> str:
        """The task of the run; the first one if data set and method have several in common."""
        return next(task for task in tasks_of(self.config.dataset) if task in self.config.row.tasks)

    @cached_property
    def resolved(self) -> RunConfig:
        """The configuration with every choice made that it leaves to the task or the method."""
        return resolve_defaults(self.config, self.task)


def read_request(pairs: Sequence[str]) -> Request:
    """Read the arguments, and refuse what is wrong with them on any machine.

    Raises
    ------
    UsageError, ConfigError
    """
    settings = read_pairs(pairs, defaults() | {"num-supernodes": NUM_SUPERNODES})
    number = pop_supernodes(settings, NUM_SUPERNODES)
    check_place(settings)
    return checked(settings, number)


def check_place(settings: dict[str, Value]) -> None:
    """Refuse a data set whose path is absent, before a method is imported, and torch, which takes
    seconds.

    Raises
    ------
    ConfigError
    """
    from curvfed.tasks.points.datasets import ENDINGS

    keys = defaults() | settings
    dataset = str(keys["dataset"])
    is_file = dataset.lower().endswith((".pt", *ENDINGS))
    if is_file or (is_path(dataset) and not Path(dataset).suffix):
        try:
            find_path(
                dataset,
                folder_of(str(keys["data-dir"]), "data"),
                Path.is_file if is_file else Path.is_dir,
            )
        except (DataError, RuntimeError) as error:  # or no such user
            raise ConfigError(f'dataset = "{dataset}": {error}') from None


def checked(settings: dict[str, Value], number: int) -> Request:
    """Check a run in this process with these keys and this number of clients.

    Raises
    ------
    UsageError, ConfigError
    """
    config = parse(settings)
    if settings.pop(EXTRA, ""):  # its keys count like any others
        every = defaults()
        settings |= {key: value for key, value in flatten(config).items() if value != every[key]}
    request = Request(settings, number, config)
    if config.model is not None and plugins.is_model(config.model):
        try:
            plugins.factory_of(config.model)
        except DataError as error:
            raise ConfigError(str(error)) from None
    check_installed(config.sinks)
    if config.min_replies > number:
        raise UsageError(
            f"min-replies is {config.min_replies}; allowed for num-supernodes = {number} is up to"
            f" {number}"
        )
    sets = num_sets(config.dataset)  # client p holds a part of data set p modulo their number
    if number % sets:
        raise UsageError(
            f"num-supernodes is {number}; allowed for {sets} data sets is a multiple of {sets}"
        )
    _check_memory(config, number)
    if request.resolved.is_masked:
        from curvfed.deployments.secure_sum_check import check_secure_sums

        check_secure_sums(request.resolved, number)
    return request


def _check_memory(config: RunConfig, number: int) -> None:
    """Refuse a number of clients or points that this process cannot have memory for."""
    import torch  # takes seconds

    from curvfed.client_app.resources import free_memory

    free = free_memory(torch.device("cpu"))
    points = config.points.num if config.dataset.lower() == "uniform" else 0
    for key, count, each in (
        ("num-supernodes", number, CLIENT_BYTES),
        ("points.num", points, POINT_BYTES),
    ):
        if count * each > free:
            raise ConfigError(
                f"{key} = {count}: takes {count * each / 2**30:.1f} GiB of memory, and this process"
                f" may take {free / 2**30:.1f} GiB more; allowed are up to {free // each}"
            )

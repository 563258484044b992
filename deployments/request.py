"""A simulation as it was asked for: read from `key=value` arguments, and refused if it can never run."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from curvfed.deployments.pairs import NUM_SUPERNODES, UsageError, Value, pop_supernodes, read_pairs
from curvfed.server_app.sinks.sinks import check_installed
from curvfed.strategies.base.dotted import EXTRA
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.all_keys import defaults
from curvfed.strategies.config.defaults import settled
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.point_data import point_spec, public_parameters
from curvfed.strategies.config.run_config import RunConfig, flatten
from curvfed.strategies.hull.public_parameters import PublicParameters
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.secure_sum.fixed_point import SUM_PRIME
from curvfed.strategies.secure_sum.session import Session
from curvfed.tasks.graphs.data.tu import graph_dataset_names
from curvfed.tasks.registry import tasks_of


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
    def settled(self) -> RunConfig:
        """The configuration with every choice made that it leaves to the task or the method."""
        return settled(self.config, self.task)


def read_request(pairs: Sequence[str]) -> Request:
    """Read the arguments, and refuse what is wrong with them on any machine.

    Raises
    ------
    UsageError, ConfigError
    """
    settings = read_pairs(pairs, defaults() | {"num-supernodes": NUM_SUPERNODES})
    return checked(settings, pop_supernodes(settings, NUM_SUPERNODES))


def checked(settings: dict[str, Value], number: int) -> Request:
    """Check a run with these keys and this number of clients.

    Raises
    ------
    UsageError, ConfigError
    """
    config = parse(settings)
    if settings.pop(EXTRA, ""):  # its keys count like any others
        every = defaults()
        settings |= {key: value for key, value in flatten(config).items() if value != every[key]}
    request = Request(settings, number, config)
    check_installed(config)
    sets = len(graph_dataset_names(config.dataset) or [""])  # client p holds a part of data set p modulo their number
    if number % sets:
        raise UsageError(f"num-supernodes is {number}; allowed for {sets} data sets is a multiple of {sets}")
    what_is_summed(request)
    return request


def what_is_summed(request: Request) -> list[str]:
    """The properties of the run's secure sums, in words; nothing if it has none.

    Raises
    ------
    ConfigError
        If the threshold does not fit the number of clients, or bins, labels and cap of their hulls do not fit together.
    """
    config, number = request.settled, request.num_supernodes
    one_shot = config.row.is_one_shot
    if not config.is_masked:
        return []
    asked = number if one_shot else max(1, round(config.fraction_train * number))
    keys = config.secure
    try:
        session = Session("", "", 0, SUM_PRIME, 1, tuple(range(asked)), keys.threshold or 0, keys.neighbours or 0)
    except SecureSumError as error:
        raise ConfigError(f"num-supernodes = {number}, of whom {asked} would be summed: {error}") from None
    told = [
        f"secure sum: {session.needed} of {asked} clients must stay to its end; each shares its secrets with "
        f"{session.degree} others"
    ]
    classes = _known_classes(config) if one_shot else 0
    return told + ([_what_hulls_cost(public_parameters(config, classes, number))] if classes else [])


def _known_classes(config: RunConfig) -> int:
    """The number of classes of a run on points; 0 if only the data tell it."""
    built_in = 2 if config.dataset.lower() == "uniform" else 0
    return config.hull.num_classes or len(point_spec(config).kept) or built_in


def _what_hulls_cost(values: PublicParameters) -> str:
    form = "a sum for every bin" if values.is_dense else "power sums"
    return (
        f"hulls: epsilon = {values.epsilon:g} makes {values.quantizer.num_bins:,} bins; for {values.num_classes} classes "
        f"every client sends {values.length:,} numbers modulo {values.prime} ({values.length * 8 / 1000:,.1f} kB), {form}"
    )

"""The row of a method: all its choices."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from curvfed.strategies.base.keys import Table, kebab, server_name
from curvfed.strategies.errors import ConfigError
from curvfed.tasks import plugins
from curvfed.tasks.kinds import KINDS

if TYPE_CHECKING:
    from curvfed.strategies.base.aggregation import Aggregation
    from curvfed.strategies.base.calibration import Calibration
    from curvfed.strategies.base.learner import Learner
    from curvfed.strategies.base.one_shot import OneShotClient, OneShotServer

Base = TypeVar("Base")

INPUT_OUTPUT_LAYERS = ("input.*", "head.*")
"""Patterns of the first and last layers, which depend on a client's features and classes."""

GRAPHS = ("nodes", "graphs")
IMAGES = ("images",)
POINTS = ("points",)
ALL = tuple(KINDS)
"""Every kind of data."""

SPACES = ("flat", "lorentz", "split", "disc", "hyperbolic")
"""The families of a method's models."""

ONE_SHOT = "one-shot"
"""The name of the aggregation of a method without rounds."""

PLAIN_MEAN = {"weights": "uniform"}
"""Setting of methods with unweighted averages of clients in their papers."""


@dataclass(frozen=True)
class Network:
    """The requirements of a method for the network that it trains, and for the classifier in it.

    Attributes
    ----------
    head : str
        "linear", "means", "sphere" or "prototypes": the classifier of an image model,
        as in `curvfed.tasks.heads`.
    head_from : str
        "training": the head is trained like the rest; "server": it is fixed, and sent to each
        client once; "client": it is fixed, and each client draws its own.
    loss : str
        "cross-entropy", "mse", "triplet" or "geodesic" (`curvfed.tasks.images.client_task`).
    objective : mapping of str to value
        Further arguments of `curvfed.tasks.images.client_task.objective`.
    options : mapping of str to value
        Further fields of the model's specification: `curvfed.tasks.graphs.model_spec.ModelSpec` or
        `curvfed.tasks.images.models.ImageModelSpec`.
    node_share : float
        Share of a graph's nodes that training uses.
    calibration : type of Calibration
        How the server makes a new classifier after the last round, from sums over the clients'
        features.
    separates_head : bool
        Whether the halves use the classifier as a separate module, which models of other packages
        may not have.

    Examples
    --------
    >>> Network(head="prototypes", head_from="server", loss="triplet").node_share
    1.0
    """

    head: str = "linear"
    head_from: str = "training"
    loss: str = "cross-entropy"
    objective: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    node_share: float = 1.0
    calibration: "type[Calibration] | None" = None
    separates_head: bool = False


_ENTRIES: dict[str, tuple[Any, str]] = {
    "personal": (tuple, "tuple of str"),
    "tasks": ((tuple, list), "tuple of str"),
    "settings": (Mapping, "dict by task"),
    "keys": (Mapping, "dict of tables by their names"),
    "tuned": (Mapping, "dict by task"),
    "control": (Mapping, "dict of keys"),
}
"""The types of entries of a row, and their words."""


@dataclass(frozen=True)
class Method:
    """The choices of one method.

    Attributes
    ----------
    summary : str
        One line for tables and help texts.
    space : str
        "flat", "lorentz", "split", "disc" or "hyperbolic": the family of its models. A row in
        curved space has a key `curvature`, which may be 0, or a control. Without a configured
        encoder, `curvfed.strategies.config.build_method` chooses the one for the task.
    personal : tuple of str
        Patterns of the names of personal parameters; all others except a fixed head are shared.
    client : type of Learner, or str
        The client half; "package.module:Class" is imported when a run begins. Default: FedAvg's
        `Learner`.
    server : type of Aggregation, or str
        The server half; "package.module:Class" is imported when a run begins. Default: FedAvg's
        `Average`.
    network : Network, or callable
        The requirements for its network, or a function from its own keys to them.
    tasks : tuple of str
        The kinds of data sets it runs on.
    settings : mapping of str to mapping
        By task: the method's values of keys that a configuration leaves open, instead of the task's
        values.
    keys : mapping of str to type
        The method's own keys, by the name of their table in the configuration, usually the
        method's. Every key has a default. Both halves get the first table.
    tuned : mapping of str to mapping
        By task: the own keys that matter most, with values worth trying besides the defaults, for
        `curvfed compare`.
    control : mapping
        For a method without a flat limit, on the sphere or on points of a given disc: the keys of a
        flat run, `method` among them, for `curvfed compare`.

    Examples
    --------
    >>> row = Method("FedAvg whose classifier stays at each client", "flat", personal=("head.*",))
    >>> row.is_personal("head.weight"), row.is_personal("layers.0.weight")
    (True, False)
    """

    summary: str
    space: str
    personal: tuple[str, ...] = ()
    client: "type[Learner] | type[OneShotClient] | str | None" = None
    server: "type[Aggregation] | type[OneShotServer] | str | None" = None
    network: "Network | Callable[[Any], Network]" = Network()
    tasks: tuple[str, ...] = GRAPHS
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    keys: Mapping[str, type[Table]] = field(default_factory=dict)
    tuned: Mapping[str, Mapping[str, tuple[Any, ...]]] = field(default_factory=dict)
    control: Mapping[str, Any] = field(default_factory=dict)

    is_one_shot: ClassVar[bool] = False
    """Which of the two kinds of runs it has: server and client choose by it once."""
    sums_only: ClassVar[bool] = False
    """Whether clients contribute to secure sums alone, whatever the configuration says."""
    has_network: ClassVar[bool] = True
    """Whether its model is a network that makes predictions."""
    stage: ClassVar[str] = "last round"
    """The stage that the figures of a run's summary describe."""
    refused: ClassVar[Mapping[str, str]] = {}
    """Keys of the run that it cannot have, and the allowed values."""
    unread: ClassVar[tuple[str, ...]] = ()
    """Keys of the run without effect on it."""

    def __post_init__(self) -> None:
        """Refuse entries of a wrong type here, where the row is written."""
        for name, (kind, words) in _ENTRIES.items():
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise TypeError(f"{name} of a method is {value!r}; allowed is a {words}")

    @property
    def curvature_key(self) -> str:
        """The dotted key of the curvature of its space, which can be 0; "" for a flat method."""
        tables = (table for table, keys in self.keys.items() if "curvature" in keys.model_fields)
        return next((f"{table}.curvature" for table in tables), "")

    @property
    def learner(self) -> "type[Learner] | str | None":
        """The client half, if it trains in rounds; None for FedAvg's."""
        return self.client  # type: ignore[return-value]

    def read_data(self, path: Path, keys: Any) -> Any:
        """A node's own file of points, if the method reads it in its own way; None otherwise."""
        return None

    @property
    def aggregation(self) -> str:
        """The name of its aggregation: that of the server half. One that is not imported yet has
        the name by its class (`server_name`), whatever `Aggregation.name` it states."""
        if self.server is None:
            return "average"
        if isinstance(self.server, str):
            return server_name(self.server.rpartition(":")[2])
        # A class that is no server half is refused when the run begins.
        return str(getattr(self.server, "name", "own"))

    def summed_clients(self, keys: Any = None, config: Any = None) -> str:
        """See `Aggregation`; an average with an `aggregate` of its own is tried out with these keys
        of the method, by default those of its table, and this configuration."""
        if self.server is None:
            return "any"
        # Here, as lists of methods import this module.
        from curvfed.strategies.base.aggregation import Aggregation
        from curvfed.strategies.base.mean_only import needs_only_mean

        half = half_class(self.server, "server", Aggregation, "not-an-aggregation")  # type: ignore[type-abstract]
        if half.summed_clients != "tried":
            return half.summed_clients
        if keys is None:
            keys = next((table() for table in self.keys.values()), None)
        return "any" if needs_only_mean(half, keys, config) else "none"

    def network_for(self, settings: Mapping[str, Any]) -> Network:
        """The requirements for its network with these values of dotted keys."""
        if isinstance(self.network, Network):
            return self.network
        table, keys = next(iter(self.keys.items()))
        values = {name: settings.get(f"{table}.{kebab(name)}") for name in keys.model_fields}
        return self.network(keys(**{name: v for name, v in values.items() if v is not None}))

    def personal_names(self, names: Collection[str], own_ends: bool = False) -> set[str]:
        """The personal ones among all names of a model's tensors; `own_ends` as in `is_personal`.

        Raises
        ------
        ConfigError
            If the method cannot train this model.
        """
        return {name for name in names if self.is_personal(name, own_ends)}

    def is_personal(self, name: str, own_ends: bool = False) -> bool:
        """Whether the parameter of this name is personal.

        `own_ends`: the clients' feature spaces or classes differ, so that the first and last layers
        are personal.
        """
        return any(
            fnmatchcase(name, pattern)
            for pattern in self.personal + (INPUT_OUTPUT_LAYERS if own_ends else ())
        )


@dataclass(frozen=True)
class OneShot(Method):
    """A method without rounds, with one secure sum as its work; its halves are those of
    `curvfed.strategies.base.one_shot`.

    Attributes
    ----------
    phase : str
        The name of the phase of its sum, in tables and logs: letters, digits and "-".

    Examples
    --------
    >>> OneShot("moments from one secure sum", space="disc").aggregation
    'one-shot'
    """

    phase: str = "sum"

    is_one_shot: ClassVar[bool] = True
    sums_only: ClassVar[bool] = True
    has_network: ClassVar[bool] = False
    stage: ClassVar[str] = "one shot"
    refused: ClassVar[Mapping[str, str]] = {
        "init-from": 'init-from = "", for this method starts from no model',
        "callbacks": 'callbacks = "", for this method has no rounds',
        "early-stopping": "early-stopping = 0, for this method has no rounds",
    }
    unread: ClassVar[tuple[str, ...]] = (
        "num-rounds",
        "local-epochs",
        "batch-size",
        "optimizer",
        "learning-rate",
        "momentum",
        "schedule",
        "burn-in",
        "weight-decay",
        "dropout",
        "fraction-train",
    )

    @property
    def learner(self) -> None:
        """None: no client trains."""
        return

    def read_data(self, path: Path, keys: Any) -> Any:
        """The data as the client half reads them."""
        from curvfed.strategies.base.one_shot import OneShotClient

        half = half_class(self.client or "", "client", OneShotClient, "not-a-half")  # type: ignore[type-abstract]
        return half.read_data(path, keys)

    @property
    def aggregation(self) -> str:
        """The same for all of them."""
        return ONE_SHOT

    def summed_clients(self, keys: Any = None, config: Any = None) -> str:
        """Its own clients."""
        return "own"


def half_class(half: type | str, side: str, base: type[Base], error_key: str) -> type[Base]:
    """The class of a half, which must be a subclass of `base`; `side` is "client" or "server".

    Raises
    ------
    DataError, ConfigError
        If it cannot be imported here or is not a subclass.

    Examples
    --------
    >>> from curvfed.strategies.base.aggregation import Aggregation, Average
    >>> half_class(Average, "server", Aggregation, "not-an-aggregation").__name__
    'Average'
    """
    loaded = plugins.imported(half) if isinstance(half, str) else half
    if not (isinstance(loaded, type) and issubclass(loaded, base)):
        name = f" {half!r}" if isinstance(half, str) else ""
        raise ConfigError(
            f"the {side} half{name} is {loaded!r}; allowed is a subclass of"
            f" {base.__module__}.{base.__name__}",
            key=error_key,
        )
    return loaded

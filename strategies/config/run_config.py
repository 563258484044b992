"""The configuration of a run: the keys of every run, a table for each part with its own keys, the
values that replace "auto", and the data set that it describes."""

from collections.abc import Collection, Iterable, Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Self

from pydantic import PrivateAttr, create_model

from curvfed.strategies.base.guard import Guard, guard_tables, guards
from curvfed.strategies.base.keys import AUTO, Scalar, Table, default_values, dotted, kebab
from curvfed.strategies.base.method import Method, Network
from curvfed.strategies.base.run_keys import AGGREGATION_METHODS, RunKeys, home
from curvfed.strategies.base.shared_tables import (
    FLOWER,
    SHARED,
    Flower,
    Images,
    MLflow,
    Points,
    Secure,
    WandB,
)
from curvfed.strategies.methods import (
    METHODS,
    aggregation_rows,
    default_tables,
    foreign_methods,
    table_of,
)
from curvfed.tasks import plugins
from curvfed.tasks.dataset import Dataset, dataset_class
from curvfed.tasks.errors import did_you_mean, near_names
from curvfed.tasks.kinds import KINDS
from curvfed.tasks.record_split import RecordSplit
from curvfed.tasks.registry import has_users, partitioned_kind

if TYPE_CHECKING:
    from curvfed.strategies.base.calibration import Calibration

FLOWER_ROW = Method(
    "an aggregation of Flower's",
    space="flat",
    server="curvfed.strategies.base.flower_strategy:FlowerStrategy",
    keys={"flower": Flower},
)
"""The row of all of Flower's strategies."""

LORENTZ_MODELS = ("lorentz", "lorentz-gcn", "gated", "split")
"""Networks with layers that FlatLand's keys describe, for every method."""

CURVED_MODELS = ("lorentz", "lorentz-gcn")
"""Those of them in curved space, unless its curvature is 0."""

_OTHER_LOSS_RATE = 0.1  # squared errors and distances have smaller gradients than cross-entropy


class RunConfig(RunKeys):
    """The configuration of a run. Frozen and hashable; server and clients each parse it once.

    `config_class` adds the method's own tables, and those of its aggregation, network and data.

    Attributes
    ----------
    unread : mapping of str to value
        The changed keys that this run does not read.
    """

    images: Images = Images()
    points: Points = Points()
    secure: Secure = Secure()
    flower: Flower = Flower()
    mlflow: MLflow = MLflow()
    wandb: WandB = WandB()
    _unread: dict[str, Scalar] = PrivateAttr(default_factory=dict)

    @property
    def unread(self) -> Mapping[str, Scalar]:
        """See the class."""
        return self._unread

    def with_unread(self, keys: Mapping[str, Scalar]) -> Self:
        """The configuration with these keys as the unread ones."""
        config = self.model_copy()
        config._unread = dict(keys)
        return config

    @property
    def row(self) -> Method:
        """The method's row."""
        return METHODS[self.method]

    def __getitem__(self, key: str) -> Scalar:
        """The value of a dotted key, such as "fedprox.mu"; the default if the run does not have the
        table."""
        values = _values(self)
        return values[key] if key in values else defaults()[key]

    def keys_of(self, method: Method) -> Table:
        """The first table of a method, which both halves receive; empty for a method without
        keys."""
        if method.keys:
            return self.table(next(iter(method.keys)))
        return Table()

    def table(self, name: str) -> Any:
        """The table of this name; a table without changed keys is imported, with its defaults."""
        keys = getattr(self, _field(name), None)
        return table_of(name)() if keys is None else keys

    @property
    def resumable_keys(self) -> frozenset[str]:
        """The method's own keys that may change when the run is resumed."""
        tables = self.row.keys.items()
        return frozenset(f"{table}.{key}" for table, keys in tables for key in keys.resumable)

    @property
    def own_keys(self) -> Table:
        """The method's own keys."""
        return self.keys_of(self.row)

    @property
    def network(self) -> Network:
        """The requirements of the method for its network."""
        return self.row.network_for(_values(self))

    @property
    def calibrator(self) -> "Calibration | None":
        """How the server makes a new classifier after the last round; None for most methods."""
        kind = self.network.calibration
        if self.calibration == "none":
            kind = None
        elif self.calibration == "ffc":
            from curvfed.strategies.base.least_squares import AffineForm, ClosedForm

            if kind is None or not issubclass(kind, ClosedForm):
                kind = AffineForm
        if kind is None:
            return None
        return kind(self.own_keys, self, self.guard)

    @property
    def num_public_classes(self) -> int | None:
        """The public number of classes; None if the clients name their classes."""
        return self.table("hull").num_classes

    @property
    def guards(self) -> list[Guard]:
        """All guards with their keys; at most one hides something."""
        return [kind(self) for kind in guards().values()]

    @property
    def guard(self) -> Guard:
        """The guard that hides something in this run, or one that hides nothing."""
        return next((guard for guard in self.guards if guard.is_private), Guard(self))

    @property
    def is_masked(self) -> bool:
        """Whether the server sees only sums over the clients."""
        return self.secure_sum or self.row.sums_only

    @property
    def sends_examples(self) -> bool:
        """Whether clients say their number of examples: with replies of open rounds it leaves them
        anyway."""
        return not (self.is_masked or self.row.is_one_shot)

    @property
    def fixed_by_num_rounds(self) -> tuple[int, ...]:
        """Numbers that depend on the number of rounds already in earlier rounds. A resumed run must
        not change them."""
        is_fixed = self.schedule == "cosine" or self.guard.is_private
        of_schedule = self.num_rounds if is_fixed else 0
        return of_schedule, self.own_keys.rounds_set(self.num_rounds)


def aggregation_row(name: str) -> Method | None:
    """The row with the server half and the keys of an aggregation that any method can use; None for
    other names."""
    if name in AGGREGATION_METHODS:
        return METHODS[AGGREGATION_METHODS[name]]
    return FLOWER_ROW if name in FLOWER else aggregation_rows().get(name)


def server_row(config: RunConfig) -> Method:
    """The row with the server half of a run: that of another aggregation if the configuration, with
    its defaults resolved, names one."""
    if config.aggregation == config.row.aggregation:
        return config.row
    row = aggregation_row(config.aggregation)
    assert row is not None, config.aggregation
    return row


def config_class(
    method: Method, aggregation: str, model: str = AUTO, keys: Iterable[str] = ()
) -> type[RunConfig]:
    """The class of configuration for a method.

    It has the tables of all guards, the method's tables, that of the aggregation, FlatLand's for a
    Lorentz network, and those of the kinds of data if one of their keys is in `keys`, the keys with
    changed values.
    """
    base_row = aggregation_row(aggregation)
    base = {} if base_row is None else base_row.keys
    tables = []
    if model in LORENTZ_MODELS or (model == AUTO and method.space in LORENTZ_MODELS):
        tables.append("flatland")
    of_data = {table for task in method.tasks for table in KINDS[task].tables}
    tables += sorted(of_data & {key.partition(".")[0] for key in keys if "." in key})
    shared_tables = {table: table_of(table) for table in tables if table not in method.keys}
    # `base` comes first for the order of the tables, and again last so that its class replaces the
    # method's, which has fewer keys.
    own = {**base, **shared_tables, **method.keys, **base}
    return _with_tables(tuple({**guard_tables(), **own}.items()))


def base_class() -> type[RunConfig]:
    """The class of configuration with the keys that every run has."""
    return _with_tables(tuple(guard_tables().items()))


@cache
def _with_tables(tables: tuple[tuple[str, type[Table]], ...]) -> type[RunConfig]:
    fields: dict[str, Any] = {_field(table): (keys, keys()) for table, keys in tables}
    fields = {name: field for name, field in fields.items() if name not in RunConfig.model_fields}
    if not fields:
        return RunConfig
    # Its fields have their descriptions, and pydantic would search for a source that is not there.
    no_source = {"use_attribute_docstrings": False}
    return create_model("RunConfig", __base__=RunConfig, __cls_kwargs__=no_source, **fields)


@lru_cache(maxsize=64)
def resolve_defaults(config: RunConfig, task: str) -> RunConfig:
    """The configuration with a value in place of every None: the method's or the task's.

    Cached, so that each side resolves its configuration once.

    Graphs have the settings of FlatLand's Appendix E.2, but with decoupled weight decay, and for
    every method with moments that stay at the client between rounds, as in the code of all its
    baselines. Images have the five local epochs, d = 20 and the split of HyperFed's Section 5.1,
    SphereFed's SGD with momentum .9, and rates that suit networks without normalisation too.
    """
    method = config.row
    kind = KINDS[task]
    kind_of_parts = KINDS[partitioned_kind(task, config.dataset, config.data_path)]
    choices = dict(kind.defaults) | {
        "partition": kind_of_parts.defaults["partition"],
        "aggregation": method.aggregation,
        "fine_tune": "trained",
        "weights": "examples",
    }
    if config.network.loss != "cross-entropy":
        choices["learning_rate"] = _OTHER_LOSS_RATE
    if "users" in KINDS[task].partitions and has_users(config.dataset, config.data_path):
        choices["partition"] = "users"
    choices |= method.settings.get(task, {})
    choices |= config.guard.settings
    optimizer = config.optimizer or choices["optimizer"]
    choices.setdefault("optimizer_state", "fresh" if optimizer == "sgd" else "kept")
    if not kind.has_validation:
        test_size = choices["test_size"] if config.test_size is None else config.test_size
        choices["train_size"] = 1 - test_size
    resolved = {name: value for name, value in choices.items() if getattr(config, name) is None}
    if config.aggregation in plugins.of_extensions("aggregation-choices"):
        choose = plugins.addition("aggregation-choices", config.aggregation)
        resolved["aggregation"] = choose(method)
    return config.model_copy(update=resolved)


def with_bits(config: RunConfig, bits: int) -> RunConfig:
    """The configuration with the bits of the 16-bit images of a run's clients, if it leaves them
    open and the clients have such images; 0: they have none."""
    if not bits or config.images.bits is not None:
        return config
    images = config.images.model_copy(update={"bits": bits})
    return config.model_copy(update={"images": images})


def _field(table: str) -> str:
    return table.replace("-", "_")


@lru_cache(maxsize=64)
def _values(config: RunConfig) -> Mapping[str, Any]:
    """The values by dotted key, cached: clients read them in every round, and flattening takes a
    third of a millisecond."""
    return flatten(config)


def flatten(config: RunConfig) -> dict[str, Scalar]:
    """The configuration as dotted keys; `parse` is its inverse."""
    values = dotted(config.model_dump(by_alias=True, warnings=False))
    return {key: AUTO if value is None else value for key, value in values.items()}


def plain(value: Any) -> str:
    """A value as `key=value` on the command line has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def open_dataset(config: RunConfig, task: str, record_split: RecordSplit | None = None) -> Dataset:
    """The data set of a run with this task, with a node's own split if it has one; prepared clients
    are in the user's cache."""
    dataset = dataset_class(task).of_run(resolve_defaults(config, task), home() / "cache")
    return dataset.split_by(record_split)


SYNONYMS = {
    "lr": "learning-rate",
    "epochs": "local-epochs",
    "rounds": "num-rounds",
    "clients": "num-supernodes",
    "num-clients": "num-supernodes",
    "model-name": "model",
    "data": "dataset",
    "output": "results-dir",
    "n-clients": "num-supernodes",
    "num-epochs": "local-epochs",
    "bs": "batch-size",
    "wd": "weight-decay",
    "hidden": "embedding-dim",
    "hidden-dim": "embedding-dim",
    "gpu": "device",
    "root": "data-dir",
}
"""The keys of this app, by their names in other programs."""


def nearest_key(key: str, keys: Collection[str]) -> str:
    """The first of `nearest_keys`; empty if none is near."""
    return next(iter(nearest_keys(key, keys)), "")


def nearest_keys(key: str, keys: Collection[str]) -> list[str]:
    """The synonym of an unknown key, or the keys of tables with this name, or the key with the
    closest spelling."""
    spelled = kebab(key.lower())
    if spelled in SYNONYMS or spelled in keys:
        return [SYNONYMS.get(spelled, spelled)]
    of_tables = [name for name in keys if name.rpartition(".")[2] == spelled]
    return of_tables or near_names(spelled, keys)[:1]


def key_hint(key: str, keys: Collection[str]) -> str:
    """The end of a sentence about an unknown key: that it is a table, the nearest keys, or the page
    with all."""
    spelled = kebab(key.lower())
    inner = next((name for name in keys if name.startswith(f"{spelled}.")), "")
    if inner:
        return f'; it is a table of keys, such as "{inner}"'
    near = nearest_keys(key, keys)
    if near:
        names = " or ".join(f'"{name}"' for name in near)
        return f"; did you mean {names}?"
    return did_you_mean(key, keys, "docs/configuration.md")


@cache
def defaults() -> dict[str, Scalar]:
    """The default of every dotted key; keys of other packages' methods come last."""
    values: dict[str, Any] = default_values(RunKeys)
    values |= {name: default_values(keys) for name, keys in (SHARED | guard_tables()).items()}
    values |= default_tables()
    values |= {name: default_values(keys) for name, keys in foreign_tables().items()}
    return dotted(values)


def foreign_tables() -> dict[str, type[Table]]:
    """The tables of other packages' methods, by name."""
    return {name: keys for row in foreign_methods()[0].values() for name, keys in row.keys.items()}


def defaults_of(method: str) -> dict[str, Scalar]:
    """The defaults of the keys that a run of this method accepts.

    The keys of another package are included only for a method of that package, so that other runs
    do not need it.
    """
    row = foreign_methods()[0].get(method)
    foreign = foreign_tables().keys() - (row.keys.keys() if row else set())
    return {key: value for key, value in defaults().items() if key.partition(".")[0] not in foreign}

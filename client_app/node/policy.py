"""A node's own policy: it limits the requests of runs. `policy_file` reads it."""

import json
import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, Field

from curvfed.strategies.base.guard import budget_remedies
from curvfed.strategies.base.keys import Rate, Scalar, Table
from curvfed.strategies.base.shared_tables import GROUP_SIZE, Images, Points, Secure
from curvfed.strategies.config.run_config import RunConfig, defaults, flatten, key_hint
from curvfed.strategies.errors import ConfigError, SecureSumError
from curvfed.tasks import plugins
from curvfed.tasks.registry import is_named

Item = TypeVar("Item")
Listed = Annotated[tuple[Item, ...], Field(strict=False)]  # TOML has lists, not tuples
Share = Annotated[float, Field(ge=0, le=1)]
Digest = Annotated[str, Field(pattern="^sha256:[0-9a-f]{64}$")]

INSTALLED: Final = "installed"
ANY: Final = "any"
DIGESTS = 'a list of digests, "sha256:" and 64 hexadecimal digits,'


class Range(Table):
    """The allowed values of a run's key, from `min` to `max`."""

    min: Rate | None = None
    max: Rate | None = None


def _check_keys(keys: Mapping[str, Any]) -> Mapping[str, Any]:
    if unknown := [key for key in keys if key not in defaults()]:
        raise ValueError(f"no run has a key {toml(unknown[0])}{key_hint(unknown[0], defaults())}")
    return keys


class Data(Table):
    """[data]: the data that the node gives to a run, and how it reads them."""

    path: str | None = Field(
        default=None, pattern="^[/~]", description="an absolute path in quotes"
    )
    label_key: str | None = Field(default=None, description="a name in quotes")
    embedding_key: str | None = Field(default=None, description="a name in quotes")
    classes: Listed[str] | None = Field(default=None, description="a list of names")
    curvature: Rate | None = Field(default=None, lt=0, description="a number below 0")
    classes_at: int | None = Field(
        default=None, ge=1, le=20, description="a whole number from 1 to 20"
    )
    train_size: float | None = Field(
        default=None, gt=0, lt=1, description="a share above 0 and below 1"
    )
    test_size: float | None = Field(default=None, ge=0, lt=1, description="a share from 0, below 1")
    public: Listed[str] | None = Field(
        default=None, description="a list of names of public data sets"
    )


class Runs(Table):
    """[runs]: the runs that the node takes part in, the code that it runs for them, and its action
    after losing personal parameters."""

    methods: Listed[str] | None = Field(default=None, description="a list of names of methods")
    calibrations: Listed[str] | None = Field(
        default=None, description="a list of values of the run's key calibration"
    )
    keys: Annotated[dict[str, Listed[Scalar] | Range], AfterValidator(_check_keys)] = Field(
        default={},
        description='"key of a run" = a list of its allowed values, or { min = …, max = … }',
    )
    lost_state: Literal["refuse", "previous", "fresh"] | None = Field(
        default=None, description='"refuse", "previous" or "fresh"'
    )
    code: Literal["installed", "any"] | Listed[Digest] = Field(
        default=INSTALLED, description=f'"installed", "any", or {DIGESTS} of bundles'
    )
    starts: Literal["any"] | Listed[Digest] = Field(
        default=(), description=f'"any", or {DIGESTS} of starting parameters'
    )
    configurations: int = Field(default=1, ge=1, description="a whole number, 1 or more")


class Leaves(Table):
    """[leaves]: limits on information that leaves the node."""

    secure_sum: bool = Field(default=False, description="true or false")
    share_statistics: bool | None = Field(default=None, description="true or false")
    hull_max_share: Share = Field(default=1.0, description="a share from 0 to 1")
    hull_min_class_size: int | None = Field(
        default=None, ge=1, description="a whole number, 1 or more"
    )


class Sums(Table):
    """[sums]: the secure sums that the node takes part in, and how often its group may change."""

    group_size: int = Field(default=GROUP_SIZE, ge=2, description="a whole number, 2 or more")
    contributors: int = Field(default=3, ge=2, description="a whole number, 2 or more")
    weight_share: float = Field(default=0.5, gt=0, le=1, description="a share above 0, up to 1")
    others_examples: int = Field(default=10, ge=0, description="a whole number, 0 or more")
    min_holders: int | None = Field(default=None, ge=1, description="a whole number, 1 or more")
    regroups_per_quarter: int = Field(default=1, ge=0, description="a whole number, 0 or more")


class Privacy(Table):
    """[privacy]: the budget of differential privacy, of all runs together."""

    max_epsilon: Rate | None = Field(default=None, gt=0, description="a number above 0")
    delta: float = Field(default=1e-5, gt=0, lt=0.1, description="a number above 0 and below 0.1")


READING = {
    "label-key": "points",
    "embedding-key": "points",
    "classes": "points",
    "curvature": "points",
    "classes-at": "images",
}
"""The keys of [data] for reading a node's own data, with the table of the run's key."""


class Policy(Table):
    """The policy of a node. The defaults are those of a real node without a `policy.toml`.

    Attributes
    ----------
    data : Data
        `path`: the node's `data-path`. Keys of `READING`: a run with another value is refused; a
        run with the key at its default gets the node's value. `train_size`, `test_size`: the split
        of the node's own data, see `curvfed.client_app.node.own_split`. `public`: the public data
        sets that the node has a part of.
    runs : Runs
        `methods`: the allowed methods, each with its own calibration. `calibrations`: further ones;
        without a line none if `methods` is set, else all. `keys`: by key of a run, a list of
        allowed values or a range. `lost_state`: as in the node's configuration. `code`: the allowed
        code. `starts`: the allowed starting parameters, in addition to those that a run's seed
        yields. `configurations`: the number of configurations under which the node gives masked
        sums of one start, and one-shot sums of one state of its data.
    leaves : Leaves
        As in the node's configuration; the stricter of both applies. `hull_min_class_size`: hulls,
        sums and counts of a class with fewer examples stay at the node, see `Node.min_class_size`.
    sums : Sums
        `group_size`: the smallest size of the groups into which the roster is divided.
        `contributors`: the minimum number of nodes in a sum. `regroups_per_quarter`: how often the
        node's group may change in 90 days. `weight_share`: the largest allowed share of this node's
        examples in a sum. `others_examples`: the minimum number of examples of the others together.
        `min_holders`: results of a class or an entity that fewer members have stay at the node;
        without a line 3, or all members of a smaller group.
    privacy : Privacy
        `max_epsilon` at `delta`: the budget of all private runs together. A node with a budget
        takes part only in runs with a guard that hides something and keeps to the budget
        (`Guard.keeps_budget`), and sends no reply whose cost is not in its ledger.
    """

    data: Data = Data()
    runs: Runs = Runs()
    leaves: Leaves = Leaves()
    sums: Sums = Sums()
    privacy: Privacy = Privacy()

    @property
    def has_budget(self) -> bool:
        """Whether the policy has a budget of differential privacy."""
        return self.privacy.max_epsilon is not None

    def check_run(self, config: RunConfig, owns_data: bool) -> RunConfig:
        """Refuse a run that the policy does not allow, before data are read.

        Returns
        -------
        RunConfig
            With the node's own keys for reading its file.

        Raises
        ------
        ConfigError
            Names the key and the line of the policy, but not the policy's values for the data.
        """
        if self.runs.methods is not None and config.method not in self.runs.methods:
            raise _refused("method", config.method, f"[runs] methods = {toml(self.runs.methods)}")
        self._check_calibration(config.calibration)
        values = flatten(config)
        for key, allowed in self.runs.keys.items():
            if key in values and not _fits(values[key], allowed):
                raise _refused(key, values[key], f'[runs] keys, "{key}" = {toml(allowed)}')
        if self.has_budget and not (config.guard.is_private and config.guard.keeps_budget):
            remedies = budget_remedies()
            words = f"allowed is {', or '.join(remedies)}" if remedies else "no guard here does"
            raise ConfigError(
                "this node's policy.toml allows only runs with a guard that keeps to its budget,"
                f" [privacy] max-epsilon = {self.privacy.max_epsilon:g}:"
                f" {words}{plugins.absent_hint('guards')}",
                key="policy",
            )
        if config.secure.clip != Secure().clip:
            self._check_listed("secure.clip", config.secure.clip, "[values]")
        if config.model is not None and plugins.is_model(config.model):
            self._check_listed("model", config.model, toml([config.model]))
        if owns_data:
            return self._read_as_agreed(config)
        if not is_named(config.dataset):
            raise ConfigError(
                "this node has a part of a public data set, which the run names; it reads no path"
                " of a run. Its own data need data-path in its --node-config",
                key="path-of-a-run",
            )
        if self.data.public is not None:
            names = {name.strip().lower() for name in config.dataset.split(",")}
            if not names <= {name.lower() for name in self.data.public}:
                raise _refused(
                    "dataset", config.dataset, f"[data] public = {toml(self.data.public)}"
                )
        if config.data_dir:
            self._check_listed("data-dir", config.data_dir, "[a folder]")
        return config

    def _check_calibration(self, asked: str | None) -> None:
        """Refuse a calibration that is not the method's own, unless the policy names it."""
        listed = self.runs.calibrations
        if listed is None and self.runs.methods is not None:
            listed = ()
        if asked is None or asked == "none" or listed is None or asked in listed:
            return
        line = f"calibrations = {toml([*listed, asked])}"
        raise _refused("calibration", asked, f"[runs] needs the line {line}")

    def _check_listed(self, key: str, value: Scalar, line: str) -> None:
        """Refuse the value of a key that [runs] keys must allow explicitly."""
        if key not in self.runs.keys:
            raise _refused(key, value, f'[runs] keys, without a line "{key}" = {line}')

    def reading(self) -> dict[str, Any]:
        """The values of [data] for reading the node's data, by the run's keys."""
        values = {
            f"{table}.{key}": getattr(self.data, key.replace("-", "_"))
            for key, table in READING.items()
        }
        return {key: value for key, value in values.items() if value is not None}

    def read_as(self, config: RunConfig) -> RunConfig:
        """A run's configuration with the policy's keys for reading the node's data."""
        values: dict[str, dict[str, Any]] = {table: {} for table in READING.values()}
        for run_key, value in self.reading().items():
            table, key = run_key.split(".")
            values[table][key.replace("-", "_")] = ",".join(value) if key == "classes" else value
        tables = {name: getattr(config, name).model_copy(update=v) for name, v in values.items()}
        return config.model_copy(update=tables)

    def _read_as_agreed(self, config: RunConfig) -> RunConfig:
        agreed = self.read_as(config.model_copy(update={"points": Points(), "images": Images()}))
        if config.points.split_seed is not None:
            raise ConfigError(
                f"points.split-seed = {config.points.split_seed}: this node splits its own data by"
                " a hash of each record, and by no seed",
                key="own-split",
            )
        for key, table in READING.items():
            name = key.replace("-", "_")
            keys = getattr(config, table)
            value = getattr(keys, name)
            # A key at its default requests nothing, except the curvature, which is a public
            # parameter of the sum, too.
            requests = key == "curvature" or value != type(keys).model_fields[name].default
            if requests and value != getattr(getattr(agreed, table), name):
                line = f"{key} = {toml(value.split(',') if key == 'classes' else value)}"
                raise ConfigError(
                    f"this node decides itself how its data are read: {table}.{key} ="
                    f" {toml(value)} is not what its policy.toml says in [data]; the line {line}"
                    " there would allow it",
                    key="policy",
                )
        return self.read_as(config)

    def check_contributors(self, number: int) -> None:
        """Refuse a sum over fewer nodes than the policy allows.

        Raises
        ------
        SecureSumError
        """
        if number < self.sums.contributors:
            raise SecureSumError(
                f"this node takes no part in a secure sum over {number} nodes: [sums] contributors"
                f" = {self.sums.contributors} in its policy",
                key="small-sum",
            )

    def max_weight(self, others: int) -> float:
        """The largest allowed weight of this node in a sum, if the others have this number of
        examples.

        Raises
        ------
        SecureSumError
            If the others have too few.
        """
        sums = self.sums
        if others < sums.others_examples:
            raise SecureSumError(
                "the other members have too few examples to hide this node's; members whose"
                " present data have answered in the open do not count: allowed are further members,"
                f" or less than [sums] others-examples = {sums.others_examples} in this node's"
                " policy",
                key="few-examples",
            )
        if sums.weight_share == 1:
            return math.inf
        return others * sums.weight_share / (1 - sums.weight_share)


def _fits(value: Scalar, allowed: tuple[Scalar, ...] | Range) -> bool:
    is_bool = isinstance(value, bool)
    if not isinstance(allowed, Range):
        return any(value == item and is_bool == isinstance(item, bool) for item in allowed)
    if is_bool or not isinstance(value, int | float):
        return False
    is_low = allowed.min is not None and value < allowed.min
    is_high = allowed.max is not None and value > allowed.max
    return not (is_low or is_high or math.isnan(value))


def _refused(key: str, value: Scalar, line: str) -> ConfigError:
    return ConfigError(
        f"this node's policy.toml does not allow {key} = {toml(value)}: {line}", key="policy"
    )


def toml(value: Any) -> str:
    """A value as a policy writes it."""
    plain = value.model_dump(exclude_none=True) if isinstance(value, Table) else value
    return json.dumps(plain, ensure_ascii=False, default=str)

"""A node's own policy, read from its `policy.toml`: what a run may ask of it. A run can ask for
less, never for more."""

import json
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field, ValidationError

from curvfed.client_app.node.configuration import absolute, max_share
from curvfed.strategies.base.dotted import Scalar, toml_text
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.shared_tables import Points, Secure
from curvfed.strategies.config.all_keys import defaults
from curvfed.strategies.config.run_config import RunConfig, flatten
from curvfed.tasks import plugins
from curvfed.tasks.names import is_named

if TYPE_CHECKING:
    from curvfed.strategies.secure_sum.errors import SecureSumError
    from curvfed.strategies.secure_sum.session import Session

Item = TypeVar("Item")
Listed = Annotated[tuple[Item, ...], Field(strict=False)]  # TOML has lists alone
Share = Annotated[float, Field(ge=0, le=1)]

READING = ("label-key", "embedding-key", "classes", "curvature", "split-seed")
"""The keys of [data] that decide how a node's own file is read; a run's are `points.…`."""


class Range(Table):
    """The values that a key of a run may have, from `min` to `max`."""

    min: Rate | None = None
    max: Rate | None = None


def _known(keys: Mapping[str, Any]) -> Mapping[str, Any]:
    if unknown := [key for key in keys if key not in defaults()]:
        raise ValueError(f"no run has a key {unknown[0]}")
    return keys


class Data(Table):
    """[data]: which data the node gives to a run, and how they are read."""

    path: str | None = Field(
        default=None, pattern="^[/~]", description="an absolute path in quotes"
    )
    label_key: str | None = Field(default=None, description="a name in quotes")
    embedding_key: str | None = Field(default=None, description="a name in quotes")
    classes: Listed[str] | None = Field(default=None, description="a list of names")
    curvature: Rate | None = Field(default=None, lt=0, description="a number below 0")
    split_seed: int | None = Field(
        default=None, ge=0, lt=2**31, description="a whole number, 0 or more"
    )
    public: Listed[str] | None = Field(
        default=None, description="a list of names of public data sets"
    )


class Runs(Table):
    """[runs]: which runs the node takes part in, and what it does in one whose personal parameters
    it has lost."""

    methods: Listed[str] | None = Field(default=None, description="a list of names of methods")
    keys: Annotated[dict[str, Listed[Scalar] | Range], AfterValidator(_known)] = Field(
        default={},
        description='"key of a run" = a list of its allowed values, or { min = …, max = … }',
    )
    lost_state: Literal["refuse", "previous", "fresh"] | None = Field(
        default=None, description='"refuse", "previous" or "fresh"'
    )


class Leaves(Table):
    """[leaves]: what may leave the node."""

    secure_sum: bool = Field(default=False, description="true or false")
    share_statistics: bool | None = Field(default=None, description="true or false")
    hull_max_share: Share = Field(default=1.0, description="a share from 0 to 1")
    hull_min_class_size: int = Field(default=1, ge=1, description="a whole number, 1 or more")


class Sums(Table):
    """[sums]: how large a secure sum must be before the node takes part in it."""

    contributors: int = Field(default=3, ge=2, description="a whole number, 2 or more")
    roster_share: Share = Field(default=0.5, description="a share from 0 to 1")
    threshold_share: float = Field(
        default=0.5, ge=0.5, lt=1, description="a share from 0.5 to below 1"
    )
    neighbours: int | None = Field(default=None, ge=1, description="a whole number, 1 or more")
    fixed_groups: bool = Field(default=False, description="true or false")
    nearness: Share = Field(default=0.1, description="a share from 0 to 1")


class Policy(Table):
    """What a node decides for itself. Its defaults are those of a real node without a
    `policy.toml`.

    Attributes
    ----------
    data : Data
        `path`: the node's `data-path`. The others of `READING`: a run that has another value is
        refused, and one that leaves the key at its default gets the node's value. `public`: the
        public data sets of which the node holds a part.
    runs : Runs
        `methods`: the allowed ones. `keys`: a list of allowed values, or a range, by key of a run.
        `lost_state`: as the node's configuration has it.
    leaves : Leaves
        As the node's configuration has them; the stricter of both counts. `hull_min_class_size`:
        the hull of a class with fewer training points stays at the node.
    sums : Sums
        `contributors`: the least number of nodes in a sum. `roster_share`: the least share of the
        roster that takes part. `threshold_share`: the sum's threshold is above this share of its
        members. `neighbours`: the least number. The node's memory of former sums reads
        `fixed_groups` and `nearness`.
    """

    data: Data = Data()
    runs: Runs = Runs()
    leaves: Leaves = Leaves()
    sums: Sums = Sums()

    def applied(self, node_config: Mapping[str, Any]) -> dict[str, Any]:
        """The node's configuration with what its policy adds; of two limits the stricter.

        Raises
        ------
        ConfigError
            If they name different data, or differ in `lost-state`.
        """
        found = dict(node_config)
        if self.data.path is not None:
            given = absolute(str(found.setdefault("data-path", self.data.path)))
            if given != absolute(self.data.path):
                raise ConfigError(
                    "data-path in this node's --node-config and path in [data] of its policy.toml"
                    " differ"
                )
        if self.leaves.secure_sum:
            found["secure-sum"] = True
        if self.leaves.share_statistics is False:
            found["share-statistics"] = False
        if (own := self.runs.lost_state) is not None and found.setdefault("lost-state", own) != own:
            raise ConfigError(
                "lost-state in this node's --node-config and in [runs] of its policy.toml differ"
            )
        found["hull-max-share"] = min(max_share(found), self.leaves.hull_max_share)
        return found

    def check_run(self, config: RunConfig, owns_data: bool) -> RunConfig:
        """Refuse a run that asks for what the node does not give, before any data are read.

        Returns
        -------
        RunConfig
            With the node's own way to read its file.

        Raises
        ------
        ConfigError
            Names the key and the line of the policy that decides. What the policy itself says of
            the data is not told.
        """
        allowed = self.runs.keys
        if self.runs.methods is not None and config.method not in self.runs.methods:
            raise _refused("method", config.method, f"[runs] methods = {_toml(self.runs.methods)}")
        values = flatten(config)
        for key, wanted in allowed.items():
            if key in values and not _fits(values[key], wanted):
                raise _refused(key, values[key], f'[runs] keys, "{key}" = {_toml(wanted)}')
        if config.secure.clip != Secure().clip and "secure.clip" not in allowed:
            raise _refused(
                "secure.clip",
                config.secure.clip,
                '[runs] keys, without a line "secure.clip" = [values]',
            )
        if config.model is not None and plugins.is_model(config.model) and "model" not in allowed:
            raise _refused(
                "model",
                config.model,
                f'[runs] keys, without a line "model" = {_toml([config.model])}',
            )
        if owns_data:
            return self._read_as_agreed(config)
        if not is_named(config.dataset):
            raise ConfigError(
                "this node holds a part of a public data set, which the run names; it reads no path"
                " that a run gives. Its own data need data-path in its --node-config"
            )
        names = [name.strip().lower() for name in config.dataset.split(",")]
        if self.data.public is not None and not {*names} <= {
            name.lower() for name in self.data.public
        }:
            raise _refused("dataset", config.dataset, f"[data] public = {_toml(self.data.public)}")
        if config.data_dir and "data-dir" not in allowed:
            raise _refused(
                "data-dir", config.data_dir, '[runs] keys, without a line "data-dir" = [a folder]'
            )
        return config

    def read_as(self, config: RunConfig) -> RunConfig:
        """A run's configuration with the node's own way to read its file, where the policy has
        one.
        """
        own = {key.replace("-", "_"): getattr(self.data, key.replace("-", "_")) for key in READING}
        own["classes"] = None if own["classes"] is None else ",".join(own["classes"])
        given = {name: value for name, value in own.items() if value is not None}
        return config.model_copy(update={"points": config.points.model_copy(update=given)})

    def _read_as_agreed(self, config: RunConfig) -> RunConfig:
        own = self.read_as(
            config.model_copy(update={"points": Points(split_seed=config.points.split_seed)})
        )
        for key in READING:
            name = key.replace("-", "_")
            asked = getattr(config.points, name)
            default = Points.model_fields[name].default
            # A key at its default asks for nothing, but the curvature is a public parameter of the
            # sum too.
            if asked != getattr(own.points, name) and (asked != default or key == "curvature"):
                line = f"{key} = {_toml(asked.split(',') if key == 'classes' else asked)}"
                raise ConfigError(
                    f"this node decides itself how its data are read: points.{key} = {_toml(asked)}"
                    f" is not what its policy.toml says in [data]; the line {line} there would"
                    " allow it"
                )
        return self.read_as(config)

    def check_sum(self, session: "Session", roster: Mapping[int, bytes] | None) -> None:
        """Refuse a secure sum that is too small, before this node takes part in it.

        Parameters
        ----------
        session : Session
        roster : mapping or None
            The public keys of all nodes by partition. Without one, `roster_share` cannot be
            checked.

        Raises
        ------
        SecureSumError
        """
        members = len(session.clients)
        sums = self.sums
        self.check_contributors(session.clients, roster)
        if session.needed <= sums.threshold_share * members:
            raise _small(
                f"a threshold of {session.needed} of {members}",
                "threshold-share",
                sums.threshold_share,
            )
        least = sums.neighbours or replace(session, neighbours=0).degree
        if session.degree < min(least, members - 1):
            raise _small(f"{session.degree} neighbours", "neighbours", least)

    def check_contributors(
        self, contributors: Collection[int], roster: Mapping[int, bytes] | None
    ) -> None:
        """Refuse a sum over fewer nodes than the policy allows, also after some of them have
        dropped out.

        Raises
        ------
        SecureSumError
        """
        number = len(contributors)
        sums = self.sums
        if number < sums.contributors:
            raise _small(f"{number} nodes", "contributors", sums.contributors)
        if roster is not None and number < sums.roster_share * len(roster):
            raise _small(
                f"{number} of {len(roster)} nodes in the roster", "roster-share", sums.roster_share
            )


def policy_of(node_config: Mapping[str, Any]) -> Policy:
    """The policy of a real node.

    Raises
    ------
    ConfigError
        If its file cannot be read, or says something that is not allowed; a line for each error.
    """
    if "policy" not in node_config:
        return Policy()
    path = absolute(str(node_config["policy"]))
    try:
        text = toml_text(path.read_bytes())
        return Policy.model_validate(tomllib.loads(text))
    except OSError as error:
        raise ConfigError(f"policy: {path} cannot be read ({error.strerror})") from None
    except ValidationError as error:
        wrong = dict.fromkeys(_line(text, one["loc"], one["input"]) for one in error.errors())
        refused = ConfigError("\n".join(f"policy: {path}, {line}" for line in wrong))
        refused.names = tuple(
            str(one["input"]) for one in error.errors() if one["loc"][-1] == "path"
        )
        raise refused from None
    except ValueError as error:  # not TOML, or not UTF-8
        raise ConfigError(f"policy: {path} cannot be read ({error})") from None


def _line(text: str, location: tuple[int | str, ...], value: Any) -> str:
    """The line of a policy that has an error, its value and what is allowed."""
    section, key = (*map(str, location), "")[:2]
    heading = ""
    places: dict[tuple[str, str], int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        name = line.partition("=")[0].strip('[]" ')
        heading = name if line.startswith("[") else heading
        places.setdefault((heading, name), number)
    wanted = ((section, key), (f"{section}.{key}",) * 2, (section, section), ("", section))
    where = next((f"line {places[one]}" for one in wanted if one in places), "in a table")
    kind: Any = (
        Policy.model_fields[section].annotation if section in Policy.model_fields else Policy
    )
    field = kind.model_fields.get(key.replace("-", "_"))
    if field is not None:
        return f"{where}: [{section}] {key} = {_toml(value)}; allowed is {field.description}"
    known = ", ".join(name.replace("_", "-") for name in kind.model_fields)
    return f'{where}: there is no "{key or section}"; allowed are {known}'


def _fits(value: Scalar, wanted: tuple[Scalar, ...] | Range) -> bool:
    if not isinstance(wanted, Range):
        return any(
            value == one and isinstance(value, bool) == isinstance(one, bool) for one in wanted
        )
    low = -float("inf") if wanted.min is None else wanted.min
    high = float("inf") if wanted.max is None else wanted.max
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def _refused(key: str, value: Scalar, line: str) -> ConfigError:
    return ConfigError(f"this node's policy.toml does not allow {key} = {_toml(value)}: {line}")


def _small(what: str, line: str, least: float) -> "SecureSumError":
    from curvfed.strategies.secure_sum.errors import SecureSumError

    return SecureSumError(
        f"this node takes no part in a secure sum over {what}: [sums] {line} = {least:g} in its"
        " policy"
    )


def _toml(value: Any) -> str:
    """A value as a policy writes it."""
    plain = value.model_dump(exclude_none=True) if isinstance(value, Table) else value
    return json.dumps(plain, ensure_ascii=False, default=str)

"""A node as its owner configured it: its data, the limits on information that leaves it, the folder
of its state, and the public text of its errors. Only this file reads its `--node-config` and its
`policy.toml`; the stricter of both applies. Other files of this folder have its policy, keys and
ledger."""

import contextlib
import difflib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasGenerator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from curvfed.client_app.node.policy import Policy
from curvfed.client_app.node.policy_file import read_policy
from curvfed.strategies.base.keys import kebab
from curvfed.strategies.base.run_keys import home
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.errors import DataError

IN_MEMORY = "in-memory"
"""Key of a client's data in a simulation in this process. The value is neither a number nor text,
so no real node's configuration can contain it."""

SIMULATED: dict[str, Any] = {"simulated": ()}
"""Marks a client of a simulation in this process; as with `IN_MEMORY`, no real node's configuration
can contain it."""

RAY_ACTOR = "flwr.simulation.ray_transport.ray_actor"
"""The module of Flower's simulated nodes, which their processes import."""

PATHS = ("data-path", "state-path", "policy", "signing-key", "roster")
"""The keys that are paths on the node's disk."""

_NUMBER = re.compile(r"((?:int|float|complex)\d+)|[-+]?\d(?:[\d.,]*\d)?(?:e[-+]?\d+)?")


def absolute(path: str) -> Path:
    """A path of the node's configuration, as an absolute path."""
    with contextlib.suppress(RuntimeError):  # "~name" without such a user
        return Path(path).expanduser().absolute()
    return Path(path).absolute()


def is_real(node_config: Mapping[str, Any]) -> bool:
    """Whether this is a real node and not a part of a simulation.

    The node's own process decides this, never a message. Simulated are only the clients marked by a
    simulation in this process, and the actors of Flower's simulation.
    """
    return not (isinstance(node_config.get("simulated"), tuple) or _is_actor())


def _is_actor() -> bool:
    """Whether this process is an actor of Flower's simulation."""
    ray = sys.modules.get("ray")
    return bool(
        ray
        and RAY_ACTOR in sys.modules
        and ray.is_initialized()
        and ray.get_runtime_context().get_actor_id()
    )


def partition_of(node_config: Mapping[str, Any]) -> int:
    """The node's number, also if the configuration has other faults; -1 without a valid one."""
    partition = node_config.get("partition-id")
    return partition if type(partition) is int and partition >= 0 else -1


def public_text(error: Exception, node_config: Mapping[str, Any]) -> str:
    """The text of an error, as it may be sent.

    A real node sends no paths and no names of its files. Errors about the data contain no numbers:
    many counts would reveal the distribution of the data.
    """
    if not is_real(node_config):
        return str(error)
    places = {str(absolute(str(node_config[key]))): key for key in PATHS if key in node_config}

    def hide_paths(text: str) -> str:
        for place in sorted(places, key=len, reverse=True):
            text = text.replace(place, places[place])
        return text.replace(str(home()), "~/curvfed")

    public = hide_paths(str(error))
    names = filter(None, getattr(error, "names", ()))
    for name in sorted(names, key=len, reverse=True):
        hidden = hide_paths(name)  # a library's text can contain the path
        # Cut out of other words too, a short name would show in what is left of them.
        alone = rf"(?<![^\W_]){re.escape(hidden)}(?![^\W_])"
        public, number = re.subn(alone, "…", public)
        if not number:
            public = public.replace(hidden, "…")
    if isinstance(error, DataError):
        public = _NUMBER.sub(lambda match: match[1] or "…", public)
        public += "; the node's own log says more"
    return public


REFUSE = "refuse"
PREVIOUS = "previous"
FRESH = "fresh"
"""A node that has lost the personal parameters of the requested round stays out of the run,
continues from those of an earlier round, or starts afresh."""

MIN_CLASS_SIZE = 5
"""Default of [leaves] hull-min-class-size for data of the node's own: the hull of one or two
examples is these examples, and the mean of few is close to each."""

TEXT = "allowed is text in double quotes"
FLAG = "allowed are true and false"


def _path(value: Any) -> Path | None:
    if value is None or isinstance(value, Path):
        return value
    if not isinstance(value, str) or not value:
        raise ValueError(TEXT)
    return absolute(value)


NodePath = Annotated[Path | None, BeforeValidator(_path), Field(description=TEXT, repr=False)]


class Node(BaseModel):
    """The decisions of one node's owner; no message changes them.

    A key that is not set has its default. Descriptions name the allowed values. The representation
    as text omits paths, the policy and data in memory.

    Attributes
    ----------
    partition : int
        The node's number in a run, its `partition-id`.
    num_partitions : int or None
        Number of parts of a public data set; the node has one of them.
    data_path : Path or None
        The node's own data.
    state_path : Path or None
        The folder of a real node's state; by default below the user's folder.
    policy_path : Path or None
        The node's `policy.toml`.
    lost_state : {"refuse", "previous", "fresh"}
        The action after losing personal parameters.
    device : str or None
        None for the device of the run.
    share_statistics : bool or None
        Whether statistics of own data may leave; None if the run decides.
    secure_sum : bool
        Whether the node takes part only in secure sums.
    signing_key, roster : Path or None
        The PEM file of its Ed25519 key, and the folder of all nodes' public keys.
    hull_max_share : float
        The largest share of its points that its hulls reveal.
    data : object or None
        Data in memory, in a simulation in this process.
    rules : Policy or None
        The policy of a real node; None in a simulation.
    """

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        alias_generator=AliasGenerator(validation_alias=kebab),
        populate_by_name=True,
        extra="ignore",
    )

    partition: int = Field(
        validation_alias="partition-id",
        ge=0,
        description="needed is a whole number, 0 or more, of its own",
    )
    num_partitions: int | None = Field(
        default=None, description="allowed is a whole number above its partition-id"
    )
    data_path: NodePath = None
    state_path: NodePath = None
    policy_path: NodePath = Field(default=None, validation_alias="policy")
    lost_state: Literal["refuse", "previous", "fresh"] = Field(
        default="refuse", description="allowed are refuse, previous, fresh, in double quotes"
    )
    device: str | None = Field(default=None, min_length=1, description=TEXT)
    share_statistics: bool | None = Field(default=None, description=FLAG)
    secure_sum: bool = Field(default=False, description=FLAG)
    signing_key: NodePath = None
    roster: NodePath = None
    hull_max_share: float = Field(
        default=1.0, ge=0, le=1, description="allowed is a share in [0, 1]"
    )
    data: Any = Field(default=None, validation_alias=IN_MEMORY, repr=False)
    rules: Policy | None = Field(default=None, repr=False)

    @classmethod
    def read(cls, node_config: Mapping[str, Any]) -> "Node":
        """Read Flower's node configuration, and for a real node its policy.

        Raises
        ------
        ConfigError
            If a key is misspelt, a value or a line of the policy is not allowed, configuration and
            policy contradict each other, or the node lacks data.
        """
        for key in node_config:
            near = [] if key in KEYS else difflib.get_close_matches(key, KEYS, n=1, cutoff=0.75)
            if near:  # a misspelt key would protect nothing
                raise ConfigError(
                    f'unknown key "{key}" in this node\'s --node-config; did you mean "{near[0]}"?',
                    key="unknown-node-key",
                )
        configured = {key: node_config[key] for key in (*KEYS, IN_MEMORY) if key in node_config}
        try:
            node = cls.model_validate(configured)
        except ValidationError as error:
            raise _wrong_value(error) from None
        if node.num_partitions is not None and node.num_partitions <= node.partition:
            raise ConfigError(
                f"num-partitions is {node.num_partitions} in this node's --node-config; allowed is"
                f" a whole number above its partition-id, {node.partition}",
                key="node-config-value",
            )
        if is_real(node_config):
            node = node.under(read_policy(node.policy_path))
        if node.data is None and node.data_path is None and node.num_partitions is None:
            raise ConfigError(
                "this node's --node-config has neither data-path (its own data) nor num-partitions"
                " (its share of a public data set)",
                key="no-data-path",
            )
        return node

    def under(self, policy: Policy) -> "Node":
        """This node with a policy; the stricter limit applies.

        Raises
        ------
        ConfigError
            If they name different data, or differ in `lost-state`.
        """
        changes: dict[str, Any] = {"rules": policy}
        if policy.data.path is not None:
            changes["data_path"] = absolute(policy.data.path)
            if self.data_path not in (None, changes["data_path"]):
                raise ConfigError(
                    "data-path in this node's --node-config and path in [data] of its policy.toml"
                    " differ",
                    key="policy-differs",
                )
        if policy.leaves.secure_sum:
            changes["secure_sum"] = True
        if policy.leaves.share_statistics is False:
            changes["share_statistics"] = False
        if policy.runs.lost_state is not None:
            changes["lost_state"] = policy.runs.lost_state
            if "lost_state" in self.model_fields_set and self.lost_state != changes["lost_state"]:
                raise ConfigError(
                    "lost-state in this node's --node-config and in [runs] of its policy.toml"
                    " differ",
                    key="policy-differs",
                )
        changes["hull_max_share"] = min(self.hull_max_share, policy.leaves.hull_max_share)
        return self.model_copy(update=changes)

    @property
    def is_real(self) -> bool:
        """Whether this is a real node, not a client of a simulation."""
        return self.rules is not None

    @property
    def owns_data(self) -> bool:
        """Whether the data are files of the node, not a part of a public data set."""
        return self.data_path is not None

    @property
    def min_class_size(self) -> int:
        """Minimum number of examples of a class for its hull, sums or counts to leave the node.

        The default without a line in the policy is `MIN_CLASS_SIZE` for data of the node's own;
        parts of public data are not secret.
        """
        if self.rules is None:
            return 1
        default = MIN_CLASS_SIZE if self.owns_data else 1
        return self.rules.leaves.hull_min_class_size or default

    @property
    def min_holders(self) -> int:
        """Minimum number of members of a sum that have a class or an entity; 0 for the default, 1
        in a simulation, where the run decides."""
        return 1 if self.rules is None else self.rules.sums.min_holders or 0

    @property
    def state_root(self) -> Path:
        """The folder of a real node's state."""
        return self.state_path or home() / "personal"


KEYS = tuple(
    str(field.validation_alias)
    for name, field in Node.model_fields.items()
    if name not in ("data", "rules")
)
"""The keys of this app; a node can also have keys of other apps."""


def _wrong_value(error: ValidationError) -> ConfigError:
    """The error for the first value that is not allowed."""
    problem = error.errors()[0]
    key = str(problem["loc"][0])
    if problem["type"] == "missing":
        return ConfigError(
            f"there is no {key} in this node's --node-config; needed is a whole number, 0 or more",
            key="no-partition-id",
        )
    (field,) = [field for field in Node.model_fields.values() if field.validation_alias == key]
    return ConfigError(
        f"{key} is {problem['input']!r} in this node's --node-config; {field.description}",
        key="node-config-value",
    )

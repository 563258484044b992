"""Guards: differential privacy of all replies of the clients, in addition to masks.

Extensions and other packages add a guard by an entry point of the group `curvfed.guards`: a
subclass of `Guard`, under the name of its table of keys. A run has at most one guard that hides
something; without it the values leave as they are.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from curvfed.strategies.base.keys import Table, kebab
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.shared_tables import SHARED
from curvfed.strategies.run_log import log
from curvfed.tasks import plugins

if TYPE_CHECKING:
    from curvfed.strategies.base.aggregation import Aggregation
    from curvfed.strategies.base.statistics import Arrays


class Guard:
    """The guard of a run, as its configuration describes it. This one hides nothing.

    Parameters
    ----------
    config : RunConfig

    Attributes
    ----------
    table : str
        The name of its table of keys, which every run has.
    words : str
        Its effect, before its promise in the log; "" for the name of its table.
    remedy : str
        The values of keys that switch it on, as a refusal names them; "" for the name of its table.
    keys_class : type of Table
        The class of its keys.
    keys : Table
        Those of the run.
    client_half : str
        Its work at a client: "module:class" of a subclass of
        `curvfed.client_app.guard.ClientGuard`.
    keeps_budget : bool
        Whether its half at a client refuses runs that would cost more than a node's budget, and
        writes the cost of each reply into the node's ledger before the reply leaves. A node with a
        budget refuses other guards, and replies without a line.
    hides_classes : bool
        Whether its noise hides small classes and entities with few holders, too; otherwise the
        node's bounds on them stay.
    unit : str
        The unit that it hides: "record", each training example of a client; "client", all data of
        a client; "" for nothing.
    clip : float
        Maximum norm of the contribution of one unit.
    """

    table: ClassVar[str] = ""
    words: ClassVar[str] = ""
    remedy: ClassVar[str] = ""
    keys_class: ClassVar[type[Table]] = Table
    client_half: ClassVar[str] = "curvfed.client_app.guard:ClientGuard"
    keeps_budget: ClassVar[bool] = False
    hides_classes: ClassVar[bool] = False
    keys: Any
    unit: str = ""
    clip: float = math.inf

    def __init__(self, config: Any) -> None:
        self.config = config
        self.keys = getattr(config, self.table.replace("-", "_"), None) or self.keys_class()

    @property
    def is_private(self) -> bool:
        """Whether it hides something: no score, no figure and no class count leaves a client."""
        return bool(self.unit)

    @property
    def hides_number(self) -> bool:
        """Whether it hides a client's number of examples, too."""
        return False

    @property
    def settings(self) -> Mapping[str, Any]:
        """Values of keys that the run leaves open, by field."""
        return {}

    @property
    def promise(self) -> str:
        """Its promise, as part of a sentence; "" for none."""
        return ""

    def conflicts(self, tasks: Collection[str]) -> Iterable[tuple[str, str]]:
        """The keys that do not fit together with the guard's, separated by spaces, and the allowed
        values. `tasks` are those that the data may have."""
        return ()

    def check_members(self, number: int) -> None:
        """Refuse a secure sum of this number of members. Raises ConfigError."""

    def cost(self, num_examples: int) -> str:
        """The noise of a client with this number of training examples, in a sentence."""
        return ""

    def figures(self, sizes: Collection[int], rounds: int) -> dict[str, float]:
        """Figures of the run after a number of rounds; `sizes` are the known numbers of training
        examples of clients."""
        return {}

    def half(self, side: Literal["client", "server"]) -> str:
        """The half that replaces that of a one-shot method, "module:class"; "" for none."""
        return ""

    def aggregation(self, inner: "Aggregation") -> "Aggregation":
        """The server half of rounds, from that of the method."""
        return inner

    def parameters(self, sent: "Arrays") -> "Arrays":
        """The arrays that the method's own server half has sent."""
        return sent

    def limit(self, sent: "Arrays") -> float:
        """Maximum norm of a client's update in a secure sum of updates of these arrays."""
        return float(self.config.secure.clip)

    def noise(self, phase: str, members: int) -> float:
        """The noise in the secure sums of a phase over this number of members, as a multiple of the
        root of their variances, see `curvfed.strategies.base.one_shot.Vectors`."""
        return 0.0


@cache
def guards() -> dict[str, type[Guard]]:
    """All guards, by the names of their tables. One that cannot be used is left out, with a
    warning."""
    taken = {"", *SHARED, *map(kebab, RunKeys.model_fields)}
    kinds: dict[str, type[Guard]] = {}
    for name, kind in plugins.usable("guards", type):
        if issubclass(kind, Guard) and kind.table not in taken:
            kinds[kind.table] = kind
            taken.add(kind.table)
        else:
            log.warning(
                "curvfed.guards: %s is left out: it is %r; allowed is a subclass of %s.Guard with"
                " a table of its own",
                name,
                kind,
                Guard.__module__,
            )
    return kinds


def budget_remedies() -> list[str]:
    """For each guard that keeps to a node's budget, the values of keys that switch it on."""
    return [
        kind.remedy or f"keys of {table}" for table, kind in guards().items() if kind.keeps_budget
    ]


def guard_tables() -> dict[str, type[Table]]:
    """The tables of all guards' keys, by name."""
    return {table: kind.keys_class for table, kind in guards().items()}

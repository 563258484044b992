"""What a method chooses: the entries of its row."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from curvfed.strategies.base.keys import Table

if TYPE_CHECKING:
    from curvfed.strategies.base.aggregation import Aggregation
    from curvfed.strategies.base.average import Arrays
    from curvfed.strategies.base.calibration import Calibration
    from curvfed.strategies.base.learner import Learner
    from curvfed.strategies.base.run_keys import RunKeys

ENDS = ("input.*", "head.*")
"""The layers that touch a client's features and classes."""

HEAD = "head."
"""What the names of a classifier's parameters begin with."""

GRAPHS, IMAGES, POINTS = ("nodes", "graphs"), ("images",), ("points",)

ONE_SHOT = "one-shot"
"""The aggregation of a method whose whole work is before the rounds, of which there are none."""


PLAIN_MEAN = {"weights": "uniform"}
"""The choice of methods whose papers average clients whatever their numbers of examples."""

SGD_FROM_REST = {"optimizer": "sgd", "optimizer_state": "fresh"}
"""The choice of methods that count what the steps of SGD make of the gradients."""


@dataclass(frozen=True)
class Method:
    """What one method chooses.

    Attributes
    ----------
    summary : str
        One line for tables and help texts.
    space : str
        "flat", "lorentz", "split" or "disc": the family of models it trains. Where the configuration names no encoder,
        `curvfed.strategies.config.model_spec` names the one that this stands for on a task.
    personal : tuple of str
        Patterns of the parameter names that stay with the client; all others, but for a fixed head, are shared.
    head : str
        "linear", "sphere" or "poincare" (`curvfed.tasks.heads`): the classifier of an image model.
    head_from : str
        "training": it is trained like the rest; "server": it is fixed, and sent to each client once; "client": it is
        fixed, and each client makes one of its own.
    loss : str
        "cross-entropy", "mse", "triplet" or "geodesic" (`curvfed.tasks.images.objectives`).
    client : type of Learner, or str
        What a client makes of a round; "package.module:Class" is imported at the clients alone. Default: FedAvg's way.
    server : callable, or str
        Makes the server's half, an `Aggregation`, of (the shared parameters that all start from, the method's own keys, the
        keys of every run, the number of clients); "package.module:name" is imported at the server alone. None where
        `aggregation` is that of another method.
    calibration : type of Calibration
        How the server makes a new classifier from sums over the clients' features, after the last round. None for none.
    own_model : bool
        Whether a learner keeps a model of the client's own, or a part of one, that is its scores' and not what is shared.
    lists_clients : bool
        Whether clients and aggregation are told the numbers of all clients.
    fine_tune : str
        What fine-tuning trains where the configuration does not say: "trained" or "all" (see its key).
    learns_curvature : bool
        Whether the curvature of a Lorentz model is trained; else it is -1 throughout.
    proximal : str
        The configuration key with the coefficient of the proximal term on the shared parameters; "" for none.
    sparsity : str
        The configuration key with the coefficient of the L1 norm of personal masks; "" for a model without masks.
    selection : str
        The configuration key with the share of a graph's nodes that training sees; "" for all of them.
    tells_statistics : bool
        Whether its learner sends figures about the data: a real node then takes part with `share-statistics` alone.
    before, after : tuple of str
        Query phases that run once, in this order, before the first round and after the last one.
    aggregation : str
        What the server makes of the shared parameters, in a word: one of
        `curvfed.strategies.config.halves.BASES`, which other methods can stand on too; a word of the method's own,
        with `server`; or `ONE_SHOT`.
    tasks : tuple of str
        The kinds of data sets it runs on.
    settings : mapping of str to mapping
        By task: what the method chooses of the fields that a configuration leaves open, in place of the task's choice.
    keys : mapping of str to type
        The keys of its own: by the name that their table has in the configuration, usually the method's. Every key has a
        default. The first table is what both halves get.
    reads_classifier : bool
        Whether its halves look at the classifier by itself, which models of other packages need not have.
    tunes_own_network : bool
        Whether fine-tuning trains a network of the client's own, whatever `fine-tune` says.
    rounds_set : callable
        Of (own keys, num-rounds): a number of first rounds that the number of rounds sets. A run that is resumed with
        another number of rounds must not change it. None for none.
    """

    summary: str
    space: str
    personal: tuple[str, ...] = ()
    head: str = "linear"
    head_from: str = "training"
    loss: str = "cross-entropy"
    client: "type[Learner] | str | None" = None
    server: "Callable[[Arrays, Any, RunKeys, int], Aggregation] | str | None" = None
    calibration: "type[Calibration] | None" = None
    own_model: bool = False
    lists_clients: bool = False
    fine_tune: str = "trained"
    learns_curvature: bool = False
    proximal: str = ""
    sparsity: str = ""
    selection: str = ""
    tells_statistics: bool = False
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    aggregation: str = "average"
    tasks: tuple[str, ...] = GRAPHS
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    keys: Mapping[str, type[Table]] = field(default_factory=dict)
    reads_classifier: bool = False
    tunes_own_network: bool = False
    rounds_set: Callable[[Any, int], int] | None = None

    @property
    def is_one_shot(self) -> bool:
        """Whether its whole work is one secure sum, without rounds."""
        return self.aggregation == ONE_SHOT

    def is_personal(self, name: str, own_ends: bool = False) -> bool:
        """Whether the parameter of this name stays with the client.

        `own_ends`: the clients' feature spaces or classes differ, so that the layers that touch them stay in any method.
        """
        patterns = self.personal + (ENDS if own_ends else ())
        return any(fnmatchcase(name, pattern) for pattern in patterns)

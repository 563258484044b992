"""The row of a method: all its choices."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from curvfed.strategies.base.keys import Table

if TYPE_CHECKING:
    from curvfed.strategies.base.aggregation import Aggregation
    from curvfed.strategies.base.calibration import Calibration
    from curvfed.strategies.base.learner import Learner
    from curvfed.strategies.base.run_keys import RunKeys
    from curvfed.strategies.base.statistics import Arrays

INPUT_OUTPUT_LAYERS = ("input.*", "head.*")
"""Patterns of the first and last layers, which depend on a client's features and classes."""

GRAPHS = ("nodes", "graphs")
IMAGES = ("images",)
POINTS = ("points",)

ONE_SHOT = "one-shot"
"""The aggregation of a method without rounds, whose work is one query phase."""


PLAIN_MEAN = {"weights": "uniform"}
"""Setting of methods whose papers average clients without regard to their numbers of examples."""


@dataclass(frozen=True)
class Method:
    """The choices of one method.

    Attributes
    ----------
    summary : str
        One line for tables and help texts.
    space : str
        "flat", "lorentz", "split" or "disc": the family of its models. Without a configured
        encoder, `curvfed.strategies.config.model_spec` chooses the one for the task.
    personal : tuple of str
        Patterns of the names of personal parameters; all others except a fixed head are shared.
    head : str
        "linear", "sphere" or "poincare" (`curvfed.tasks.heads`): the classifier of an image model.
    head_from : str
        "training": the head is trained like the rest; "server": it is fixed, and sent to each
        client once; "client": it is fixed, and each client draws its own.
    loss : str
        "cross-entropy", "mse", "triplet" or "geodesic" (`curvfed.tasks.images.objectives`).
    client : type of Learner, or str
        The client half; "package.module:Class" is imported only at the clients. Default: FedAvg's
        `Learner`.
    server : callable, or str
        Makes the server half, an `Aggregation`, from (initial shared parameters, the method's own
        keys, the keys of every run, number of clients); "package.module:name" is imported only at
        the server. None if `aggregation` is that of another method.
    calibration : type of Calibration
        How a phase in `after` makes a new classifier from sums over the clients' features; by
        default in closed form, as in SphereFed, by the keys of the table spherefed.
    own_model : bool
        Whether the learner keeps a personal model, or a part of one, and scores it instead of the
        shared model.
    lists_clients : bool
        Whether clients and aggregation get the numbers of all clients.
    fine_tune : str
        What fine-tuning trains by default: "trained" or "all" (see the key).
    learns_curvature : bool
        Whether the curvature of a Lorentz model is trained; else it is -1.
    proximal : str
        The configuration key with the coefficient of the proximal term on the shared parameters; ""
        for none.
    sparsity : str
        The configuration key with the coefficient of the L1 norm of personal masks; "" for a model
        without masks.
    selection : str
        The configuration key with the share of a graph's nodes that training uses; "" for all of
        them.
    whole_graph : bool
        Whether its learner looks at all nodes of a client's graph at once, so that `batch-size`
        cannot cut it.
    reports_statistics : bool
        Whether its learner sends figures about the data; real nodes then need `share-statistics`.
    before, after : tuple of str
        Query phases that run once, in this order, before the first and after the last round.
    aggregation : str
        Name of the server's aggregation: "average", that of another method, a name of the method's
        own with `server`, or `ONE_SHOT`.
    tasks : tuple of str
        The kinds of data sets it runs on.
    settings : mapping of str to mapping
        By task: the method's values of keys that a configuration leaves open, instead of the task's
        values.
    keys : mapping of str to type
        The method's own keys, by the name of their table in the configuration, usually the
        method's. Every key has a default. Both halves get the first table.
    reads_classifier : bool
        Whether its halves use the classifier as a separate module, which models of other packages
        may not have.
    tunes_own_network : bool
        Whether fine-tuning trains a personal network, whatever `fine-tune` says.
    tuned : mapping of str to mapping
        By task: the own keys that matter most, with values worth trying besides the defaults, for
        `curvfed compare`.
    rounds_set : callable
        From (own keys, num-rounds) to a number of first rounds that depends on the number of
        rounds; resuming a run with another number of rounds must not change it.

    Examples
    --------
    >>> row = Method("FedAvg whose classifier stays at each client", "flat", personal=("head.*",))
    >>> row.is_personal("head.weight"), row.is_personal("layers.0.weight")
    (True, False)
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
    whole_graph: bool = False
    reports_statistics: bool = False
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    aggregation: str = "average"
    tasks: tuple[str, ...] = GRAPHS
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    keys: Mapping[str, type[Table]] = field(default_factory=dict)
    reads_classifier: bool = False
    tunes_own_network: bool = False
    tuned: Mapping[str, Mapping[str, tuple[Any, ...]]] = field(default_factory=dict)
    rounds_set: Callable[[Any, int], int] | None = None

    @property
    def is_one_shot(self) -> bool:
        """Whether its work is one secure sum, without rounds."""
        return self.aggregation == ONE_SHOT

    def is_personal(self, name: str, own_ends: bool = False) -> bool:
        """Whether the parameter of this name is personal.

        `own_ends`: the clients' feature spaces or classes differ, so that the first and last layers
        are personal.
        """
        return any(
            fnmatchcase(name, pattern)
            for pattern in self.personal + (INPUT_OUTPUT_LAYERS if own_ends else ())
        )

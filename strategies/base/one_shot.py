"""The two halves of a one-shot method, with one secure sum over the clients' vectors."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry.arrays import Array, Floats
from curvfed.strategies.base.guard import Guard
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.shared_tables import Points
from curvfed.strategies.base.statistics import Arrays, Leaving, Statistics
from curvfed.strategies.wire.messages import Description, Parts

if TYPE_CHECKING:
    from curvfed.tasks.points import ClientPoints

Figures = Mapping[str, float]


@dataclass(frozen=True)
class Setting:
    """The settings of a run that both halves know.

    Attributes
    ----------
    keys : Table
        The method's own keys.
    config : RunKeys
    points : Points
        The keys of the points.
    guard : Guard
        The guard of the run.
    class_names : tuple of str
        The federation's classes.
    """

    keys: Any
    config: RunKeys
    points: Points
    guard: Guard
    class_names: tuple[str, ...]


@dataclass(frozen=True)
class Vectors:
    """The vectors of a secure sum.

    Attributes
    ----------
    length : int
    bound : float
        Maximum that one example adds to an entry, for vectors of real numbers.
    modulus : int
        For vectors of residues; 0 for real numbers. The sums of residues of several groups of
        clients are decoded one by one.
    variances : array (length,), optional
        Variances of the noise on differentially private vectors, for a noise multiplier of 1: the
        squares of an example's entries, divided by them, add up to at most 1.
    """

    length: int
    bound: float = 0.0
    modulus: int = 0
    variances: Floats | None = None


class Half(ABC):
    """The base of both halves.

    Parameters
    ----------
    setting : Setting
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.keys = setting.keys

    @property
    def is_private(self) -> bool:
        """Whether the sum is differentially private."""
        return self.setting.guard.is_private

    @abstractmethod
    def vectors(self, clients: int) -> Vectors:
        """The vectors of a sum over this number of clients."""


@dataclass(frozen=True)
class Site:
    """A client, as far as its half needs to know.

    Attributes
    ----------
    data : ClientPoints
    partition : int
    owns_data : bool
        Whether the data are the node's own, as opposed to a part of the run's data set.
    leaving : Leaving
        The classes that leave the node.
    max_share : float
        Maximum share of its points that the node reveals.
    reveal : callable
        Records points (m, 2) that the contribution reveals, of all those (n, 2) that the client
        has; raises ConfigError if the node does not allow it.
    """

    data: Any
    partition: int
    owns_data: bool
    leaving: Leaving
    max_share: float
    reveal: Callable[[Floats, Floats], None]


class OneShotClient(Half):
    """The client's half.

    Parameters
    ----------
    setting : Setting
    site : Site

    Attributes
    ----------
    hides_records : bool
        Whether `Half.vectors` has variances if the run hides records.
    """

    hides_records: ClassVar[bool] = False

    def __init__(self, setting: Setting, site: Site) -> None:
        super().__init__(setting)
        self.site = site

    @classmethod
    def read_data(cls, path: Path, keys: Any) -> "ClientPoints | None":
        """A node's own file; None if it is read as points."""
        return None

    @classmethod
    def sums_by_name(cls, keys: Any) -> bool:
        """Whether the vectors have cells for single classes, which the clients name."""
        return False

    def held(self) -> set[str]:
        """The names of the classes that the client contributes to."""
        return set()

    def classes_lost(self) -> int:
        """The number of classes that are not in the sum because of its limit of examples."""
        return 0

    @classmethod
    def conflicts(cls, keys: Any) -> Iterable[tuple[str, str]]:
        """The method's own keys that do not fit a run that hides records, separated by spaces, and
        the allowed values."""
        return ()

    def measure(self, clients: int, question: Parts) -> Figures:
        """Figures about the client's planned contribution; it logs them for the node's owner.

        Parameters
        ----------
        clients : int
            Number of clients in the sum.
        question : mapping
            As `OneShotServer.question` makes it.
        """
        return {}

    @abstractmethod
    def contribution(self, clients: int, order_numbers: Mapping[int, bytes]) -> Statistics:
        """The client's vector, as the only array, named "sums" if it is real, and the number of
        its examples.

        Parameters
        ----------
        clients : int
            Number of clients in the sum.
        order_numbers : mapping of partition to bytes
            A random number of each client in the sum, which the server does not see.
        """

    def evaluate(self, arrays: Arrays) -> tuple[Figures, Arrays]:
        """Scores of the server's model, and arrays of the form that `OneShotServer.template`
        has."""
        return {}, {}


@dataclass(frozen=True, eq=False)
class ServerPoints:
    """The points that the server has, for evaluation only.

    Attributes
    ----------
    test : ClientPoints or None
        Labelled points that no client has.
    pooled : ClientPoints or None
        All points of a simulation; None for real clients, which keep their points.
    clients : mapping of partition to ClientPoints
        Each client's part of `pooled`, if the client reported the same digest.
    """

    test: "ClientPoints | None"
    pooled: "ClientPoints | None" = None
    clients: Mapping[int, "ClientPoints"] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Model:
    """The model that the server learns.

    Attributes
    ----------
    arrays : dict of str to array
        The content of `model.safetensors`.
    figures : dict
    details : object
        Further inputs of `OneShotServer.evaluate`.
    """

    arrays: Arrays
    figures: dict[str, Any] = field(default_factory=dict)
    details: Any = None


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The evaluation of a model on labelled points.

    Attributes
    ----------
    figures : dict
    accuracy : float or None
        On the server's test points.
    names : sequence of str
        The class of each group that the model predicts; "" without a name.
    arrays : dict of str to array
        The content of `OneShotServer.file_name`; without arrays it is not written.
    """

    figures: dict[str, Any] = field(default_factory=dict)
    accuracy: float | None = None
    names: Sequence[str] = ()
    arrays: Arrays = field(default_factory=dict)


class OneShotServer(Half):
    """The server's half.

    Attributes
    ----------
    summands : str
        The clients' contributions, in words.
    file_name : str
        The file of the run directory with the arrays that the report draws.
    is_dry_run : bool
        Whether the run ends before the sum.
    num_shared : int or None
        The number of classes that enough members of the sum have; None if they are not counted.
        Others stay at the clients.
    """

    summands: ClassVar[str]
    file_name: ClassVar[str] = ""
    is_dry_run = False
    num_shared: int | None = None

    @classmethod
    def classifier_words(cls, classifier: Any) -> str:
        """The classifier that predicts, in words; "" for those of its kind."""
        return ""

    def describe(self, clients: int) -> str:
        """The size of a client's vector in a sum over this number of clients, in words; "" if it
        is small."""
        return ""

    def check_classes(self, descriptions: Iterable[Description]) -> None:
        """Refuse clients with classes that cannot be summed. Raises ConfigError."""

    def num_groups(self, clients: int) -> int:
        """Number of groups of clients with a sum each; 0 for those of `secure.group-size`. Raises
        ConfigError if there are too few clients for them."""
        return 0

    def question(self, clients: int) -> Parts:
        """The question to the clients before a sum over this number of them; empty if they are not
        asked for `OneShotClient.measure`."""
        return {}

    def check_measured(self, figures: Figures) -> None:
        """Refuse impossible figures of `OneShotClient.measure`. Raises MessageError."""

    def measured(self, figures: Sequence[Figures]) -> Mapping[str, Any]:
        """Figures of the run from the clients' figures of `OneShotClient.measure`."""
        return {}

    @abstractmethod
    def learn(self, total: Statistics) -> Model:
        """The model from the clients' sum.

        Raises
        ------
        ValueError
            If there is too little in the sum.
        """

    def template(self, arrays: Arrays) -> Arrays:
        """Names and shapes of the arrays that a client sends when it evaluates the model; empty if
        no client does."""
        return {}

    def check_evaluation(self, arrays: Mapping[str, Array]) -> None:
        """Refuse impossible arrays of a client's evaluation. Raises MessageError."""

    def evaluate(
        self, model: Model, sums: Arrays, points: ServerPoints, summed: Sequence[int]
    ) -> Evaluation:
        """Evaluate the model by labelled points.

        Parameters
        ----------
        sums : dict of str to array
            The sums of the clients' arrays, of the form of `template`.
        summed : sequence of int
            The partitions in the sum that the model is learned from.
        """
        return Evaluation()

    def warnings(self, metrics: Mapping[str, Any]) -> dict[str, str]:
        """Warnings from the run's figures, by key."""
        return {}


class ResidueServer(OneShotServer):
    """The server's half of a method with vectors of residues, and a sum for each group of clients;
    `vectors` has a modulus."""

    @abstractmethod
    def decode(self, residues: NDArray[np.uint64], clients: int) -> Statistics:
        """Decode the sum of residues of a group of this number of clients.

        Raises
        ------
        HullError
            If no such vectors have this sum.
        """

    @abstractmethod
    def join(self, groups: Sequence[Statistics], group_size: int) -> Statistics:
        """The decoded sums of all groups together; `group_size` is the largest number of clients
        of a group."""

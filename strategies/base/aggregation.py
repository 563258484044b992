"""The server half of a method: the contract of an aggregation, and the weighted average."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from curvfed.geometry.arrays import Array, memory_order
from curvfed.strategies.base.keys import server_name
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.statistics import Arrays, Statistics
from curvfed.tasks.errors import KeyedError

_BLOCK = 65_536  # entries: two rows of float64 of this length fit into the cache

Replies = Mapping[int, Statistics]
"""Contributions by partition, in ascending order of the partitions."""


class AggregationError(KeyedError, ValueError):
    """Replies that cannot be aggregated.

    Examples
    --------
    >>> AggregationError("no reply has examples", key="no-examples").key
    'aggregation.no-examples'
    """

    area = "aggregation"


def check_names(arrays: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Refuse a reply with other arrays than the expected ones, such as a personal parameter.

    Raises
    ------
    AggregationError

    Examples
    --------
    >>> check_names({"weight": 1}, {"weight": 0})  # the same names: nothing is raised
    """
    if arrays.keys() != expected.keys():
        unmatched = sorted(arrays.keys() ^ expected.keys())
        raise AggregationError(
            f"parameters {unmatched} do not match the shared ones: {sorted(expected)}",
            key="parameters",
        )


def split_average(
    current: Mapping[str, Array],
    updates: Sequence[Statistics],
    weights: Sequence[float] | None = None,
) -> Arrays:
    """Average of the shared parameters over the clients that replied, weighted by their numbers of
    examples.

    FedAvg (McMahan et al., 2017, Algorithm 1): Σ_c (N_c/N) θ_c, where N = Σ_c N_c over the clients
    c that replied. With personal parameters it is FlatLand's step S3, whose printed factor is
    misplaced.

    Parameters
    ----------
    current : mapping of str to array
        The present shared parameters. They set names, shapes and dtypes, and are returned if no
        reply has examples.
    updates : sequence of Statistics
        In a fixed order: the sum is computed in this order and in float64, so that equal replies
        give equal bits.
    weights : sequence of float, optional
        Weights to use in place of the shares of the examples; they need not sum to 1. Updates of
        weight 0 are not read.

    Returns
    -------
    dict of str to array
        Rounded once: relative error ≤ eps of the arrays' dtype, if all terms have one sign.

    Raises
    ------
    AggregationError
        If a reply has other names than `current`, such as a personal parameter.

    Examples
    --------
    >>> updates = [Statistics({"weight": np.ones(2)}, 3), Statistics({"weight": np.zeros(2)}, 1)]
    >>> split_average({"weight": np.zeros(2)}, updates)["weight"].tolist()
    [0.75, 0.75]
    """
    for update in updates:
        check_names(update.arrays, current)
    if weights is None:
        num_examples = sum(update.weight for update in updates)
        if num_examples == 0:
            return {name: array.copy() for name, array in current.items()}
        weights = [update.weight / num_examples for update in updates]
    averages = {}
    buffers = np.empty((2, _BLOCK))
    for name, array in current.items():
        order = memory_order(array)
        average = averages[name] = np.empty(array.shape, array.dtype, order)
        terms = [
            (update.arrays[name].ravel(order=order), weight)
            for update, weight in zip(updates, weights, strict=True)
            if weight
        ]
        flat = average.ravel(order=order)
        # In blocks that fit into the cache, so that only the result needs memory.
        for begin in range(0, flat.size, _BLOCK):
            block = slice(begin, min(begin + _BLOCK, flat.size))
            term, total = (buffer[: block.stop - begin] for buffer in buffers)
            total.fill(0)
            for array, weight in terms:
                np.copyto(term, array[block])  # casting within the multiplication takes longer
                term *= weight
                total += term
            flat[block] = total
    return averages


BOUND = 100.0
"""The key `update-bound` without a value, for aggregations that are not robust."""


class Aggregation(ABC):
    """The server's side of a method: the parameters from which every client starts a round.

    Parameters
    ----------
    arrays : dict of str to array
        The initial shared parameters.
    keys : Table
        The method's own keys; a subclass declares their type.
    config : RunKeys, optional
        The keys of every run; by default all have their default values.
    clients : sequence of int
        The partitions of all clients, ascending.

    Attributes
    ----------
    is_global : bool
        Whether it sends one model to all clients.
    name : str
        Its name in the key `aggregation`; by default that of the class.
    summed_clients : str
        The clients from which it needs only the mean of the updates, so that a secure sum is
        enough: "any", "own" for those of its method, "none", or "tried", which leaves the answer to
        `curvfed.strategies.base.mean_only.needs_only_mean`.
    bound : float
        The key `update-bound` without a value.
    plain_sgd : bool
        Whether it infers gradients from the clients' steps, which must be those of SGD whose
        momentum starts at zero in every round. A run checks it if the row names the class itself.
    equal_steps : bool
        Whether clients also send their update over its number of steps: in a secure sum all members
        must then take equally many. A run checks it as `plain_sgd`.
    figures : dict of str to float
        Figures for the run's summary, by name.
    round_figures : dict of str to value
        Figures of the last round for its row in `rounds.csv`, by column. A new column is added to
        the table; its name has letters, digits and . _ -. Columns that the run itself fills, such
        as `loss`, are not overwritten.
    weights : dict of int to float
        The weight in the last round of each client, by partition, if the weights differ from the
        shares of the examples.

    A subclass does not inherit `name`. It inherits `summed_clients` unless it has an `aggregate` of
    its own: then the value is "tried", or the class states another one.

    Examples
    --------
    >>> class Latest(Aggregation):
    ...     def begin(self, arrays):
    ...         self.start, self.of = arrays, {}
    ...
    ...     def sent_to(self, partition):
    ...         return self.of.get(partition, self.start)
    ...
    ...     def aggregate(self, replies):
    ...         self.of |= {partition: update.arrays for partition, update in replies.items()}
    ...
    ...     def state(self):
    ...         state = {}
    ...         for partition, arrays in self.of.items():
    ...             state |= {f"{partition}/{name}": array for name, array in arrays.items()}
    ...         return state
    ...
    ...     def load(self, state):
    ...         for key, array in state.items():
    ...             partition, name = key.split("/")
    ...             self.of.setdefault(int(partition), {})[name] = array
    >>> import numpy as np
    >>> server = Latest({"w": np.zeros(2)})
    >>> server.aggregate({1: Statistics({"w": np.ones(2)}, 5)})
    >>> server.sent_to(0)["w"], server.sent_to(1)["w"]
    (array([0., 0.]), array([1., 1.]))
    """

    is_global = False
    name: ClassVar[str]
    summed_clients: ClassVar[str] = "none"
    bound: ClassVar[float] = BOUND
    plain_sgd: ClassVar[bool] = False
    equal_steps: ClassVar[bool] = False
    keys: Any

    def __init_subclass__(cls) -> None:
        own = vars(cls)
        cls.name = own.get("name") or server_name(cls.__name__)
        inherited = "tried" if "aggregate" in own else cls.summed_clients
        cls.summed_clients = own.get("summed_clients", inherited)

    def __init__(
        self,
        arrays: Arrays,
        keys: Any = None,
        config: RunKeys | None = None,
        clients: Sequence[int] = (),
    ) -> None:
        self.keys = keys
        self.config = RunKeys() if config is None else config
        self.clients = clients
        self.figures: dict[str, float] = {}
        self.round_figures: dict[str, Any] = {}
        self.weights: dict[int, float] = {}
        self.begin(arrays)

    @abstractmethod
    def begin(self, arrays: Arrays) -> None:
        """Set up the state before the first round, with the initial shared parameters."""

    @abstractmethod
    def sent_to(self, partition: int) -> Arrays:
        """The arrays that are sent to this client. Clients that get equal arrays must get the same
        object."""

    def expected_reply(self, partition: int) -> Arrays:
        """Arrays with the names, shapes and dtypes of this client's reply, or, in a run with secure
        sums, of any client's contribution to a sum; by default those sent to it."""
        return self.sent_to(partition)

    def global_model(self) -> Arrays:
        """The shared parameters of the global model; by default the arrays sent to the first
        client."""
        return self.sent_to(0)

    def compared(self, arrays: Arrays) -> Arrays:
        """The arrays of a reply that are compared in length with those of other clients, by default
        all; arrays that are also sent to the client count by their changes."""
        return arrays

    @abstractmethod
    def aggregate(self, replies: Replies) -> None:
        """Process the valid replies of a round.

        Raises
        ------
        AggregationError
            If a reply has other parameters than the shared ones.
        """

    @abstractmethod
    def state(self) -> Arrays:
        """Everything that the next round depends on, as named arrays; stored in checkpoints and in
        `model.safetensors`. A checkpoint also has the attributes of a subclass that inherits it
        (`curvfed.strategies.base.further_state`)."""

    @abstractmethod
    def load(self, state: Arrays) -> None:
        """Inverse of `state`."""


class Average(Aggregation):
    """One model for all clients: the average weighted by numbers of examples (`split_average`).

    Examples
    --------
    >>> import numpy as np
    >>> server = Average({"w": np.zeros(2)})
    >>> ones, zeros = Statistics({"w": np.ones(2)}, 30), Statistics({"w": np.zeros(2)}, 10)
    >>> server.aggregate({0: ones, 1: zeros})
    >>> server.sent_to(0)["w"]
    array([0.75, 0.75])
    """

    is_global = True
    name = "average"
    summed_clients = "any"

    def begin(self, arrays: Arrays) -> None:
        """Start from the initial parameters."""
        self._arrays = arrays

    def sent_to(self, partition: int) -> Arrays:
        """The average, the same for every client."""
        return self._arrays

    def global_model(self) -> Arrays:
        """The average, without the further arrays that a subclass may send."""
        return self._arrays

    def aggregate(self, replies: Replies) -> None:
        """Average the replies."""
        self._arrays = split_average(self._arrays, list(replies.values()))

    def state(self) -> Arrays:
        """The average."""
        return dict(self._arrays)

    def load(self, state: Arrays) -> None:
        """Continue from a stored average."""
        self._arrays = dict(state)

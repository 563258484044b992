"""APPLE's server (Luo & Wu, IJCAI 2022): keeps a core model of every client, and sends them around."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.base.aggregation import Aggregation, Replies
from curvfed.strategies.base.average import Arrays, check_names

CORE, SHARES = "core/", "shares"
"""What the names of core models begin with, before "partition/name"; and that of the clients' shares of all examples."""

UNKNOWN = -1
"""The number of examples of a client that has not replied yet."""


class Apple(Aggregation):
    """Nothing is averaged: a client's reply takes the place of its core model w_j, and every client gets all of them.

    What a client makes of them is its own affair (`curvfed.client_app.learners.apple`); beside them it is sent the
    shares p₀ of all training examples, which its combination starts from; with `weights = "uniform"` all are alike.
    They are known from the replies: a client that has not replied yet counts as many as the others have on average, and
    its core is the start that all have in common. (The authors' cores start apart, by a draw each; the sum of such is
    smaller than any of them.)

    Under limited bandwidth a client gets M cores of others in a round. The authors choose first those that it never got,
    then by chance, with odds that grow a little with |p_ij|. These stay at the client here, so the server goes through the
    others in a seeded order, and through another when it is at its end; a client that does not reply loses no turn.

    Parameters
    ----------
    arrays : dict of str to array
        The start.
    most : int
        M; 0 for all.
    seed : int
    """

    def __init__(self, arrays: Arrays, most: int, seed: int) -> None:
        self._start, self._most, self._seed = arrays, most, seed
        self.meet(())

    def meet(self, partitions: Sequence[int]) -> None:
        """Give every client the start."""
        self._cores = dict.fromkeys(partitions, self._start)
        self._sizes = dict.fromkeys(partitions, UNKNOWN)
        self._turns = dict.fromkeys(partitions, 0)
        self._sent: dict[tuple[int, ...], Arrays] = {}

    def sent_to(self, partition: int) -> Arrays:
        """Cores as "core/partition/name", and the shares in the order of the partitions, float64."""
        chosen = tuple(self._chosen(partition))
        if chosen not in self._sent:
            cores = {f"{CORE}{one}/{name}": array for one in chosen for name, array in self._cores[one].items()}
            self._sent[chosen] = cores | {SHARES: self._shares()}
        return self._sent[chosen]

    def _chosen(self, partition: int) -> list[int]:
        others = [one for one in self._cores if one != partition]
        if not self._most or self._most >= len(others):
            return list(self._cores)
        first = self._turns.get(partition, 0) * self._most
        chosen = {partition} & self._cores.keys()
        for turn in range(first, first + self._most):
            cycle, place = divmod(turn, len(others))
            order = np.random.default_rng([self._seed, partition, cycle]).permutation(len(others))
            chosen.add(others[order[place]])
        return sorted(chosen)

    def _shares(self) -> NDArray[np.float64]:
        """p₀ (m,)."""
        sizes = np.array(list(self._sizes.values()), np.float64)
        known = sizes != UNKNOWN
        if sizes[known].sum() == 0:  # nobody is known to have any
            return np.full(len(sizes), 1 / max(len(sizes), 1))
        sizes[~known] = sizes[known].mean()
        shares: NDArray[np.float64] = sizes / sizes.sum()
        return shares

    def awaited(self, partition: int) -> Arrays:
        """The client's own core, under the parameters' names."""
        return self._start

    def aggregate(self, replies: Replies) -> None:
        """Put the replies of those with examples in the place of their cores."""
        for partition, update in replies.items():
            check_names(update.arrays, self._start)
            self._sizes[partition] = update.examples
            self._turns[partition] += 1
            if update.examples:
                self._cores[partition] = update.arrays
        self._sent = {}

    def state(self) -> Arrays:
        """Every core as "core/partition/name", and who was heard: partition, examples and number of replies (m, 3)."""
        cores = {f"{CORE}{p}/{name}": array for p, core in self._cores.items() for name, array in core.items()}
        heard = [(partition, size, self._turns[partition]) for partition, size in self._sizes.items()]
        return cores | {"heard": np.array(heard, np.int64).reshape(-1, 3)}

    def load(self, state: Arrays) -> None:
        """Go on from stored cores."""
        self.meet([int(partition) for partition in state["heard"][:, 0]])
        for partition, size, turns in state["heard"].tolist():
            self._sizes[partition], self._turns[partition] = size, turns
            self._cores[partition] = {name: state[f"{CORE}{partition}/{name}"] for name in self._start}

"""The first message of a secure sum, its masked phase and its clients, which the clients check; and
the groups in which clients are summed."""

from collections.abc import Collection

import numpy as np

from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.shared_tables import Secure
from curvfed.strategies.config.masked import is_masked
from curvfed.strategies.errors import SecureSumError
from curvfed.strategies.secure_sum.messages import Message
from curvfed.strategies.secure_sum.session import Session
from curvfed.strategies.wire.messages import Header

MASKED = "masked"
"""Name of the array in a masked reply."""


class Opening(Message):
    """The first message of a secure sum.

    Attributes
    ----------
    target : str
        One of `TARGETS`.
    modulus, length : int
        Of the vectors.
    clients : list of int
        Partitions, ascending.
    asked : int
        Number of clients that the vectors are encoded for, before some were left out; 0: that of
        `clients`.
    """

    target: str
    modulus: int
    length: int
    clients: list[int]
    asked: int = 0

    def session(
        self, header: Header, run: RunKeys, keys: Secure, *, is_group: bool = False
    ) -> Session:
        """The session; its threshold and neighbours come from each side's own configuration.

        Parameters
        ----------
        is_group : bool
            Whether the clients are a fixed group, which sums with all its members or not at all,
            whatever the configuration.

        Raises
        ------
        SecureSumError
            If a value is out of range, or the target is not masked in this run.
        """
        if not is_masked(run, self.target):
            raise SecureSumError(
                f"phase {self.target!r} is not masked in this run", key="unmasked-phase"
            )
        threshold = keys.threshold or 0
        neighbours = keys.neighbours or 0
        if is_group or keys.fixed_groups:
            threshold = len(self.clients)
            # All others: then no secret is recovered without its owner's share.
            neighbours = threshold - 1
        return Session(
            run=header.run,
            phase=self.target,
            round=header.round,
            modulus=self.modulus,
            length=self.length,
            clients=tuple(self.clients),
            threshold=threshold,
            neighbours=neighbours,
            asked=self.asked,
        )


def groups(clients: Collection[int], number: int = 0) -> list[list[int]]:
    """Divide the clients into groups of about equal size, in ascending order of partitions.

    Parameters
    ----------
    number : int
        The number of groups; 0 for groups of 5 to 9, and one group of up to 9 clients.
    """
    number = number or (len(clients) // 5 if len(clients) > 9 else 1)
    return [group.tolist() for group in np.array_split(sorted(clients), number)]

"""The first message of a secure sum: the masked phase and its clients. The clients check it."""

from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.shared_tables import Secure
from curvfed.strategies.config.masked import is_masked
from curvfed.strategies.secure_sum.errors import SecureSumError
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

    def session(self, header: Header, run: RunKeys, keys: Secure) -> Session:
        """The session; its threshold and neighbours come from each side's own configuration.

        Raises
        ------
        SecureSumError
            If a value is out of range, or the target is not masked in this run.
        """
        if not is_masked(run, self.target):
            raise SecureSumError(
                f"phase {self.target!r} is not masked in this run", key="unmasked-phase"
            )
        return Session(
            run=header.run,
            phase=self.target,
            round=header.round,
            modulus=self.modulus,
            length=self.length,
            clients=tuple(self.clients),
            threshold=len(self.clients) if keys.fixed_groups else keys.threshold or 0,
            neighbours=keys.neighbours or 0,
            asked=self.asked,
        )

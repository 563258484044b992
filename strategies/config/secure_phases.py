"""The first message of a secure sum: which phase is masked, and over which clients. The clients check it."""

from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.secure_sum.messages import Message
from curvfed.strategies.secure_sum.session import Session
from curvfed.strategies.wire.messages import CALIBRATE, HULLS, TRAIN, Header

TARGETS = (TRAIN, CALIBRATE, HULLS)
"""Phases whose replies can be masked, in their order within a round."""

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
        Partitions that are asked, ascending.
    """

    target: str
    modulus: int
    length: int
    clients: list[int]

    def session(self, header: Header, config: RunConfig) -> Session:
        """The whole session. Threshold and neighbours come from each side's own configuration.

        Raises
        ------
        SecureSumError
            If a value is out of range, or the target is not masked in this run.
        """
        wanted = config.secure_sum or self.target == HULLS
        if self.target not in TARGETS or not wanted:
            raise SecureSumError(f"phase {self.target!r} is not masked in this run")
        return Session(
            run=header.run,
            phase=self.target,
            round=header.round,
            modulus=self.modulus,
            length=self.length,
            clients=tuple(self.clients),
            threshold=config.secure.threshold or 0,
            neighbours=config.secure.neighbours or 0,
        )

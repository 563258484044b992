"""What a run's secure sums are of, as the server announces it and the clients check it."""

from collections.abc import Mapping
from dataclasses import dataclass

from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.secure_sum.session import Session
from curvfed.strategies.secure_sum.wire import check_names, int_in, list_in, str_in
from curvfed.strategies.wire.messages import CALIBRATE, HULLS, TRAIN, Header, Parts

TARGETS = (TRAIN, CALIBRATE, HULLS)
"""Phases whose replies can be masked, in the order that they have within a round."""

MASKED = "masked"
"""Name of the array in such a reply."""


@dataclass(frozen=True)
class Opening:
    """The first message of a secure sum.

    Attributes
    ----------
    target : str
        One of `TARGETS`.
    modulus, length : int
        Of the vectors.
    clients : tuple of int
        Partitions that are asked, ascending.
    """

    target: str
    modulus: int
    length: int
    clients: tuple[int, ...]

    def session(self, header: Header, config: RunConfig) -> Session:
        """The session in full; threshold and neighbours are each side's own configuration.

        Raises
        ------
        SecureSumError
            If something is out of range, or the target is no phase that is masked in this run.
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
            clients=self.clients,
            threshold=config.secure.threshold or 0,
            neighbours=config.secure.neighbours or 0,
        )

    def as_parts(self) -> Parts:
        """For a message."""
        return {"target": self.target, "modulus": self.modulus, "length": self.length, "clients": list(self.clients)}

    @classmethod
    def from_parts(cls, parts: Mapping[str, object]) -> "Opening":
        """Inverse of `as_parts`.

        Raises
        ------
        SecureSumError
            If a part is absent, not awaited, or of another type.
        """
        check_names(parts, "target", "modulus", "length", "clients")
        clients = tuple(list_in(parts, "clients", int))
        return cls(str_in(parts, "target"), int_in(parts, "modulus"), int_in(parts, "length"), clients)

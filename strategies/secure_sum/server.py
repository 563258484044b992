"""The server's half of one secure sum: it collects the masked vectors of a group and adds them."""

from collections.abc import Mapping

import numpy as np

from curvfed.strategies.errors import SecureSumError
from curvfed.strategies.secure_sum import Session, checksum
from curvfed.strategies.secure_sum.fixed_point import Residues, add, check_residues
from curvfed.strategies.secure_sum.messages import Basis, MaskedInput

OTHER_BASIS = "other-basis"
"""The key of the error for a vector from other parameters, another configuration or other code."""


class SumOfGroup:
    """The masked vectors of a group, and their sum once all members have sent theirs.

    Parameters
    ----------
    session : Session
    basis : Basis
        The required basis of each vector.
    """

    def __init__(self, session: Session, basis: Basis) -> None:
        self.session = session
        self._basis = basis
        self._vectors: dict[int, Residues] = {}

    def receive(self, partition: int, vector: Residues, message: MaskedInput) -> None:
        """Keep a member's masked vector.

        Raises
        ------
        SecureSumError
            If it does not fit the session, was damaged, or is computed from another basis: its
            masks would not cancel the others'.
        """
        session = self.session
        if partition not in session.clients:
            raise SecureSumError(
                f"partition {partition} is not a member of this sum", key="not-a-member"
            )
        check_residues(vector, session.length, session.modulus)
        if message.checksum != checksum(vector, session, partition):
            raise SecureSumError(
                f"the masked vector of partition {partition} was damaged on its way, or belongs to"
                " another sum",
                key="checksum",
            )
        if differences := self._basis.differences(message):
            raise SecureSumError(
                f"its vector is computed from other {', '.join(differences)} than the run has now,"
                " and its masks would not vanish in the sum; a round that members have answered is"
                " resumed with the settings and the code that it began with",
                key=OTHER_BASIS,
            )
        self._vectors[partition] = vector

    def forget(self) -> None:
        """Let all members send their vectors anew: masks of two exchanges do not cancel each
        other."""
        self._vectors.clear()

    @property
    def missing(self) -> list[int]:
        """The members without a vector, ascending."""
        return [member for member in self.session.clients if member not in self._vectors]

    def total(self) -> Residues:
        """The sum of the members' vectors, (length,).

        Raises
        ------
        SecureSumError
            If a member's vector is missing: then the masks hide everything.
        """
        if self.missing:
            raise SecureSumError(
                f"partitions {self.missing} have sent nothing, and a group sums with all its"
                " members",
                key="incomplete-group",
            )
        total = np.zeros(self.session.length, np.uint64)
        for member in self.session.clients:
            total = add(total, self._vectors[member], self.session.modulus)
        return total


def unsigned(signatures: Mapping[int, bytes]) -> bool:
    """Whether the members of a group sign no keys.

    Raises
    ------
    SecureSumError
        If only some members sign.
    """
    signing = sorted(member for member, signature in signatures.items() if signature)
    if signing and len(signing) < len(signatures):
        others = sorted(set(signatures).difference(signing))
        raise SecureSumError(
            f"partitions {signing} sign their keys and {others} do not: give every node a"
            " signing-key and a roster, or none",
            key="unlike-members",
        )
    return not signing

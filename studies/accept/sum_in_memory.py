"""A secure sum with all parties in this process."""

from collections.abc import Mapping

from curvfed.strategies.secure_sum import Group, Session, checksum
from curvfed.strategies.secure_sum.fixed_point import Residues
from curvfed.strategies.secure_sum.member import Member
from curvfed.strategies.secure_sum.messages import Basis, MaskedInput
from curvfed.strategies.secure_sum.server import SumOfGroup

BASIS = Basis(**dict.fromkeys(Basis.model_fields, bytes(32)))
"""All members share it: here vectors come from nowhere."""


def sum_in_memory(session: Session, vectors: Mapping[int, Residues]) -> Residues:
    """The sum of the members' vectors, by the whole protocol.

    Parameters
    ----------
    session : Session
    vectors : mapping of int to uint64 array (length,)
        By client, for all of `session.clients`.

    Raises
    ------
    SecureSumError
        If a vector does not fit.
    """
    group = Group(session.run, session.clients)
    members = {partition: Member.begin(group, partition) for partition in session.clients}
    keys = {partition: member.announcement(None) for partition, member in members.items()}
    server = SumOfGroup(session, BASIS)
    for partition, member in members.items():
        masked = member.agree(keys, None).mask(vectors[partition], session, BASIS)
        digest = checksum(masked, session, partition)
        server.receive(partition, masked, MaskedInput(checksum=digest, **BASIS.model_dump()))
    return server.total()

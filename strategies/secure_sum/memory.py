"""A secure sum whose parties are all in this process: for studies, and for tests of what is summed."""

from collections.abc import Collection, Mapping

from curvfed.strategies.secure_sum.collector import Collector
from curvfed.strategies.secure_sum.member import Member
from curvfed.strategies.secure_sum.modular import Residues
from curvfed.strategies.secure_sum.session import Session
from curvfed.strategies.secure_sum.wire import checksum


def sum_in_memory(session: Session, vectors: Mapping[int, Residues], dropped: Collection[int] = ()) -> Residues:
    """The sum of the vectors of those who stay, by the whole protocol.

    Parameters
    ----------
    vectors : mapping of int to uint64 array (length,)
        By client, all of `session.clients`.
    dropped : collection of int
        Clients that vanish after their shares went out.

    Raises
    ------
    SecureSumError
        If fewer than the threshold stay, or a vector does not fit.
    """
    collector = Collector(session)
    members = {client: Member.begin(session, client) for client in session.clients}
    for client, member in members.items():
        collector.take_keys(client, member.keys())
    collector.close_keys()
    for client, member in members.items():
        collector.take_shares(client, member.share(collector.keys))
    collector.close_shares()
    there = [client for client in session.clients if client not in dropped]
    for client in there:
        members[client].deliver(collector.delivery(client))
        hidden = members[client].mask(vectors[client])
        collector.take_masked(client, hidden, checksum(hidden, session, client))
    collector.close_masked()
    for client in there:
        collector.take_revealed(client, members[client].unmask(there))
    return collector.total()

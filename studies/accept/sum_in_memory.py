"""A secure sum with all parties in this process."""

from collections.abc import Collection, Mapping

from curvfed.strategies.secure_sum import Session, checksum
from curvfed.strategies.secure_sum.client import SecureSumClient
from curvfed.strategies.secure_sum.fixed_point import Residues
from curvfed.strategies.secure_sum.messages import Basis
from curvfed.strategies.secure_sum.server import SecureSumServer

BASIS = Basis(parameters=bytes(32), facts=bytes(32), configuration=bytes(32), code=bytes(32))
"""All clients share it: here vectors come from nowhere."""


def sum_in_memory(
    session: Session, vectors: Mapping[int, Residues], dropped: Collection[int] = ()
) -> Residues:
    """The sum of the survivors' vectors, by the whole protocol.

    Parameters
    ----------
    vectors : mapping of int to uint64 array (length,)
        By client, for all of `session.clients`.
    dropped : collection of int
        Clients that vanish after they have sent their shares.

    Raises
    ------
    SecureSumError
        If fewer clients than the threshold stay, or a vector does not fit.
    """
    server = SecureSumServer(session, BASIS)
    clients = {
        partition: SecureSumClient.begin(session, partition) for partition in session.clients
    }
    for partition, client in clients.items():
        server.receive_keys(partition, client.advertise_keys())
    keys = server.close_keys()
    session = server.session
    for partition, client in clients.items():
        server.receive_shares(partition, client.share_keys(keys))
    for partition, encrypted in server.close_shares().items():
        if partition not in dropped:
            clients[partition].receive_shares(encrypted)
            masked = clients[partition].mask_input(vectors[partition], BASIS)
            server.receive_masked_input(
                partition, masked, checksum(masked, session, partition), BASIS
            )
    survivors = server.close_masked_inputs()
    for partition in survivors:
        server.receive_signature(partition, clients[partition].confirm(survivors))
    signatures = server.close_signatures()
    for partition in survivors:
        server.receive_revealed_shares(partition, clients[partition].unmask(signatures))
    return server.total()

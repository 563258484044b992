"""What a client of a secure sum demands of its peers: their keys, and their signatures of the
survivors."""

from collections.abc import Mapping

from curvfed.strategies.secure_sum import crypto
from curvfed.strategies.secure_sum.client_state import ClientState
from curvfed.strategies.secure_sum.errors import PeerError, SecureSumError
from curvfed.strategies.secure_sum.messages import PublicKeys
from curvfed.strategies.secure_sum.session import Session


def checked_session(
    state: ClientState, keys: Mapping[int, PublicKeys], roster: Mapping[int, bytes] | None
) -> Session:
    """The session, bound to the members' keys."""
    session = state.session
    me = state.me
    unknown = sorted(keys.keys() - set(session.clients))
    if unknown:
        raise SecureSumError(
            f"keys of partitions {unknown}, who are not among the clients of the session"
        )
    if keys.get(me) != state.keys[me]:
        raise SecureSumError(f"the keys of partition {me} are not those that it sent")
    if len({key for one in keys.values() for key in (one.mask_key, one.encryption_key)}) != 2 * len(
        keys
    ):
        raise SecureSumError("the same key twice among the clients' keys")
    bound = session.bound(keys)
    if roster is not None and not bound.signed:
        raise SecureSumError(
            f"partition {me} has a roster, and takes part only if all members sign their keys"
        )
    return bound


def check_signatures(
    opened: Session, keys: Mapping[int, PublicKeys], roster: Mapping[int, bytes]
) -> None:
    """Refuse keys that are not signed by the roster's; they were signed in the session as it was
    opened."""
    distrusted = {}
    for peer, one in keys.items():
        if peer not in roster:
            distrusted[peer] = "it is not in the roster"
        elif not crypto.is_signed(roster[peer], one.signature, opened.signed_keys(one, peer)):
            distrusted[peer] = "its keys are not signed by its key in the roster"
    if distrusted:
        raise PeerError(distrusted)


def signers(
    state: ClientState, signatures: Mapping[int, bytes], roster: Mapping[int, bytes]
) -> int:
    """How many survivors signed this client's list, itself among them; no more are counted than are
    needed."""
    session = state.session
    text = session.context("survivors", *state.survivors)
    found = 1
    for peer in state.survivors:
        if found == session.needed:
            break
        known = peer != state.me and peer in signatures and peer in roster
        found += known and crypto.is_signed(roster[peer], signatures[peer], text)
    return found

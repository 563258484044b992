"""A client's checks of its peers in a secure sum: their keys, and their signatures of the
survivors."""

from collections.abc import Mapping

from curvfed.strategies.secure_sum import crypto
from curvfed.strategies.secure_sum.client_state import ClientState
from curvfed.strategies.secure_sum.errors import PeerError, SecureSumError
from curvfed.strategies.secure_sum.messages import Basis, PublicKeys
from curvfed.strategies.secure_sum.session import Session


def masked_basis(state: ClientState) -> Basis:
    """The basis of a vector that was masked."""
    if state.basis is None:
        raise SecureSumError(
            f"partition {state.me} has not masked a vector in this sum", key="step-order"
        )
    return state.basis


def checked_session(
    state: ClientState, keys: Mapping[int, PublicKeys], roster: Mapping[int, bytes] | None
) -> Session:
    """The session, bound to the members' keys."""
    session = state.session
    me = state.me
    unknown = sorted(keys.keys() - set(session.clients))
    if unknown:
        raise SecureSumError(
            f"keys of partitions {unknown}, who are not among the clients of the session",
            key="not-a-member",
        )
    if keys.get(me) != state.keys[me]:
        raise SecureSumError(
            f"the keys of partition {me} are not those that it sent", key="other-keys"
        )
    different = {key for pair in keys.values() for key in (pair.mask_key, pair.encryption_key)}
    if len(different) != 2 * len(keys):
        raise SecureSumError("the same key twice among the clients' keys", key="repeated-key")
    bound = session.bound(keys)
    if roster is not None and not bound.signed:
        raise SecureSumError(
            f"partition {me} has a roster, and takes part only if all members sign their keys",
            key="unsigned-keys",
        )
    return bound


def check_signatures(
    opened: Session, keys: Mapping[int, PublicKeys], roster: Mapping[int, bytes]
) -> None:
    """Refuse keys that are not signed by the roster's keys; `opened` is the session in which they
    were signed."""
    distrusted = {}
    for peer, key in keys.items():
        if peer not in roster:
            distrusted[peer] = "it is not in the roster"
        elif not crypto.is_signed(roster[peer], key.signature, opened.signed_keys(key, peer)):
            distrusted[peer] = "its keys are not signed by its key in the roster"
    if distrusted:
        raise PeerError(distrusted)


def signers(
    state: ClientState, signatures: Mapping[int, bytes], roster: Mapping[int, bytes]
) -> int:
    """The number of survivors, with this client, that signed this client's list and basis; the
    count stops at the number needed."""
    session = state.session
    text = session.signed_survivors(masked_basis(state), state.survivors)
    count = 1
    for peer in state.survivors:
        if count == session.needed:
            break
        if peer != state.me and peer in signatures and peer in roster:
            count += crypto.is_signed(roster[peer], signatures[peer], text)
    return count

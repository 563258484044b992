"""A client's state between the steps of a secure sum, and its checks of its peers: their keys, and
their signatures of the survivors."""

from collections.abc import Mapping
from typing import Literal, Self, get_args

from pydantic import Field, ValidationError

from curvfed.strategies.errors import PeerError, SecureSumError
from curvfed.strategies.secure_sum import Session, crypto
from curvfed.strategies.secure_sum.messages import Basis, Message, Parts, PublicKeys, refusal

Step = Literal["share keys", "receive shares", "mask input", "confirm", "unmask", "done"]
STEPS: tuple[Step, ...] = get_args(Step)
"""In order; no step follows "done"."""


class ClientState(Message):
    """The state of one client in one session. Fields that no later step needs are empty.

    Attributes
    ----------
    session : Session
    me : int
        This client's partition.
    step : str
        The step that comes next.
    keys : mapping of int to PublicKeys
        First this client's own; from "receive shares" on those of all clients that answered; from
        "mask input" on its own and those of the neighbours that sent shares.
    mask_secret, encryption_secret, seed : bytes, 32
        Secrets of the two public keys, and the seed of the self mask.
    payload : bytes
        The bytes for all other clients.
    shares : mapping of int to bytes
        By sender, a share of its seed and one of its mask secret; this client's own among them from
        "receive shares" on.
    statements : mapping of int to bytes
        By client; before "receive shares" parts of those to be sent, then those sent, and from
        "mask input" on those received.
    senders : tuple of int
        All clients that sent shares, this one among them.
    basis : Basis or None
        What the vector was computed from; from "confirm" on.
    has_noise : bool
        Whether the vector has noise, whose cost a node records before it signs; from "confirm" on.
    survivors : tuple of int
        The clients that this one signed for, ascending; from "unmask" on.
    """

    session: Session
    me: int
    step: Step
    keys: dict[int, PublicKeys] = Field(default_factory=dict)
    mask_secret: bytes = Field(default=b"", repr=False)
    encryption_secret: bytes = Field(default=b"", repr=False)
    seed: bytes = Field(default=b"", repr=False)
    payload: bytes = Field(default=b"", repr=False)
    shares: dict[int, bytes] = Field(default_factory=dict, repr=False)
    statements: dict[int, bytes] = Field(default_factory=dict)
    senders: tuple[int, ...] = ()
    basis: Basis | None = None
    has_noise: bool = False
    survivors: tuple[int, ...] = ()

    def as_parts(self) -> Parts:
        """The state as one text, for storage."""
        return {"state": self.model_dump_json()}

    @classmethod
    def from_parts(cls, parts: Mapping[str, object]) -> Self:
        """Inverse of `as_parts`.

        Raises
        ------
        SecureSumError
            If it is not a stored state.
        """
        try:
            return cls.model_validate_json(str(parts.get("state")))
        except ValidationError as error:
            raise refusal(cls, error) from None


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

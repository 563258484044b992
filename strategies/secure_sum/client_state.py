"""The state that a client keeps between two steps of a secure sum."""

from collections.abc import Mapping
from typing import Literal, Self, get_args

from pydantic import Field, ValidationError

from curvfed.strategies.secure_sum.messages import Basis, Message, Parts, PublicKeys, refusal
from curvfed.strategies.secure_sum.session import Session

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

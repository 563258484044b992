"""What a client keeps between two steps of a secure sum."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.secure_sum.session import Session
from curvfed.strategies.secure_sum.wire import (
    Keys,
    Parts,
    by_partition,
    bytes_in,
    check_names,
    int_in,
    key_book,
    key_book_parts,
    list_in,
    str_in,
)

STEPS = ("keys", "share", "deliver", "mask", "unmask", "done")
"""In order; "done" takes no other."""

_TEXTS, _NUMBERS = ("run", "phase", "step"), ("round", "modulus", "length", "threshold", "neighbours", "me")
_SECRETS = ("mask_secret", "seal_secret", "seed", "note")
_LISTS = ("clients", "senders", "partitions", "share_senders")
_BYTE_LISTS = ("mask_keys", "seal_keys", "signatures", "shares")


@dataclass(frozen=True)
class State:
    """Of one client in one session; what a later step does not need is empty.

    Attributes
    ----------
    session : Session
    me : int
    step : str
        The step that comes next.
    keys : mapping of int to Keys
        My own public keys; from "deliver" on those of all who answered; from "mask" on those of my neighbours who sent
        shares, and mine.
    mask_secret, seal_secret, seed : bytes, 32
    note : bytes
        What I tell the others.
    shares : mapping of int to bytes
        By sender: two shares, of its seed and of its mask secret. My own from "deliver" on.
    senders : tuple of int
        All who sent shares, me among them.
    """

    session: Session
    me: int
    step: str
    keys: Mapping[int, Keys] = field(default_factory=dict)
    mask_secret: bytes = field(default=b"", repr=False)
    seal_secret: bytes = field(default=b"", repr=False)
    seed: bytes = field(default=b"", repr=False)
    note: bytes = field(default=b"", repr=False)
    shares: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    senders: tuple[int, ...] = ()

    def as_parts(self) -> Parts:
        """To store it."""
        session = self.session
        return {
            "run": session.run,
            "phase": session.phase,
            "round": session.round,
            "modulus": session.modulus,
            "length": session.length,
            "clients": [*session.clients],
            "threshold": session.threshold,
            "neighbours": session.neighbours,
            "me": self.me,
            "step": self.step,
            "mask_secret": self.mask_secret,
            "seal_secret": self.seal_secret,
            "seed": self.seed,
            "note": self.note,
            "share_senders": [*self.shares],
            "shares": [*self.shares.values()],
            "senders": [*self.senders],
            **key_book_parts(self.keys),
        }

    @classmethod
    def from_parts(cls, parts: Mapping[str, object]) -> "State":
        """Inverse of `as_parts`.

        Raises
        ------
        SecureSumError
            If a part is missing, too many or of a wrong type, or the session is none.
        """
        check_names(parts, *_TEXTS, *_NUMBERS, *_SECRETS, *_LISTS, *_BYTE_LISTS)
        text = {name: str_in(parts, name) for name in _TEXTS}
        number = {name: int_in(parts, name) for name in _NUMBERS}
        step, me = text.pop("step"), number.pop("me")
        if step not in STEPS:
            raise SecureSumError("a stored state of no known step")
        book = ("partitions", "mask_keys", "seal_keys", "signatures")
        return cls(
            Session(**text, **number, clients=tuple(list_in(parts, "clients", int))),  # type: ignore[arg-type]
            me,
            step,
            key_book({name: parts[name] for name in book}),
            **{name: bytes_in(parts, name) for name in _SECRETS},
            shares=by_partition({"partitions": parts["share_senders"], "values": parts["shares"]}),
            senders=tuple(list_in(parts, "senders", int)),
        )

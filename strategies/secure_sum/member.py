"""A member's half of the secure sums of a run: its keys, its texts to its peers, its masks."""

import secrets
from collections.abc import Callable, Mapping
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from pydantic import Field, ValidationError

from curvfed.strategies.errors import PeerError, SecureSumError
from curvfed.strategies.secure_sum import Group, Session, crypto, masks
from curvfed.strategies.secure_sum.fixed_point import Residues, check_residues
from curvfed.strategies.secure_sum.messages import Basis, Message, Parts, PublicKey, refusal

Entropy = Callable[[int], bytes]


class Member(Message):
    """A member of a group in one run, as it is stored between two messages.

    A server that names other members, keys or phases to some members gets sums in which the masks
    do not cancel each other: everything that they must agree on goes into the keys of the masks.
    With a roster a member accepts only keys that its peers have signed. Without a roster the server
    can replace keys, and must be honest.

    Attributes
    ----------
    group : Group
    me : int
        This member's partition.
    secret : bytes, 32
        The secret of its public key, fresh for each exchange of keys.
    keys : mapping of int to bytes
        The public keys of all members; empty before `agree`.
    shared_secrets : mapping of int to bytes, 32
        The secret that this member shares with each other one; empty before `agree`.
    statements : mapping of int to bytes
        This member's statement to each peer, sent with its keys, for the caller.
    note : bytes
        This member's note to all peers alike.
    written : mapping of int to bytes
        The encrypted texts to the peers: if the reply was lost, they are sent again.
    split : str
        Digest of the data and their split when the keys were exchanged.
    hides : bool
        Whether it has stated examples, by which peers count themselves hidden.
    last : int
        The caller's number of the last sum under these keys.
    """

    group: Group
    me: int
    secret: bytes = Field(repr=False)
    keys: dict[int, bytes] = Field(default_factory=dict)
    shared_secrets: dict[int, bytes] = Field(default_factory=dict, repr=False)
    statements: dict[int, bytes] = Field(default_factory=dict)
    note: bytes = b""
    written: dict[int, bytes] = Field(default_factory=dict)
    split: str = ""
    hides: bool = True
    last: int = -1

    @classmethod
    def begin(cls, group: Group, me: int, entropy: Entropy = secrets.token_bytes) -> Self:
        """A member with a fresh key.

        Raises
        ------
        SecureSumError
            If the partition is not in the group.
        """
        if me not in group.members:
            raise SecureSumError(
                f"partition {me} is not among the members of the group", key="not-a-member"
            )
        return cls(group=group, me=me, secret=entropy(crypto.KEY_BYTES))

    def announcement(self, signing_key: Ed25519PrivateKey | None) -> PublicKey:
        """The public key, for the server and all peers, signed if there is a key for it."""
        key = crypto.public_key(self.secret)
        if signing_key is None:
            return PublicKey(key=key, signature=b"")
        return PublicKey(key=key, signature=signing_key.sign(self.group.signed_key(self.me, key)))

    def agree(self, keys: Mapping[int, PublicKey], roster: Mapping[int, bytes] | None) -> Self:
        """The member with the keys of all members; unchanged if it has these keys already.

        Parameters
        ----------
        keys : mapping of int to PublicKey
            Of all members, this one included.
        roster : mapping of int to bytes, optional
            Raw Ed25519 public keys of all trusted members.

        Raises
        ------
        SecureSumError
            If keys are missing, repeated, or not those that this member sent, or if it has agreed
            on others.
        PeerError
            If keys are degenerate, or the roster's keys have not signed them.
        """
        agreed = {member: item.key for member, item in keys.items()}
        if self.keys:
            if self.keys == agreed:
                return self
            raise SecureSumError(
                "the keys of this group were exchanged before; a new exchange begins with fresh"
                " keys",
                key="repeated-keys",
            )
        if sorted(keys) != list(self.group.members):
            raise SecureSumError(
                f"keys of partitions {sorted(keys)}; needed are those of all members,"
                f" {list(self.group.members)}",
                key="not-a-member",
            )
        if keys[self.me].key != crypto.public_key(self.secret):
            raise SecureSumError(
                f"the key of partition {self.me} is not the one that it sent", key="other-keys"
            )
        if len({item.key for item in keys.values()}) != len(keys):
            raise SecureSumError("the same key twice among the members' keys", key="repeated-key")
        self._check_peers(keys, roster)
        shared = self._secrets(agreed)
        return self.model_copy(update={"keys": agreed, "shared_secrets": shared})

    def _check_peers(
        self, keys: Mapping[int, PublicKey], roster: Mapping[int, bytes] | None
    ) -> None:
        if roster is None:
            return
        distrusted = {}
        for peer, item in keys.items():
            text = self.group.signed_key(peer, item.key)
            if peer not in roster:
                distrusted[peer] = "it is not in the roster"
            elif not crypto.is_signed(roster[peer], item.signature, text):
                distrusted[peer] = "its key is not signed by its key in the roster"
        if distrusted:
            raise PeerError(distrusted)

    def _secrets(self, keys: Mapping[int, bytes]) -> dict[int, bytes]:
        """The secret that this member shares with each other one. The keys of all members go into
        it."""
        own = X25519PrivateKey.from_private_bytes(self.secret)
        bound = self.group.digest_of_keys(keys)
        shared = {}
        degenerate = {}
        for peer, key in keys.items():
            if peer == self.me:
                continue
            low, high = sorted([self.me, peer])
            secret = crypto.agree(own, key, self.group.context("pair", bound, low, high))
            if secret is None:
                degenerate[peer] = "its key is degenerate"
            else:
                shared[peer] = secret
        if degenerate:
            raise PeerError(degenerate)
        return shared

    def write(
        self, texts: Mapping[int, bytes], entropy: Entropy = secrets.token_bytes
    ) -> dict[int, bytes]:
        """A text for each peer, encrypted. The server sees only their lengths."""
        encrypted = {}
        for peer, secret in self.shared_secrets.items():
            context = self.group.context("text", self.me, peer)
            nonce = entropy(crypto.NONCE_BYTES)
            key = crypto.derive(secret, context)
            encrypted[peer] = crypto.encrypt(key, nonce, texts[peer], context)
        return encrypted

    def read(self, encrypted: Mapping[int, bytes]) -> dict[int, bytes]:
        """The texts of all peers.

        Raises
        ------
        SecureSumError
            If the text of a peer is missing.
        PeerError
            If texts cannot be decrypted: they were changed, or written for another member, under
            other keys or by another peer.
        """
        texts = {}
        unreadable = {}
        for peer, secret in self.shared_secrets.items():
            context = self.group.context("text", peer, self.me)
            if peer not in encrypted:
                raise SecureSumError(f"the text of partition {peer} is missing", key="no-text")
            text = crypto.decrypt(crypto.derive(secret, context), encrypted[peer], context)
            if text is None:
                unreadable[peer] = "its text cannot be decrypted"
            else:
                texts[peer] = text
        if unreadable:
            raise PeerError(unreadable)
        return texts

    def mask(self, vector: Residues, session: Session, basis: Basis) -> Residues:
        """The masked vector for a sum over this member's group.

        Raises
        ------
        SecureSumError
            If the session is of another group or run, the vector does not fit it, or the members
            have not exchanged keys.
        """
        if not self.shared_secrets:
            raise SecureSumError("the members have not exchanged keys", key="no-keys")
        if (session.run, session.clients) != (self.group.run, self.group.members):
            raise SecureSumError(
                "the sum is over another group than the one that exchanged keys", key="other-group"
            )
        check_residues(vector, session.length, session.modulus)
        return masks.mask(vector, session, self.shared_secrets, self.me, basis)

    def as_parts(self) -> Parts:
        """The member as one text, for storage."""
        return {"state": self.model_dump_json()}

    @classmethod
    def from_parts(cls, parts: Mapping[str, object]) -> Self:
        """Inverse of `as_parts`.

        Raises
        ------
        SecureSumError
            If it is not a stored member.
        """
        try:
            return cls.model_validate_json(str(parts.get("state")))
        except ValidationError as error:
            raise refusal(cls, error) from None

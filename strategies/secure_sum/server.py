"""The server's half of a secure sum (Bonawitz et al., CCS 2017)."""

from collections.abc import Callable, Container, Mapping, Sized
from functools import partial

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from curvfed.strategies.secure_sum import crypto, shamir
from curvfed.strategies.secure_sum.encrypted_shares import SHARES_BYTES
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.secure_sum.masks import commitment, pairwise_mask, self_mask
from curvfed.strategies.secure_sum.messages import KEY_TAG, SEED_TAG, EncryptedShares, PublicKeys, checksum
from curvfed.strategies.secure_sum.modular import Residues, add, check_residues, subtract
from curvfed.strategies.secure_sum.session import Session

STEPS = ("public keys", "encrypted shares", "masked inputs", "revealed shares", "done")


class SecureSumServer:
    """Collects the messages of one session, passes encrypted shares on, and adds up the vectors of the survivors.

    Each step receives any number of messages until it is closed, which needs as many messages as the threshold; closing
    it returns what the next step's messages need. A message that is late, early, repeated, foreign or malformed raises
    SecureSumError and changes nothing.

    Parameters
    ----------
    session : Session
    roster : mapping of int to bytes, optional
        Raw Ed25519 public keys of the clients. Clients check signatures themselves. Checked here too, one bad key
        excludes one client, where otherwise all clients refuse it and the sum is lost.

    Attributes
    ----------
    step : str
        The kind of message that is being received, or "done".
    suspects : set of int
        Clients whose share of some secret does not fit the others: either they or the share's owner made a mistake.
    """

    def __init__(self, session: Session, roster: Mapping[int, bytes] | None = None) -> None:
        self.session = session
        self.step = STEPS[0]
        self.suspects: set[int] = set()
        self._roster = roster
        self._keys: dict[int, PublicKeys] = {}
        self._graph: Mapping[int, tuple[int, ...]] = {}
        self._encrypted: dict[int, dict[int, bytes]] = {}
        self._commitments: dict[int, bytes] = {}
        self._survivors: set[int] = set()
        self._sum: Residues = np.zeros(session.length, np.uint64)
        self._responders: set[int] = set()
        self._revealed: dict[int, dict[int, bytes]] = {}

    def receive_keys(self, partition: int, keys: PublicKeys) -> None:
        """Receive a client's public keys.

        Raises
        ------
        SecureSumError
        """
        self._check("public keys", partition, self.session.clients, self._keys)
        known = {key for one in self._keys.values() for key in (one.mask_key, one.encryption_key)}
        if keys.mask_key == keys.encryption_key or known & {keys.mask_key, keys.encryption_key}:
            raise SecureSumError(f"partition {partition}: a key that was sent before")
        if crypto.is_degenerate(keys.mask_key) or crypto.is_degenerate(keys.encryption_key):
            raise SecureSumError(f"partition {partition}: a degenerate key")
        if self._roster is not None and not (
            partition in self._roster
            and crypto.is_signed(self._roster[partition], keys.signature, keys.signed_text(self.session, partition))
        ):
            raise SecureSumError(f"partition {partition}: its keys are not signed by its key in the roster")
        self._keys[partition] = keys

    def close_keys(self) -> dict[int, PublicKeys]:
        """Receive no more keys; return the keys of all clients that sent some.

        Raises
        ------
        SecureSumError
            If there are fewer than the threshold.
        """
        self._close("public keys", self._keys, "sent keys")
        self._graph = self.session.graph(tuple(sorted(self._keys)))
        return dict(sorted(self._keys.items()))

    def receive_shares(self, partition: int, shares: EncryptedShares) -> None:
        """Receive what a client encrypted for its neighbours, or for all others if it has a payload for them.

        Raises
        ------
        SecureSumError
        """
        self._check("encrypted shares", partition, self._keys, self._encrypted)
        near = set(self._graph[partition])
        encrypted = shares.by_partition
        if encrypted.keys() != near and encrypted.keys() != self._keys.keys() - {partition}:
            raise SecureSumError(f"partition {partition}: shares for others than its peers")
        payload_sizes = {len(text) - (SHARES_BYTES if to in near else 0) for to, text in encrypted.items()}
        if len(payload_sizes) > 1 or min(payload_sizes) < crypto.CIPHERTEXT_OVERHEAD:
            raise SecureSumError(f"partition {partition}: shares of a wrong size")
        self._encrypted[partition] = encrypted
        self._commitments[partition] = shares.commitment

    def close_shares(self) -> dict[int, dict[int, bytes]]:
        """Receive no more shares; return for each client that sent some what the others sent it, by sender.

        It is empty where the other client sent it nothing.

        Raises
        ------
        SecureSumError
            If there are fewer than the threshold.
        """
        self._close("encrypted shares", self._encrypted, "sent shares")
        senders = sorted(self._encrypted)
        delivered = {
            receiver: {sender: self._encrypted[sender].get(receiver, b"") for sender in senders if sender != receiver}
            for receiver in senders
        }
        self._encrypted.clear()
        return delivered

    def receive_masked_input(self, partition: int, vector: Residues, check: bytes) -> None:
        """Receive a client's masked input, and the `checksum` that was sent with it.

        Raises
        ------
        SecureSumError
        """
        self._check("masked inputs", partition, self._commitments, self._survivors)
        try:
            check_residues(vector, self.session.length, self.session.modulus)
        except SecureSumError as error:
            raise SecureSumError(f"partition {partition}: {error}") from None
        if checksum(vector, self.session, partition) != check:
            raise SecureSumError(f"partition {partition}: the masked input does not fit its checksum")
        self._sum = add(self._sum, vector, self.session.modulus)
        self._survivors.add(partition)

    def close_masked_inputs(self) -> tuple[int, ...]:
        """Receive no more masked inputs; return the survivors, whose vectors are in the sum, in ascending order.

        Raises
        ------
        SecureSumError
            If there are fewer than the threshold.
        """
        self._close("masked inputs", self._survivors, "sent masked vectors")
        return tuple(sorted(self._survivors))

    def receive_revealed_shares(self, partition: int, revealed: Mapping[int, bytes]) -> None:
        """Receive a survivor's shares of its neighbours' secrets and of its own.

        Raises
        ------
        SecureSumError
        """
        self._check("revealed shares", partition, self._survivors, self._responders)
        expected = {partition, *self._graph[partition]} & self._commitments.keys()
        if revealed.keys() != expected:
            raise SecureSumError(f"partition {partition}: shares of others than its peers")
        for client, tagged in revealed.items():
            tag = SEED_TAG if client in self._survivors else KEY_TAG
            if tagged[:1] != tag:
                raise SecureSumError(f"partition {partition}: a share of the wrong kind")
            try:
                shamir.check_share(tagged[1:])
            except SecureSumError as error:
                raise SecureSumError(f"partition {partition}: {error}") from None
        self._responders.add(partition)
        for client, tagged in revealed.items():
            self._revealed.setdefault(client, {})[partition] = tagged[1:]

    def total(self) -> Residues:
        """The sum of the survivors' vectors modulo q.

        Returns
        -------
        array (length,), uint64

        Raises
        ------
        SecureSumError
            If fewer clients than the threshold revealed shares, or a secret cannot be recovered. More shares can then
            be received, and the total asked for again.
        """
        session, survivors = self.session, self._survivors
        self._check_step("revealed shares")
        session.check_enough(len(self._responders), "revealed shares")
        total = self._sum
        for client in sorted(survivors):
            seed = self._recovered(client, partial(commitment, session, client), self._commitments[client])
            total = subtract(total, self_mask(session, client, seed), session.modulus)
        for client in sorted(self._commitments.keys() - survivors):
            key = self._keys[client].mask_key
            secret = X25519PrivateKey.from_private_bytes(self._recovered(client, crypto.public_key, key))
            for peer in self._graph[client]:
                if peer in survivors:  # cancel the mask that the survivor added or subtracted
                    add_or_subtract = subtract if peer < client else add
                    mask = pairwise_mask(session, secret, client, peer, key, self._keys[peer].mask_key)
                    total = add_or_subtract(total, mask, session.modulus)
        self.step = "done"
        self._revealed.clear()
        return total

    def _recovered(self, client: int, public: Callable[[bytes], bytes], expected: bytes) -> bytes:
        """Recover a client's secret. Its `public` value must be the expected one, which the client sent before.

        If the first shares give another secret, one of their senders at a time is left out.
        """
        needed = self.session.shares_needed
        shares = self._revealed.get(client, {})
        trusted = sorted(shares.keys() - self.suspects)
        if len(trusted) < needed:
            raise SecureSumError(f"partition {client}: {len(trusted)} of its shares were revealed; needed {needed}")
        spare = len(trusted) > needed
        for left_out in [set(), *({one} for one in trusted[:needed] if spare)]:
            chosen = [one for one in trusted if one not in left_out][:needed]
            secret = shamir.combine({one + 1: shares[one] for one in chosen})
            if secret is not None and public(secret) == expected:
                self.suspects |= left_out
                return secret
        raise SecureSumError(f"partition {client}: its shares do not fit together, or not what it sent before")

    def _check(self, step: str, partition: int, expected: Container[int], received: Container[int]) -> None:
        """Refuse a message of another step, of a client that did not take the step before, or a repeated one."""
        try:
            self._check_step(step)
        except SecureSumError as error:
            raise SecureSumError(f"partition {partition}: {error}") from None
        if partition not in expected:
            reason = "did not take the step before" if partition in self.session.clients else "is not in the session"
            raise SecureSumError(f"partition {partition} {reason}")
        if partition in received:
            raise SecureSumError(f"partition {partition}: it sent {step} before")

    def _check_step(self, step: str) -> None:
        if self.step != step:
            when = "late" if STEPS.index(self.step) > STEPS.index(step) else "early"
            raise SecureSumError(f"{step} are {when}: the server is at {self.step}")

    def _close(self, step: str, received: Sized, what: str) -> None:
        self._check_step(step)
        self.session.check_enough(len(received), what)
        self.step = STEPS[STEPS.index(step) + 1]

"""The server's half of a secure sum (Bonawitz et al., CCS 2017)."""

from collections.abc import Callable, Collection, Container, Mapping, Sized
from dataclasses import replace
from functools import partial

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from curvfed.strategies.errors import SecureSumError
from curvfed.strategies.secure_sum import Session, checksum, crypto, shamir
from curvfed.strategies.secure_sum.fixed_point import Residues, add, check_residues, subtract
from curvfed.strategies.secure_sum.masks import SHARES_BYTES, commitment, pairwise_mask, self_mask
from curvfed.strategies.secure_sum.messages import (
    KEY_TAG,
    SEED_TAG,
    Basis,
    EncryptedShares,
    PublicKeys,
)

STEPS = (
    "public keys",
    "encrypted shares",
    "masked inputs",
    "signatures",
    "revealed shares",
    "done",
)


class SecureSumServer:
    """Collects the messages of one session, passes encrypted shares on, and adds up the vectors of
    the survivors.

    Each step receives any number of messages until it is closed, which needs as many messages as
    the threshold; closing it returns what the next step's messages need. A message that is late,
    early, repeated, foreign or malformed raises SecureSumError and changes nothing.

    Instead of encrypted shares or a masked input a client can send a complaint about others.
    `to_leave_out` then says who cannot be part of the sum; it must start anew, with fresh keys and
    without these.

    Parameters
    ----------
    session : Session
        As it is opened; from `close_keys` on that which is bound to the members' keys.
    basis : Basis
        What every member's vector must be computed from.

    Attributes
    ----------
    step : str
        The kind of message that is being received, or "done".
    suspects : set of int
        Clients whose share of some secret does not fit the others: either they or the share's owner
        made a mistake.
    unlike : set of int
        Clients that do not sign their keys where most do, or the other way round. They are left
        out.
    """

    def __init__(self, session: Session, basis: Basis) -> None:
        self.session = session
        self.basis = basis
        self.step = STEPS[0]
        self.suspects: set[int] = set()
        self.unlike: set[int] = set()
        self._idle: set[int] = set()
        self._signers: dict[int, bytes] = {}
        self._signatures: dict[int, bytes] = {}
        self._complaints: dict[int, set[int]] = {}
        self._keys: dict[int, PublicKeys] = {}
        self._encrypted: dict[int, dict[int, bytes]] = {}
        self._commitments: dict[int, bytes] = {}
        self._survivors: set[int] = set()
        self._to_sign = b""
        self._sum: Residues = np.zeros(session.length, np.uint64)
        self._responders: set[int] = set()
        self._revealed: dict[int, dict[int, bytes]] = {}

    def stay_out(self, partition: int) -> None:
        """Record that a client has nothing to contribute and sends no keys. The threshold follows
        from the other clients.

        Raises
        ------
        SecureSumError
        """
        self._check("public keys", partition, self.session.clients, self._keys.keys() | self._idle)
        self._idle.add(partition)

    def receive_keys(self, partition: int, keys: PublicKeys, signing_key: bytes = b"") -> None:
        """Receive a client's public keys, and the key that it signs with, which its peers check.

        Raises
        ------
        SecureSumError
        """
        self._check("public keys", partition, self.session.clients, self._keys.keys() | self._idle)
        earlier_keys = {
            key for sent in self._keys.values() for key in (sent.mask_key, sent.encryption_key)
        }
        if keys.mask_key == keys.encryption_key or earlier_keys & {
            keys.mask_key,
            keys.encryption_key,
        }:
            raise SecureSumError(
                f"partition {partition}: a key that was sent before", key="repeated-key"
            )
        if crypto.is_degenerate(keys.mask_key) or crypto.is_degenerate(keys.encryption_key):
            raise SecureSumError(f"partition {partition}: a degenerate key", key="degenerate-key")
        text = self.session.signed_keys(keys, partition)
        if keys.signature and not crypto.is_signed(signing_key, keys.signature, text):
            raise SecureSumError(
                f"partition {partition}: its keys are not signed by the key that it names",
                key="unsigned-keys",
            )
        self._keys[partition] = keys
        self._signers[partition] = signing_key

    def close_keys(self) -> dict[int, PublicKeys]:
        """Receive no more keys; return those of the members: all clients that sent keys and sign
        them, or do not sign them, as the majority does.

        Raises
        ------
        SecureSumError
            If there are fewer members than the threshold of the contributing clients.
        """
        self._check_step("public keys")
        if self._idle:
            active = tuple(client for client in self.session.clients if client not in self._idle)
            self.session = replace(self.session, clients=active, asked=self.session.num_asked)
        signing = {partition for partition, keys in self._keys.items() if keys.signature}
        self.unlike = min(self._keys.keys() - signing, signing, key=len)
        members = {
            partition: keys
            for partition, keys in sorted(self._keys.items())
            if partition not in self.unlike
        }
        if self.unlike and len(members) < self.session.needed:
            raise SecureSumError(
                f"partitions {sorted(signing)} sign their keys,"
                f" {sorted(self._keys.keys() - signing)} do not: give every node a signing-key and"
                " a roster, or none",
                key="mixed-signatures",
            )
        self._close("public keys", members, "sent keys")
        self._keys = members
        self.session = self.session.bound(members)
        return members

    def receive_complaint(self, partition: int, accused: Collection[int]) -> None:
        """Receive a complaint, instead of encrypted shares or a masked input, that keys or shares
        of other clients do not verify.

        Raises
        ------
        SecureSumError
        """
        expected, answered = self._in_this_step()
        self._check(self.step, partition, expected, answered | self._complaints.keys())
        if not accused or partition in accused or not expected >= set(accused):
            raise SecureSumError(
                f"partition {partition}: a complaint about others than its peers", key="complaint"
            )
        self._complaints[partition] = set(accused)

    def to_leave_out(self) -> dict[int, str]:
        """The clients to leave out after the complaints of this step, each with the reason.

        If more than half of a client's neighbours that answered complain about it, it is left out;
        otherwise those who complain are left out.
        """
        _, answered = self._in_this_step()
        out: dict[int, str] = {}
        for accused in sorted(set().union(*self._complaints.values())):
            accusers = {
                client for client, targets in self._complaints.items() if accused in targets
            }
            jury = (answered | self._complaints.keys()) & set(self.session.graph[accused])
            if 2 * len(accusers & jury) > len(jury):
                out[accused] = (
                    f"{len(accusers & jury)} of its {len(jury)} neighbours cannot verify what it"
                    " sent"
                )
            else:
                out |= dict.fromkeys(
                    accusers, f"it cannot verify what partition {accused} sent, and most others can"
                )
        return out

    def _in_this_step(self) -> tuple[set[int], set[int]]:
        """The clients that must send encrypted shares or masked inputs, and those that have."""
        if self.step == "encrypted shares":
            return set(self._keys), set(self._encrypted)
        return set(self._commitments), self._survivors

    def receive_shares(self, partition: int, shares: EncryptedShares) -> None:
        """Receive a client's encrypted shares for its neighbours, or for all others if it has a
        payload.

        Raises
        ------
        SecureSumError
        """
        self._check("encrypted shares", partition, self._keys, self._encrypted)
        near = set(self.session.graph[partition])
        encrypted = shares.by_partition
        if encrypted.keys() != near and encrypted.keys() != self._keys.keys() - {partition}:
            raise SecureSumError(
                f"partition {partition}: shares for others than its peers", key="receivers"
            )
        payload_sizes = {
            len(text) - (SHARES_BYTES if to in near else 0) for to, text in encrypted.items()
        }
        if len(payload_sizes) > 1 or min(payload_sizes) < crypto.CIPHERTEXT_OVERHEAD:
            raise SecureSumError(f"partition {partition}: shares of a wrong size", key="size")
        self._encrypted[partition] = encrypted
        self._commitments[partition] = shares.commitment

    def close_shares(self) -> dict[int, dict[int, bytes]]:
        """Receive no more shares; return for each sender the shares that the others sent it.

        They are by sender, and empty from a client that sent it nothing.

        Raises
        ------
        SecureSumError
            If there are fewer than the threshold.
        """
        self._close("encrypted shares", self._encrypted, "sent shares")
        senders = sorted(self._encrypted)
        delivered: dict[int, dict[int, bytes]] = {receiver: {} for receiver in senders}
        for receiver, incoming in delivered.items():
            for sender in senders:
                if sender != receiver:
                    incoming[sender] = self._encrypted[sender].get(receiver, b"")
        self._encrypted.clear()
        return delivered

    def receive_masked_input(
        self, partition: int, vector: Residues, check: bytes, basis: Basis
    ) -> None:
        """Receive a client's masked input, and the `checksum` and the basis that were sent with
        it.

        Raises
        ------
        SecureSumError
        """
        self._check("masked inputs", partition, self._commitments, self._survivors)
        try:
            check_residues(vector, self.session.length, self.session.modulus)
        except SecureSumError as error:
            raise SecureSumError(f"partition {partition}: {error}", key="vector") from None
        if checksum(vector, self.session, partition) != check:
            raise SecureSumError(
                f"partition {partition}: the masked input does not fit its checksum", key="checksum"
            )
        if names := self.basis.differences(basis):
            raise SecureSumError(
                f"partition {partition}: its vector comes from other {' and '.join(names)} than"
                " this sum's",
                key="other-basis",
            )
        self._sum = add(self._sum, vector, self.session.modulus)
        self._survivors.add(partition)

    def close_masked_inputs(self) -> tuple[int, ...]:
        """Receive no more masked inputs; return the survivors, whose vectors are in the sum, in
        ascending order.

        Raises
        ------
        SecureSumError
            If there are fewer than the threshold.
        """
        self._close("masked inputs", self._survivors, "sent masked vectors")
        self.session.check_survivors(self._survivors)
        survivors = tuple(sorted(self._survivors))
        self._to_sign = self.session.signed_survivors(self.basis, survivors)
        return survivors

    def receive_signature(self, partition: int, signature: bytes) -> None:
        """Receive a survivor's signature of the survivors; empty if the session is not signed.

        Raises
        ------
        SecureSumError
        """
        self._check("signatures", partition, self._survivors, self._signatures)
        if self.session.signed and not crypto.is_signed(
            self._signers[partition], signature, self._to_sign
        ):
            raise SecureSumError(
                f"partition {partition}: it did not sign the survivors", key="unsigned-survivors"
            )
        self._signatures[partition] = signature

    def close_signatures(self) -> dict[int, bytes]:
        """Receive no more signatures; return those of the survivors that confirmed the sum.

        Raises
        ------
        SecureSumError
            If there are fewer than the threshold.
        """
        self._close("signatures", self._signatures, "confirmed the survivors")
        return dict(sorted(self._signatures.items()))

    def receive_revealed_shares(self, partition: int, revealed: Mapping[int, bytes]) -> None:
        """Receive a survivor's shares of its neighbours' secrets and of its own.

        Raises
        ------
        SecureSumError
        """
        self._check("revealed shares", partition, self._signatures, self._responders)
        expected = {partition, *self.session.graph[partition]} & self._commitments.keys()
        if revealed.keys() != expected:
            raise SecureSumError(
                f"partition {partition}: shares of others than its peers", key="receivers"
            )
        for client, tagged in revealed.items():
            tag = SEED_TAG if client in self._survivors else KEY_TAG
            if tagged[:1] != tag:
                raise SecureSumError(
                    f"partition {partition}: a share of the wrong kind", key="share-kind"
                )
            try:
                shamir.check_share(tagged[1:])
            except SecureSumError as error:
                raise SecureSumError(f"partition {partition}: {error}", key="share") from None
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
            If fewer clients than the threshold revealed shares, or a secret cannot be recovered.
            More shares can then be received, and the total asked for again.
        """
        session = self.session
        survivors = self._survivors
        self._check_step("revealed shares")
        session.check_enough(len(self._responders), "revealed shares")
        total = self._sum
        for client in sorted(survivors):
            seed = self._recovered(
                client, partial(commitment, session, client), self._commitments[client]
            )
            total = subtract(total, self_mask(session, client, seed), session.modulus)
        for client in sorted(self._commitments.keys() - survivors):
            key = self._keys[client].mask_key
            secret = X25519PrivateKey.from_private_bytes(
                self._recovered(client, crypto.public_key, key)
            )
            for peer in self.session.graph[client]:
                if peer in survivors:  # cancel the mask that the survivor added or subtracted
                    add_or_subtract = subtract if peer < client else add
                    peer_key = self._keys[peer].mask_key
                    mask = pairwise_mask(
                        session, secret, client, peer, key, peer_key, basis=self.basis
                    )
                    total = add_or_subtract(total, mask, session.modulus)
        self.step = "done"
        self._revealed.clear()
        return total

    def _recovered(self, client: int, public: Callable[[bytes], bytes], expected: bytes) -> bytes:
        """Recover a client's secret. Its `public` value must be the one that the client sent
        before.

        If the first shares give another secret, their senders are left out one at a time.
        """
        needed = self.session.shares_needed
        shares = self._revealed.get(client, {})
        trusted = sorted(shares.keys() - self.suspects)
        if len(trusted) < needed:
            raise SecureSumError(
                f"partition {client}: {len(trusted)} of its shares were revealed; needed {needed}",
                key="too-few-shares",
            )
        spare = len(trusted) > needed
        for left_out in [set(), *({client_share} for client_share in trusted[:needed] if spare)]:
            chosen = [client_share for client_share in trusted if client_share not in left_out][
                :needed
            ]
            secret = shamir.combine(
                {client_share + 1: shares[client_share] for client_share in chosen}
            )
            if secret is not None and public(secret) == expected:
                self.suspects |= left_out
                return secret
        raise SecureSumError(
            f"partition {client}: its shares do not fit together, or not what it sent before",
            key="unfit-shares",
        )

    def _check(
        self, step: str, partition: int, expected: Container[int], received: Container[int]
    ) -> None:
        """Refuse a message of another step, of a client that did not take the step before, or a
        repeated message."""
        try:
            self._check_step(step)
        except SecureSumError as error:
            raise SecureSumError(f"partition {partition}: {error}", key="step-order") from None
        if partition not in expected:
            reason = "is not in the session"
            if partition in self.session.clients:
                reason = "did not take the step before"
            raise SecureSumError(f"partition {partition} {reason}", key="not-a-member")
        if partition in received:
            raise SecureSumError(f"partition {partition}: it sent {step} before", key="repeated")

    def _check_step(self, step: str) -> None:
        if self.step != step:
            when = "late" if STEPS.index(self.step) > STEPS.index(step) else "early"
            raise SecureSumError(
                f"{step} are {when}: the server is at {self.step}", key="step-order"
            )

    def _close(self, step: str, received: Sized, what: str) -> None:
        self._check_step(step)
        self.session.check_enough(len(received), what)
        self.step = STEPS[STEPS.index(step) + 1]

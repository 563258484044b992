"""The server's half of a secure sum (Bonawitz et al., CCS 2017)."""

from collections.abc import Callable, Container, Iterable, Mapping

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from curvfed.strategies.secure_sum import keys as crypto
from curvfed.strategies.secure_sum import shamir
from curvfed.strategies.secure_sum.derived import commitment, own_mask, pair_mask, signed_text
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.secure_sum.modular import Residues, add, check_residues, subtract
from curvfed.strategies.secure_sum.session import Session
from curvfed.strategies.secure_sum.wire import KEY_TAG, SEED_TAG, SHARES_BYTES, Keys, Shares, checksum

STEPS = ("keys", "shares", "masked", "revealed", "done")


class Collector:
    """Gathers one session's messages, passes letters on, and adds up the vectors of those who stayed.

    The steps are keys, shares, masked vectors and revealed shares. Each takes any number of messages until it is closed,
    and can be closed only with as many as the threshold. A message that is late, early, repeated, foreign or malformed
    raises SecureSumError and changes nothing.

    Parameters
    ----------
    session : Session
    roster : mapping of int to bytes, optional
        Raw Ed25519 public keys of the clients. Members check signatures for themselves; here they are checked so that
        one bad key is turned away at the door, and not by all members with the sum lost.
    """

    def __init__(self, session: Session, roster: Mapping[int, bytes] | None = None) -> None:
        self.session = session
        self._roster = roster
        self._step = "keys"
        self._keys: dict[int, Keys] = {}
        self._graph: Mapping[int, tuple[int, ...]] = {}
        self._letters: dict[int, Mapping[int, bytes]] = {}
        self._commitments: dict[int, bytes] = {}
        self._masked: set[int] = set()
        self._sum: Residues = np.zeros(session.length, np.uint64)
        self._responders: set[int] = set()
        self._revealed: dict[int, dict[int, bytes]] = {}
        self._weights: dict[tuple[int, ...], dict[int, int]] = {}
        self._suspects: set[int] = set()

    @property
    def step(self) -> str:
        """What is being gathered, or "done"."""
        return self._step

    def take_keys(self, partition: int, keys: Keys) -> None:
        """A client's public keys.

        Raises
        ------
        SecureSumError
        """
        self._check("keys", partition, self.session.clients, self._keys)
        taken = {key for one in self._keys.values() for key in (one.mask_key, one.seal_key)}
        if keys.mask_key == keys.seal_key or taken & {keys.mask_key, keys.seal_key}:
            raise SecureSumError(f"partition {partition}: a key that was sent before")
        if crypto.is_degenerate(keys.mask_key) or crypto.is_degenerate(keys.seal_key):
            raise SecureSumError(f"partition {partition}: a degenerate key")
        if self._roster is not None and not (
            partition in self._roster
            and crypto.is_signed(self._roster[partition], keys.signature, signed_text(self.session, partition, keys))
        ):
            raise SecureSumError(f"partition {partition}: its keys are not signed by its key in the roster")
        self._keys[partition] = keys

    def close_keys(self) -> None:
        """No more keys.

        Raises
        ------
        SecureSumError
            If there are fewer than the threshold.
        """
        self._close("keys", self._keys, "sent keys")
        self._graph = self.session.graph(tuple(sorted(self._keys)))

    @property
    def keys(self) -> dict[int, Keys]:
        """For every client that sent some; closed only.

        Raises
        ------
        SecureSumError
        """
        self._after("keys")
        return dict(sorted(self._keys.items()))

    def take_shares(self, partition: int, shares: Shares) -> None:
        """A client's letters to its neighbours, or to all where it has a note for them.

        Raises
        ------
        SecureSumError
        """
        self._check("shares", partition, self._keys, self._letters)
        near = set(self._graph[partition])
        receivers = shares.sealed.keys()
        if receivers != near and receivers != self._keys.keys() - {partition}:
            raise SecureSumError(f"partition {partition}: shares for others than its peers")
        extra = {len(letter) - (SHARES_BYTES if to in near else 0) for to, letter in shares.sealed.items()}
        if len(extra) > 1 or min(extra) < crypto.SEAL_BYTES:
            raise SecureSumError(f"partition {partition}: shares of a wrong size")
        self._letters[partition] = dict(shares.sealed)
        self._commitments[partition] = shares.commitment

    def close_shares(self) -> None:
        """No more shares.

        Raises
        ------
        SecureSumError
            If there are fewer than the threshold.
        """
        self._close("shares", self._letters, "sent shares")

    def delivery(self, partition: int) -> dict[int, bytes]:
        """What the others sent a client, by sender; empty where one had nothing for it. While vectors are gathered only.

        Raises
        ------
        SecureSumError
            Where the client sent no shares itself.
        """
        if self._step != "masked":
            raise SecureSumError(f"letters are delivered while masked vectors are gathered, not {self._step}")
        if partition not in self._letters:
            raise SecureSumError(f"partition {partition} sent no shares")
        return {
            sender: letters.get(partition, b"")
            for sender, letters in sorted(self._letters.items())
            if sender != partition
        }

    def take_masked(self, partition: int, vector: Residues, check: bytes) -> None:
        """A client's masked vector and the `checksum` that it was sent with.

        Raises
        ------
        SecureSumError
        """
        self._check("masked", partition, self._commitments, self._masked)
        try:
            check_residues(vector, self.session.length, self.session.modulus)
        except SecureSumError as error:
            raise SecureSumError(f"partition {partition}: {error}") from None
        if checksum(vector, self.session, partition) != check:
            raise SecureSumError(f"partition {partition}: a masked vector that is not as it was sent")
        self._sum = add(self._sum, vector, self.session.modulus)
        self._masked.add(partition)

    def close_masked(self) -> None:
        """No more masked vectors.

        Raises
        ------
        SecureSumError
            If there are fewer than the threshold.
        """
        self._close("masked", self._masked, "sent masked vectors")
        self._letters.clear()

    @property
    def survivors(self) -> tuple[int, ...]:
        """Whose vectors are in the sum, ascending; closed only.

        Raises
        ------
        SecureSumError
        """
        self._after("masked")
        return tuple(sorted(self._masked))

    def take_revealed(self, partition: int, revealed: Mapping[int, bytes]) -> None:
        """A survivor's shares of its neighbours' secrets and of its own.

        Raises
        ------
        SecureSumError
        """
        self._check("revealed", partition, self._masked, self._responders)
        expected = {partition, *self._graph[partition]} & self._commitments.keys()
        if revealed.keys() != expected:
            raise SecureSumError(f"partition {partition}: shares of others than its peers")
        for client, tagged in revealed.items():
            tag = SEED_TAG if client in self._masked else KEY_TAG
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
            If fewer than the threshold revealed shares, or a secret cannot be recovered. More shares can then be
            taken, and the sum asked for again.
        """
        session = self.session
        if self._step == "done":
            return self._sum.copy()
        self._check_step("revealed")
        session.check_enough(len(self._responders), "revealed shares")
        total = self._sum
        for client in sorted(self._masked):
            total = subtract(total, own_mask(session, client, self._seed(client)), session.modulus)
        for client in sorted(self._commitments.keys() - self._masked):
            key, secret = self._keys[client].mask_key, self._mask_secret(client)
            for peer in self._graph[client]:
                if peer in self._masked:  # what it has added is taken off, and the other way round
                    step = subtract if peer < client else add
                    mask = pair_mask(session, secret, client, peer, key, self._keys[peer].mask_key)
                    total = step(total, mask, session.modulus)
        self._sum = total
        self._step = "done"
        self._revealed.clear()
        return total.copy()

    @property
    def suspects(self) -> tuple[int, ...]:
        """Clients with whose share of a secret it does not fit and without it does: they, or who sent it to them, erred."""
        return tuple(sorted(self._suspects))

    def _seed(self, client: int) -> bytes:
        expected = self._commitments[client]
        return self._recovered(client, lambda seed: commitment(self.session, client, seed) == expected)

    def _mask_secret(self, client: int) -> X25519PrivateKey:
        expected = self._keys[client].mask_key
        secret = self._recovered(client, lambda found: crypto.public_key(found) == expected)
        return X25519PrivateKey.from_private_bytes(secret)

    def _recovered(self, client: int, fits: Callable[[bytes], bool]) -> bytes:
        """A client's secret from its shares; where it does not fit, one responder at a time is left out."""
        needed = self.session.shares_needed
        shares = self._revealed.get(client, {})
        trusted = sorted(shares.keys() - self._suspects)
        if len(trusted) < needed:
            raise SecureSumError(f"partition {client}: {len(trusted)} of its shares came back; needed {needed}")
        secret = self._combined(shares, trusted[:needed])
        if secret is not None and fits(secret):
            return secret
        if len(trusted) > needed:
            for suspect in trusted[:needed]:
                others = [one for one in trusted if one != suspect]
                secret = self._combined(shares, others[:needed])
                if secret is not None and fits(secret):
                    self._suspects.add(suspect)
                    return secret
        raise SecureSumError(f"partition {client}: its shares do not fit together, or not what it sent before")

    def _combined(self, shares: Mapping[int, bytes], responders: list[int]) -> bytes | None:
        group = tuple(responders)
        if group not in self._weights:
            self._weights[group] = dict(zip(group, shamir.weights([one + 1 for one in group]), strict=True))
        return shamir.combine(shares, self._weights[group])

    def _check(self, step: str, partition: int, known: Container[int], taken: Container[int]) -> None:
        """Refuse a message out of its step, of someone who did not take the step before, or repeated."""
        try:
            self._check_step(step)
        except SecureSumError as error:
            raise SecureSumError(f"partition {partition}: {error}") from None
        if partition not in known:
            reason = "did not take the step before" if partition in self.session.clients else "is not in the session"
            raise SecureSumError(f"partition {partition} {reason}")
        if partition in taken:
            raise SecureSumError(f"partition {partition}: {step} that came before")

    def _check_step(self, step: str) -> None:
        if self._step != step:
            when = "late" if STEPS.index(self._step) > STEPS.index(step) else "early"
            raise SecureSumError(f"{step} are {when}: {self._step} are being gathered")

    def _after(self, step: str) -> None:
        if STEPS.index(self._step) <= STEPS.index(step):
            raise SecureSumError(f"{step} are still being gathered")

    def _close(self, step: str, found: Iterable[int], what: str) -> None:
        self._check_step(step)
        self.session.check_enough(len(list(found)), what)
        self._step = STEPS[STEPS.index(step) + 1]

"""The client's half of a secure sum (Bonawitz et al., CCS 2017): with signatures, the form for a
server that lies."""

import secrets
from collections.abc import Callable, Collection, Mapping

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from curvfed.strategies.errors import PeerError, SecureSumError
from curvfed.strategies.secure_sum import Session, crypto, shamir
from curvfed.strategies.secure_sum.client_state import (
    STEPS,
    ClientState,
    Step,
    check_signatures,
    checked_session,
    masked_basis,
    signers,
)
from curvfed.strategies.secure_sum.fixed_point import Residues, add, check_residues, subtract
from curvfed.strategies.secure_sum.masks import (
    SHARES_BYTES,
    checked_shares,
    commitment,
    decrypt,
    encrypt,
    pairwise_mask,
    self_mask,
)
from curvfed.strategies.secure_sum.messages import (
    KEY_TAG,
    SEED_TAG,
    Basis,
    EncryptedShares,
    PublicKeys,
)

Entropy = Callable[[int], bytes]


class SecureSumClient:
    """One client in one session: `share_keys`, `receive_shares`, `mask_input`, `confirm`, `unmask`,
    each once, in order.

    A step that is out of order or refuses its arguments raises SecureSumError and leaves the state
    as it was. Between steps its `state` can be stored. A stored state must be continued only once,
    because a copy of it could answer `unmask` a second time. Secrets that no later step needs are
    dropped.

    Parameters
    ----------
    state : ClientState
        As `begin` makes it, or as it was stored.
    entropy : callable
        Returns the given number of uniform bytes.

    Notes
    -----
    The self mask and the masks with the neighbours hide a vector. A server that could name
    different survivors to different members would get the secrets of a client's neighbours, without
    its own, and from these its vector. Therefore every member signs one list of survivors, and
    reveals shares only after t members, the threshold, have signed the same list. For two lists
    2t − L of L members must sign both: with t = 2L/3, fewer than L/3 lying members cannot do this.
    The same signature covers the basis of the vector, which the pairwise masks depend on as well:
    members that were sent different models, configurations or code make no sum together.
    Without a roster there are no signatures, and the server must be honest.
    """

    def __init__(self, state: ClientState, entropy: Entropy = secrets.token_bytes) -> None:
        self.state = state
        self._entropy = entropy

    @classmethod
    def begin(
        cls,
        session: Session,
        me: int,
        signing_key: Ed25519PrivateKey | None = None,
        entropy: Entropy = secrets.token_bytes,
        statements: Mapping[int, bytes] | None = None,
    ) -> "SecureSumClient":
        """Enter a session, with fresh keys.

        Parameters
        ----------
        session : Session
        me : int
            This client's partition.
        signing_key : Ed25519PrivateKey, optional
            Signs the public keys, for peers with a roster.
        entropy : callable
            Returns the given number of uniform bytes.
        statements : mapping of int to bytes, optional
            For the state.

        Raises
        ------
        SecureSumError
            If this client is not in the session.
        """
        if me not in session.clients:
            raise SecureSumError(
                f"partition {me} is not among the clients of the session", key="not-a-member"
            )
        mask_secret, encryption_secret, seed = (entropy(crypto.KEY_BYTES) for _ in range(3))
        keys = PublicKeys(
            mask_key=crypto.public_key(mask_secret),
            encryption_key=crypto.public_key(encryption_secret),
            signature=b"",
        )
        if signing_key is not None:
            keys = keys.model_copy(
                update={"signature": signing_key.sign(session.signed_keys(keys, me))}
            )
        state = ClientState(
            session=session,
            me=me,
            step="share keys",
            keys={me: keys},
            mask_secret=mask_secret,
            encryption_secret=encryption_secret,
            seed=seed,
            statements=dict(statements or {}),
        )
        return cls(state, entropy)

    def advertise_keys(self) -> PublicKeys:
        """The public keys for the server and all peers."""
        return self._at("share keys").keys[self.state.me]

    def share_keys(
        self,
        keys: Mapping[int, PublicKeys],
        payload: bytes = b"",
        roster: Mapping[int, bytes] | None = None,
        statements: Mapping[int, bytes] | None = None,
    ) -> EncryptedShares:
        """Share the secrets among the neighbours.

        Parameters
        ----------
        keys : mapping of int to PublicKeys
            Of the members: all clients that answered, with this one. The session is bound to them.
        payload : bytes
            For all other clients; the server sees only its length. In one session either all
            clients have a payload or none.
        roster : mapping of int to bytes, optional
            Raw Ed25519 public keys of all trusted clients. Without it a server could replace public
            keys by its own.
        statements : mapping of int to bytes, optional
            For each other client one of the same length, which only it can read: it goes with the
            shares, or with the payload.

        Raises
        ------
        SecureSumError
            If there are fewer clients than the threshold, a client is not in the session, this
            client's keys are not those that it sent, two keys are equal, or there is a roster and a
            client does not sign.
        PeerError
            If signatures of the receivers of shares or payload are not by their keys in the roster.
            The signatures of all other clients vouch for their own keys: `confirm` signs the
            session, which includes all keys.
        """
        state = self._at("share keys")
        me = self.state.me
        session = checked_session(state, keys, roster)
        neighbours = session.graph[me]
        holders = [me, *neighbours]
        points = [holder + 1 for holder in holders]
        seed_shares, key_shares = (
            shamir.split(secret, points, session.shares_needed, self._entropy)
            for secret in (state.seed, state.mask_secret)
        )
        texts = {holder: seed_shares[holder + 1] + key_shares[holder + 1] for holder in holders}
        own_shares = texts.pop(me)
        receivers = [peer for peer in session.clients if peer != me] if payload else neighbours
        if roster is not None:
            check_signatures(state.session, {peer: keys[peer] for peer in receivers}, roster)
        secret = X25519PrivateKey.from_private_bytes(state.encryption_secret)
        sent = {peer: (statements or {}).get(peer, b"") for peer in receivers}
        encrypted = {}
        for peer in receivers:
            nonce = self._entropy(crypto.NONCE_BYTES)
            text = texts.get(peer, b"") + sent[peer] + payload
            encrypted[peer] = encrypt(
                session, secret, keys, sender=me, receiver=peer, nonce=nonce, plaintext=text
            )
        self._advance(
            "receive shares",
            session=session,
            keys=dict(keys),
            payload=payload,
            shares={me: own_shares},
            statements=sent,
        )
        return EncryptedShares.of(encrypted, commitment=commitment(session, me, state.seed))

    def receive_shares(self, encrypted: Mapping[int, bytes]) -> dict[int, bytes]:
        """Decrypt the shares and payloads for this client.

        Parameters
        ----------
        encrypted : mapping of int to bytes
            By sender, of all other clients that sent shares; empty from a client that is not a
            neighbour and sent nothing.

        Returns
        -------
        dict of int to bytes
            The payloads by sender, this client's own among them.

        Raises
        ------
        SecureSumError
            If there are fewer senders than the threshold, or fewer neighbours than the recovery of
            this client's secrets needs; or if a sender is unknown.
        PeerError
            If ciphertexts were changed, or encrypted for another client or other keys, or hold no
            shares.
        """
        state = self._at("receive shares")
        session = state.session
        me = state.me
        unknown = sorted(encrypted.keys() - (state.keys.keys() - {me}))
        if unknown:
            raise SecureSumError(
                f"shares from partitions {unknown}, whose keys are not known", key="unknown-sender"
            )
        session.check_enough(len(encrypted) + 1, "sent shares")
        neighbours = session.graph[me]
        near = [peer for peer in neighbours if peer in encrypted]
        if len(near) + 1 < session.shares_needed:
            raise SecureSumError(
                f"{len(near) + 1} of {len(neighbours) + 1} holders of this client's shares are"
                f" left; needed {session.shares_needed}",
                key="too-few-shares",
            )
        secret = X25519PrivateKey.from_private_bytes(state.encryption_secret)
        shares = dict(state.shares)
        payloads = {me: state.payload}
        statements = {}
        unreadable = {}
        for peer, ciphertext in sorted(encrypted.items()):
            if not ciphertext and peer not in near and not state.payload:
                payloads[peer] = b""
                continue
            try:
                text = decrypt(session, secret, state.keys, peer, me, ciphertext)
                if peer in near:
                    shares[peer] = checked_shares(text)
                    text = text[SHARES_BYTES:]
            except SecureSumError as error:
                unreadable[peer] = str(error)
            else:
                end = max(0, len(text) - len(state.payload))
                statements[peer] = text[:end]
                payloads[peer] = text[end:]
        if unreadable:
            raise PeerError(unreadable)
        keys = {peer: state.keys[peer] for peer in [me, *near]}
        senders = tuple(sorted([me, *encrypted]))
        self._advance(
            "mask input",
            keys=keys,
            encryption_secret=b"",
            payload=b"",
            shares=shares,
            statements=statements,
            senders=senders,
        )
        return payloads

    def mask_input(self, vector: Residues, basis: Basis, *, has_noise: bool = False) -> Residues:
        """The vector plus the self mask and the pairwise masks, modulo q: uniform to everybody who
        lacks one of the masks.

        Parameters
        ----------
        vector : array (length,), uint64
            Residues.
        basis : Basis
            What the vector was computed from. The masks with a member of another basis stay in the
            sum.
        has_noise : bool
            For the state.

        Raises
        ------
        SecureSumError
            If the vector is of another type or length, or an entry is not below the modulus.
        """
        state = self._at("mask input")
        session = state.session
        me = state.me
        check_residues(vector, session.length, session.modulus)
        total = add(vector, self_mask(session, me, state.seed), session.modulus)
        secret = X25519PrivateKey.from_private_bytes(state.mask_secret)
        my_key = state.keys[me].mask_key
        for peer, keys in state.keys.items():
            if peer != me:
                add_or_subtract = add if me < peer else subtract
                mask = pairwise_mask(session, secret, me, peer, my_key, keys.mask_key, basis=basis)
                total = add_or_subtract(total, mask, session.modulus)
        self._advance(
            "confirm", keys={}, mask_secret=b"", seed=b"", basis=basis, has_noise=has_noise
        )
        return total

    def confirm(
        self, survivors: Collection[int], signing_key: Ed25519PrivateKey | None = None
    ) -> bytes:
        """The signature of the survivors and of the basis of this client's vector; it reveals
        shares for this list only.

        Parameters
        ----------
        survivors : collection of int
            The clients whose masked inputs are in the sum, this one among them.
        signing_key : Ed25519PrivateKey, optional
            The key that signed this client's keys.

        Returns
        -------
        bytes
            Empty if the session is not signed.

        Raises
        ------
        SecureSumError
            If there are fewer survivors than the threshold, this client is not among them, one
            never sent shares, or masks do not connect them.
        """
        state = self._at("confirm")
        alive = set(survivors)
        unknown = sorted(alive - set(state.senders))
        if unknown:
            raise SecureSumError(
                f"survivors {unknown} who never sent shares", key="unknown-survivor"
            )
        if state.me not in alive:
            raise SecureSumError(
                f"partition {state.me} is not among the survivors and reveals nothing",
                key="not-a-survivor",
            )
        state.session.check_survivors(alive)
        if state.session.signed and signing_key is None:
            raise SecureSumError(
                f"partition {state.me} has no signing key, and the members of the session sign",
                key="no-signing-key",
            )
        self._advance("unmask", survivors=tuple(sorted(alive)))
        if signing_key is None or not state.session.signed:
            return b""
        return signing_key.sign(state.session.signed_survivors(masked_basis(state), alive))

    def unmask(
        self, signatures: Mapping[int, bytes], roster: Mapping[int, bytes] | None = None
    ) -> dict[int, bytes]:
        """One share of each neighbour and of this client: of the seed if it survived, else of the
        mask secret.

        Parameters
        ----------
        signatures : mapping of int to bytes
            By member; needed only in a signed session.
        roster : mapping of int to bytes, optional
            As in `share_keys`.

        Returns
        -------
        dict of int to bytes
            By client: a tag and the share.

        Raises
        ------
        SecureSumError
            If fewer survivors than the threshold, with this client, signed this client's list and
            basis.
        """
        state = self._at("unmask")
        session = state.session
        alive = state.survivors
        if session.signed:
            session.check_enough(
                signers(state, signatures, roster or {}),
                "signed these survivors and what this client was sent (parameters, facts,"
                " configuration, code)",
            )
        revealed = {}
        for peer, both in sorted(state.shares.items()):
            seed_share = both[: shamir.SHARE_BYTES]
            key_share = both[shamir.SHARE_BYTES :]
            revealed[peer] = SEED_TAG + seed_share if peer in alive else KEY_TAG + key_share
        self.state = ClientState(session=session, me=state.me, step="done")
        return revealed

    def _at(self, step: Step) -> ClientState:
        """The state, if this is the step that comes next."""
        if self.state.step != step:
            done = STEPS.index(self.state.step) > STEPS.index(step)
            reason = "it was taken before" if done else f"the next is {self.state.step}"
            raise SecureSumError(
                f"step {step} of partition {self.state.me} is out of order: {reason}",
                key="step-order",
            )
        return self.state

    def _advance(self, step: Step, **changes: object) -> None:
        self.state = self.state.model_copy(update={"step": step, **changes})

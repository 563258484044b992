"""A client's half of a secure sum (Bonawitz et al., CCS 2017), for clients and a server that follow the protocol."""

import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from curvfed.strategies.secure_sum import keys as crypto
from curvfed.strategies.secure_sum import shamir
from curvfed.strategies.secure_sum.derived import commitment, letter_key, own_mask, pair_mask, signed_text
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.secure_sum.modular import Residues, add, check_residues, subtract
from curvfed.strategies.secure_sum.session import Session
from curvfed.strategies.secure_sum.state import STEPS, State
from curvfed.strategies.secure_sum.wire import KEY_TAG, SEED_TAG, SHARES_BYTES, Keys, Parts, Shares

Entropy = Callable[[int], bytes]


class Member:
    """One client in one session: `keys`, `share`, `deliver`, `mask`, `unmask`, each once and in this order.

    A step that refuses what it is given raises SecureSumError and leaves the member as it was; so does one that is out
    of order. Between steps a member can be stored by `save`; a stored state must go on once only, for a second life
    could answer `unmask` a second time. Secrets that no later step needs are dropped.

    Notes
    -----
    A member answers `unmask` once, with one kind of share for each client. More than half of a client's shares are
    needed, so that however many groups of clients a server tells different stories, it never gets both the seed and the
    mask secret of one: one of them stays hidden, and with it the vector.
    """

    def __init__(self, state: State, entropy: Entropy = secrets.token_bytes) -> None:
        self._state = state
        self._entropy = entropy

    @classmethod
    def begin(
        cls,
        session: Session,
        me: int,
        signing_key: Ed25519PrivateKey | None = None,
        entropy: Entropy = secrets.token_bytes,
    ) -> "Member":
        """A client that enters a session, with fresh keys.

        Parameters
        ----------
        session : Session
        me : int
            My partition.
        signing_key : Ed25519PrivateKey, optional
            Signs my keys for peers with a roster.
        entropy : callable
            So many uniform bytes.

        Raises
        ------
        SecureSumError
            If the session does not have me.
        """
        if me not in session.clients:
            raise SecureSumError(f"partition {me} is not among the clients of the session")
        mask_secret, seal_secret, seed = (entropy(crypto.KEY_BYTES) for _ in range(3))
        keys = Keys(crypto.public_key(mask_secret), crypto.public_key(seal_secret))
        if signing_key is not None:
            keys = replace(keys, signature=crypto.sign(signing_key, signed_text(session, me, keys)))
        return cls(State(session, me, "keys", {me: keys}, mask_secret, seal_secret, seed), entropy)

    @property
    def session(self) -> Session:
        """What I take part in."""
        return self._state.session

    @property
    def step(self) -> str:
        """The step that comes next; "done" after the last."""
        return self._state.step

    def keys(self) -> Keys:
        """My public keys, signed if I have a signing key."""
        state = self._at("keys")
        self._state = replace(state, step="share")
        return state.keys[state.me]

    def share(self, keys: Mapping[int, Keys], note: bytes = b"", roster: Mapping[int, bytes] | None = None) -> Shares:
        """Share my secrets among my neighbours.

        Parameters
        ----------
        keys : mapping of int to Keys
            Of all who answered, me among them.
        note : bytes
            For all others, unseen by the server but for its length. In one session all give one, or none does.
        roster : mapping of int to bytes, optional
            Raw Ed25519 public keys of all that I trust to be who they are. Without it a server could stand between two
            clients.

        Raises
        ------
        SecureSumError
            If there are fewer than the threshold, one is foreign, mine differ from those that I sent, two keys are
            equal, or a peer's signature is not by its key in the roster.
        """
        state = self._at("share")
        session, me = state.session, state.me
        _check_keys(state, keys, roster)
        neighbours = session.graph(tuple(sorted(keys)))[me]
        holders = [me, *neighbours]
        points = [holder + 1 for holder in holders]
        parts = [
            shamir.split(secret, points, session.shares_needed, self._entropy)
            for secret in (state.seed, state.mask_secret)
        ]
        texts = {holder: b"".join(shares[holder + 1] for shares in parts) for holder in holders}
        mine = texts.pop(me)
        receivers = sorted(keys.keys() - {me}) if note else neighbours
        secret = X25519PrivateKey.from_private_bytes(state.seal_secret)
        sealed = {
            peer: crypto.seal(
                letter_key(session, secret, (me, keys[me]), (peer, keys[peer]), sending=True),
                self._entropy(crypto.NONCE_BYTES),
                texts.get(peer, b"") + note,
                session.context("letter", me, peer),
            )
            for peer in receivers
        }
        self._state = replace(state, step="deliver", keys=dict(keys), note=note, shares={me: mine})
        return Shares(sealed, commitment(session, me, state.seed))

    def deliver(self, sealed: Mapping[int, bytes]) -> dict[int, bytes]:
        """Open what the others sent me.

        Parameters
        ----------
        sealed : mapping of int to bytes
            By sender, all who sent shares but me; empty where one that is no neighbour had nothing for me.

        Returns
        -------
        dict of int to bytes
            The notes by sender, mine among them.

        Raises
        ------
        SecureSumError
            If there are fewer senders than the threshold, or fewer neighbours than my secrets' recovery needs; or one
            is foreign, or what it sent does not open: changed, for another, or sealed for other keys than I have.
        """
        state = self._at("deliver")
        session, me = state.session, state.me
        odd = sorted(sealed.keys() - (state.keys.keys() - {me}))
        if odd:
            raise SecureSumError(f"shares from partitions {odd}, of whom there are no keys")
        session.check_enough(len(sealed) + 1, "sent shares")
        neighbours = session.graph(tuple(sorted(state.keys)))[me]
        near = [peer for peer in neighbours if peer in sealed]
        if len(near) + 1 < session.shares_needed:
            raise SecureSumError(
                f"{len(near) + 1} of {len(neighbours) + 1} holders of my shares are left; needed {session.shares_needed}"
            )
        secret = X25519PrivateKey.from_private_bytes(state.seal_secret)
        shares, notes = dict(state.shares), {me: state.note}
        for peer in sorted(sealed):
            if not sealed[peer] and peer not in near and not state.note:
                notes[peer] = b""
                continue
            key = letter_key(session, secret, (peer, state.keys[peer]), (me, state.keys[me]), sending=False)
            text = crypto.unseal(key, sealed[peer], session.context("letter", peer, me))
            if text is None:
                raise SecureSumError(f"partition {peer}: what it sent does not open")
            if peer in near:
                shares[peer], text = _shares_in(text, peer), text[SHARES_BYTES:]
            notes[peer] = text
        kept = {peer: state.keys[peer] for peer in [me, *near]}
        senders = tuple(sorted([me, *sealed]))
        self._state = replace(state, step="mask", keys=kept, seal_secret=b"", note=b"", shares=shares, senders=senders)
        return notes

    def mask(self, vector: Residues) -> Residues:
        """My vector plus my own mask and those with my neighbours, modulo q: uniform to all who lack one of them.

        Parameters
        ----------
        vector : array (length,), uint64
            Residues.

        Raises
        ------
        SecureSumError
            If the vector is of another type or length, or an entry is not below the modulus.
        """
        state = self._at("mask")
        session, me = state.session, state.me
        total = add(
            check_residues(vector, session.length, session.modulus),
            own_mask(session, me, state.seed),
            session.modulus,
        )
        secret = X25519PrivateKey.from_private_bytes(state.mask_secret)
        mine = state.keys[me].mask_key
        for peer, keys in state.keys.items():
            if peer != me:
                step = add if me < peer else subtract
                total = step(total, pair_mask(session, secret, me, peer, mine, keys.mask_key), session.modulus)
        self._state = replace(state, step="unmask", keys={}, mask_secret=b"", seed=b"")
        return total

    def unmask(self, survivors: Collection[int]) -> dict[int, bytes]:
        """One share of each neighbour and of myself: of its seed if it survived, of its mask secret if not.

        Parameters
        ----------
        survivors : collection of int
            Whose masked vectors are in the sum, mine among them.

        Returns
        -------
        dict of int to bytes
            By client: a tag and the share.

        Raises
        ------
        SecureSumError
            If there are fewer than the threshold, I am not among them, or one never sent shares.
        """
        state = self._at("unmask")
        session, alive = state.session, set(survivors)
        odd = sorted(alive - set(state.senders))
        if odd:
            raise SecureSumError(f"survivors {odd} who never sent shares")
        if state.me not in alive:
            raise SecureSumError(f"partition {state.me} is not among the survivors and reveals nothing")
        session.check_enough(len(alive), "survive")
        revealed = {
            peer: SEED_TAG + both[: shamir.SHARE_BYTES] if peer in alive else KEY_TAG + both[shamir.SHARE_BYTES :]
            for peer, both in sorted(state.shares.items())
        }
        self._state = State(session, state.me, "done")
        return revealed

    def save(self) -> Parts:
        """All that the next step needs, secrets among it; none after the last, only that it was taken."""
        return self._state.as_parts()

    @classmethod
    def load(cls, parts: Mapping[str, object], entropy: Entropy = secrets.token_bytes) -> "Member":
        """A member from where it was stored.

        Raises
        ------
        SecureSumError
            If the parts are no stored member.
        """
        return cls(State.from_parts(parts), entropy)

    def _at(self, step: str) -> State:
        """The state, if this is the step that comes next."""
        if self._state.step != step:
            done = STEPS.index(self._state.step) > STEPS.index(step)
            reason = "it was taken before" if done else f"the next is {self._state.step}"
            raise SecureSumError(f"step {step} of partition {self._state.me} is out of order: {reason}")
        return self._state


def _check_keys(state: State, keys: Mapping[int, Keys], roster: Mapping[int, bytes] | None) -> None:
    session, me = state.session, state.me
    odd = sorted(keys.keys() - set(session.clients))
    if odd:
        raise SecureSumError(f"keys of partitions {odd}, who are not among the clients of the session")
    session.check_enough(len(keys), "sent keys")
    if keys.get(me) != state.keys[me]:
        raise SecureSumError(f"the keys of partition {me} are not those that it sent")
    if len({key for one in keys.values() for key in (one.mask_key, one.seal_key)}) != 2 * len(keys):
        raise SecureSumError("the same key twice among the clients' keys")
    if roster is None:
        return
    for peer, one in sorted(keys.items()):
        if peer not in roster:
            raise SecureSumError(f"partition {peer} is not in the roster")
        if not crypto.is_signed(roster[peer], one.signature, signed_text(session, peer, one)):
            raise SecureSumError(f"partition {peer}: its keys are not signed by its key in the roster")


def _shares_in(text: bytes, peer: int) -> bytes:
    """The two shares that a neighbour's text starts with."""
    both = text[:SHARES_BYTES]
    try:
        shamir.check_share(both[: shamir.SHARE_BYTES])
        shamir.check_share(both[shamir.SHARE_BYTES :])
    except SecureSumError as error:
        raise SecureSumError(f"partition {peer}: {error}") from None
    return both

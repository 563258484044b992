"""Hulls to a client's vector, and the sum of all clients' vectors to hulls."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.hull.errors import HullError, undecodable
from curvfed.strategies.hull.public import Public
from curvfed.strategies.hull.symbols import SPARE, decode, encode

Words = NDArray[np.uint64]


def encode_hulls(hulls: Sequence[Words], position: int, slots: Sequence[int], public: Public) -> Words:
    """The vector whose sum over clients tells all hulls and whose they are, but not who is who.

    Parameters
    ----------
    hulls : sequence of uint64 arrays
        Per hull its bins, distinct, 1 to B, at most `public.cap`; up to J hulls. Two may have bins in common.
    position : int
        Of this client among all, 0 to L − 1, agreed among the clients and hidden from the server.
    slots : sequence of int
        Per hull its slot, distinct, 0 to J − 1, of the client's own random choice.
    public : Public

    Returns
    -------
    uint64 array (public.length,)
        Modulo `public.prime`; add up modulo it. Hulls without bins leave no trace.

    Raises
    ------
    HullError
        If one of these does not hold.
    """
    _check(hulls, position, slots, public)
    words: list[dict[int, int]] = [{} for _ in range(public.labels.num_words)]
    for hull, slot in zip(hulls, slots, strict=True):
        whole = position * public.num_classes + slot
        held, label = words[whole // public.labels.width], public.labels.label(whole)
        for place in hull.tolist():
            held[place] = held.get(place, 0) + label
    return np.concatenate([_encode_word(held, public) for held in words])


def decode_hulls(total: Words, public: Public) -> list[list[Words]]:
    """All clients' hulls, from the sum of their vectors.

    Parameters
    ----------
    total : uint64 array (public.length,)
        The sum of one vector per client at most, modulo `public.prime`.
    public : Public

    Returns
    -------
    list of lists of uint64 arrays
        Per client that has any hull its hulls, each as ascending bins. Positions and slots are random, so hulls are in
        ascending order within a client, and clients among each other: equal hulls give an equal result.

    Raises
    ------
    HullError
        If it is no such sum, or more hulls meet in a bin than the label code tells apart.
    """
    if total.shape != (public.length,):
        raise undecodable(f"{total.size} numbers; {public.length} are needed")
    if int(total.max()) >= public.prime:
        raise undecodable("a number is not below the prime")
    clients: dict[int, list[list[int]]] = {}
    for number, word in enumerate(total.reshape(public.labels.num_words, -1)):
        bins, values = _decode_word(word, public)
        members = public.labels.members(values)
        for slot in np.flatnonzero(members.any(axis=0)).tolist():
            hull = bins[members[:, slot]]
            whole = number * public.labels.width + slot
            if hull.size > public.cap or whole >= public.num_slots:
                raise undecodable("a hull has more vertices than the cap, or is nobody's")
            clients.setdefault(whole // public.num_classes, []).append(hull.tolist())
    canonical = sorted(sorted(hulls) for hulls in clients.values())
    return [[np.array(hull, dtype=np.uint64) for hull in hulls] for hulls in canonical]


def _encode_word(held: dict[int, int], public: Public) -> Words:
    bins, values = np.array(list(held), dtype=np.uint64), np.array(list(held.values()), dtype=np.uint64)
    if not public.is_dense:
        return encode(bins, values, public.word_length, public.prime)
    dense = np.zeros(public.quantizer.num_bins, dtype=np.uint64)
    dense[(bins - np.uint64(1)).astype(np.int64)] = values
    return np.concatenate([dense, encode(bins, values, SPARE, public.prime)])


def _decode_word(word: Words, public: Public) -> tuple[Words, Words]:
    """Occupied bins, ascending, and the sum of labels in each."""
    if not public.is_dense:
        return decode(word, public.prime, public.quantizer.num_bins, public.most)
    dense, spare = word[:-SPARE], word[-SPARE:]
    places = np.flatnonzero(dense)
    bins, values = places.astype(np.uint64) + np.uint64(1), dense[places]
    if not np.array_equal(encode(bins, values, SPARE, public.prime), spare):
        raise undecodable("its entries contradict each other")
    return bins, values


def _check(hulls: Sequence[Words], position: int, slots: Sequence[int], public: Public) -> None:
    most, last = public.num_classes, public.quantizer.num_bins
    if len(hulls) > most or len(slots) != len(hulls):
        raise HullError(f"a client may have up to {most} hulls, each with its slot")
    if len(set(slots)) < len(slots) or not all(0 <= slot < most for slot in slots):
        raise HullError(f"slots must be distinct, 0 to {most - 1}")
    if not 0 <= position < public.num_clients:
        raise HullError(f"a position must be 0 to {public.num_clients - 1}")
    for hull in hulls:
        if hull.ndim != 1 or hull.dtype != np.uint64:
            raise HullError(f"a hull has {hull.ndim} dimensions and dtype {hull.dtype}; needed are 1 and uint64")
        if hull.size > public.cap:
            raise HullError(f"a hull has more than hull.cap = {public.cap} vertices")
        if len(np.unique(hull)) < hull.size or (hull.size and not 1 <= int(hull.min()) <= int(hull.max()) <= last):
            raise HullError(f"the bins of a hull must be distinct, 1 to {last}")

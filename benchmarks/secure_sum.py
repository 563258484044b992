"""A secure sum: what a client does, and the server's recovery when all messages are in."""

import copy
import gc
import statistics
import time
import tracemalloc
from dataclasses import dataclass
from functools import cache

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from benchmarks.row import Place, Row
from benchmarks.timing import Ratio, against_budget, compare
from curvfed.strategies.secure_sum import SUM_PRIME, Collector, Member, Session, checksum

REPEATS = 7
MEGABYTE = 2**20


@dataclass(frozen=True)
class Recovery:
    """What `Collector.total` takes.

    Attributes
    ----------
    seconds : float
        Median of the repeats.
    megabytes : float
        The most that it allocates at any time.
    gathering : float
        Megabytes of sealed letters that pass through before, without what Python's objects add.
    neighbours : int
        Of each client.
    client : float
        Median over the clients of the seconds that one computes, from its keys to its revealed shares.
    """

    seconds: float
    megabytes: float
    gathering: float
    neighbours: int
    client: float


def rows(place: Place) -> list[Row]:
    """Of the size of a hospital network, and of a large one."""
    what = "secure sum of 1,000 clients' 10,000 numbers, a tenth of them gone"
    return [
        Row(
            "recovery of a secure sum, 50 clients, 4 gone", "its key agreements and streams alone", "limit",
            recovery_against_its_parts,
        ),
        Row(f"{what}: a client", "50 ms", "budget", lambda: against_budget(lambda: _large().client, 0.05, 1), 1.0),
        Row(f"{what}: the server", "30 s", "budget", lambda: against_budget(lambda: _large().seconds, 30.0, 1), 1.0),
    ]  # fmt: skip


@cache
def _large() -> Recovery:
    return recovery(1000, 100, 10_000)


def recovery(clients: int, dropped: int, length: int = 2500, threshold: int = 0) -> Recovery:
    """Recover a sum of which some clients vanish after their shares went out.

    Parameters
    ----------
    clients, dropped : int
    length : int
        Entries of the vectors.
    threshold : int
        0 is two thirds.
    """
    collector, expected, gathering, client = _gathered(clients, dropped, length, threshold)
    seconds = []
    for _ in range(REPEATS):
        ready = copy.deepcopy(collector)
        started = time.perf_counter()
        total = ready.total()
        seconds.append(time.perf_counter() - started)
        if not np.array_equal(total, expected):
            raise RuntimeError("the sum is not that of the survivors")
    ready = copy.deepcopy(collector)
    tracemalloc.start()
    try:
        ready.total()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return Recovery(statistics.median(seconds), peak / MEGABYTE, gathering, collector.session.degree, client)


def recovery_against_its_parts(clients: int = 50, dropped: int = 4, length: int = 2500, threshold: int = 34) -> Ratio:
    """`Collector.total` against the key agreements and ChaCha20 streams that no recovery can do without."""
    collector, *_ = _gathered(clients, dropped, length, threshold)
    there = clients - dropped
    secret, peer = X25519PrivateKey.generate(), X25519PrivateKey.generate().public_key().public_bytes_raw()
    zeros = bytes(8 * length)

    def bare() -> None:
        for _ in range(dropped * there):
            secret.exchange(X25519PublicKey.from_public_bytes(peer))
        for _ in range(dropped * there + there):
            Cipher(algorithms.ChaCha20(bytes(32), bytes(16)), None).encryptor().update(zeros)

    ready = iter([copy.deepcopy(collector) for _ in range(REPEATS + 2)])
    return compare(lambda: next(ready).total(), bare, REPEATS)


def _gathered(clients: int, dropped: int, length: int, threshold: int) -> tuple[Collector, np.ndarray, float, float]:
    """A collector that has all messages, the sum, the megabytes of letters that it passed on, a client's seconds."""
    session = Session("benchmark", "sum", 0, SUM_PRIME, length, tuple(range(clients)), threshold)
    collector, clocks, members = Collector(session), {p: _Clock() for p in session.clients}, {}
    for p, clock in clocks.items():
        with clock:
            members[p] = Member.begin(session, p)
            keys = members[p].keys()
        collector.take_keys(p, keys)
    collector.close_keys()
    book = collector.keys
    for p, clock in clocks.items():
        with clock:
            shares = members[p].share(book)
        collector.take_shares(p, shares)
    collector.close_shares()
    letters = {p: collector.delivery(p) for p in members}
    gathering = sum(len(letter) for delivered in letters.values() for letter in delivered.values())
    there = list(members)[dropped:]
    expected, rng = np.zeros(length, np.uint64), np.random.default_rng(0)
    for p in there:
        vector = rng.integers(0, SUM_PRIME, length, dtype=np.uint64)
        expected = (expected + vector) % np.uint64(SUM_PRIME)
        with clocks[p]:
            members[p].deliver(letters[p])
            masked = members[p].mask(vector)
            check = checksum(masked, session, p)
        collector.take_masked(p, masked, check)
    collector.close_masked()
    for p in there:
        with clocks[p]:
            revealed = members[p].unmask(there)
        collector.take_revealed(p, revealed)
    gc.collect()
    return collector, expected, gathering / MEGABYTE, statistics.median(clocks[p].seconds for p in there)


class _Clock:
    """Adds up the seconds that pass within it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        self.seconds += time.perf_counter() - self._started

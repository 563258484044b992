"""The server's recovery of a secure sum, when all messages are in: seconds, memory, and against its bare parts.

python -m benchmarks.secure_sum
"""

import copy
import gc
import statistics
import time
import tracemalloc
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from benchmarks.timing import Ratio, compare
from strategies.secure_sum import SUM_PRIME, Collector, Member, Session, checksum

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
    """

    seconds: float
    megabytes: float
    gathering: float
    neighbours: int


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
    collector, expected, gathering = _gathered(clients, dropped, length, threshold)
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
    return Recovery(statistics.median(seconds), peak / MEGABYTE, gathering, collector.session.degree)


def recovery_against_its_parts(clients: int = 50, dropped: int = 4, length: int = 2500, threshold: int = 34) -> Ratio:
    """`Collector.total` against the key agreements and ChaCha20 streams that no recovery can do without."""
    collector, _, _ = _gathered(clients, dropped, length, threshold)
    there = clients - dropped
    secret, peer = X25519PrivateKey.generate(), X25519PrivateKey.generate().public_key().public_bytes_raw()
    zeros = bytes(8 * length)

    def bare() -> None:
        for _ in range(dropped * there):
            secret.exchange(X25519PublicKey.from_public_bytes(peer))
        for _ in range(dropped * there + there):
            Cipher(algorithms.ChaCha20(bytes(32), bytes(16)), None).encryptor().update(zeros)

    ready = iter([copy.deepcopy(collector) for _ in range(REPEATS + 1)])
    return compare(lambda: next(ready).total(), bare, REPEATS)


def _gathered(clients: int, dropped: int, length: int, threshold: int) -> tuple[Collector, np.ndarray, float]:
    """A collector that has all messages, the sum, and the megabytes of letters that it passed on."""
    session = Session("benchmark", "sum", 0, SUM_PRIME, length, tuple(range(clients)), threshold)
    collector = Collector(session)
    members = {p: Member.begin(session, p) for p in session.clients}
    expected = np.zeros(length, np.uint64)
    rng = np.random.default_rng(0)
    for p, member in members.items():
        collector.take_keys(p, member.keys())
    collector.close_keys()
    for p, member in members.items():
        collector.take_shares(p, member.share(collector.keys))
    collector.close_shares()
    gathering = sum(len(letter) for p in members for letter in collector.delivery(p).values())
    there = list(members)[dropped:]
    for p in there:
        members[p].deliver(collector.delivery(p))
        vector = rng.integers(0, SUM_PRIME, length, dtype=np.uint64)
        expected = (expected + vector) % np.uint64(SUM_PRIME)
        masked = members[p].mask(vector)
        collector.take_masked(p, masked, checksum(masked, session, p))
    collector.close_masked()
    for p in there:
        collector.take_revealed(p, members[p].unmask(there))
    gc.collect()
    return collector, expected, gathering / MEGABYTE


def main() -> None:
    """Print what both sizes take."""
    for clients, dropped, threshold in ((50, 4, 34), (1000, 100, 0)):
        found = recovery(clients, dropped, threshold=threshold)
        print(
            f"{clients} clients, {found.neighbours} neighbours each, {dropped} dropped: {found.seconds:.3f} s, "
            f"{found.megabytes:.1f} MB beside {found.gathering:.1f} MB of letters"
        )
    ratio = recovery_against_its_parts()
    print(f"50 clients / the bare key agreements and streams: {ratio.ratio:.2f} ({ratio.low:.2f}-{ratio.high:.2f})")


if __name__ == "__main__":
    main()

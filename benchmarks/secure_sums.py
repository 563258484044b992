"""A secure sum: what a client computes, and the server's recovery when all messages are in."""

import copy
import statistics
import time
from functools import cache, partial
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from secure_sums import Run, session, vectors

from benchmarks.measure import Call, Pair, Place, Row, seconds
from curvfed.strategies.secure_sum import SUM_PRIME, Collector, checksum

LENGTH = 2_500
"""Entries of a vector, but in the sum of a thousand clients."""
REPEATS = 7


def rows(place: Place) -> list[Row]:
    """Of the size of a hospital network, and of a large one."""
    few, many = place.size((50, 4, LENGTH, 34), (6, 1, 10, 4)), place.size((1_000, 100, 10_000), (6, 1, 10))
    what = "secure sum of 1,000 clients' 10,000 numbers, a tenth of them gone"
    recovery, parts = "recovery of a secure sum, 50 clients, 4 gone", "its key agreements and streams alone"
    return [
        Row(recovery, parts, partial(_against_its_parts, *few), repeats=REPEATS),
        Row(f"{what}: a client", "50 ms", lambda: (partial(_client, *many), 0.05), 1.0, 1, told=True),
        Row(f"{what}: the server", "30 s", lambda: (partial(_total, *many), 30.0), 1.0, REPEATS, told=True),
    ]


class _Clock:
    """A client that adds up the seconds of its steps."""

    def __init__(self, member: Any) -> None:
        self._member, self.seconds = member, 0.0

    def __getattr__(self, name: str) -> Any:
        def timed(*arguments: Any) -> Any:
            started = time.perf_counter()
            found = getattr(self._member, name)(*arguments)
            self.seconds += time.perf_counter() - started
            return found

        return timed


@cache
def _run(clients: int, gone: int, length: int, threshold: int = 0) -> Run:
    """A sum of which the first clients vanish after their shares went out, ready to be recovered; 0 is two thirds."""
    of = session(clients, modulus=SUM_PRIME, length=length, threshold=threshold)
    run = Run(of, vectors(of), dict.fromkeys(range(gone), "deliver"))
    run.members = {client: _Clock(member) for client, member in run.members.items()}
    return run.until("unmask")


def _client(clients: int, gone: int, length: int) -> float:
    members = _run(clients, gone, length).members
    return statistics.median(members[client].seconds for client in range(gone, clients))


def _total(clients: int, gone: int, length: int) -> float:
    return seconds(copy.deepcopy(_run(clients, gone, length).collector).total)


def _against_its_parts(clients: int, gone: int, length: int, threshold: int) -> Pair:
    """The recovery against the key agreements and ChaCha20 streams that no recovery can do without."""
    ready = [copy.deepcopy(_run(clients, gone, length, threshold).collector) for _ in range(REPEATS + 2)]
    secret, peer = X25519PrivateKey.generate(), X25519PrivateKey.generate().public_key().public_bytes_raw()
    there, zeros = clients - gone, bytes(8 * length)

    def bare() -> None:
        for _ in range(gone * there):
            secret.exchange(X25519PublicKey.from_public_bytes(peer))
        for _ in range(gone * there + there):
            Cipher(algorithms.ChaCha20(bytes(32), bytes(16)), None).encryptor().update(zeros)

    return lambda: ready.pop().total(), bare


def server(clients: int) -> Call:
    """All that a server does for one secure sum that a tenth leaves: the clients' messages are there from the start."""
    run = _run(clients, clients // 10, LENGTH)
    masked = {client: (one, checksum(one, run.session, client)) for client, one in run.masked.items()}

    def collect() -> Any:
        collector = Collector(run.session)
        for what, messages in (("keys", run.keys), ("shares", run.shares), ("masked", masked)):
            for client, message in messages.items():
                getattr(collector, f"take_{what}")(client, *(message if what == "masked" else (message,)))
            getattr(collector, f"close_{what}")()
            if what == "shares":
                for client in run.shares:
                    collector.delivery(client)
        for client, revealed in run.revealed.items():
            collector.take_revealed(client, revealed)
        return collector.total()

    return collect

"""Partition labelled images among clients: Dirichlet, IID or shards, with a least number for every
client."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from curvfed.tasks.errors import DataError

Integers = NDArray[np.int64]

STREAM = 5
"""Random stream of the seed, so that the partition is independent of subsets and splits of the same
seed."""

LEAST_ALPHA = 1e-300
"""Smaller ones have the same effect, every class goes to one client, and their inverse
overflows.
"""


@dataclass(frozen=True)
class Deal:
    """How images are dealt out to the clients.

    Attributes
    ----------
    partition : str
        A name in `PARTITIONS`.
    alpha : float
        Concentration of "dirichlet", above 0 and finite.
    shards : int
        Shards per client of "shards", at least 1.
    min_client_size : int
        Images that every client has at least.
    """

    partition: str = "dirichlet"
    alpha: float = 0.5
    shards: int = 2
    min_client_size: int = 10

    def __post_init__(self) -> None:
        if self.partition not in PARTITIONS:
            raise DataError(f'partition is "{self.partition}"; allowed: {", ".join(PARTITIONS)}')


def deal_out(labels: Integers, num_clients: int, deal: Deal, seed: int) -> list[Integers]:
    """The ascending indices of every client's images; every image belongs to one client.

    A client with fewer images than `min_client_size` takes some from the client that is then the
    largest, of that one's most frequent class; the partition is not drawn anew.

    Parameters
    ----------
    labels : (n,), at least 0
    num_clients : int, at least 1
    seed : int, at least 0

    Raises
    ------
    DataError
        Too few images for the clients' least size, or for the shards.
    """
    needed = num_clients * deal.min_client_size
    if len(labels) < needed:
        raise DataError(
            f"{num_clients} clients of at least min-client-size = {deal.min_client_size} images"
            f" need {needed}, there are {len(labels)}; allowed are fewer clients or a smaller"
            " min-client-size"
        )
    rng = np.random.default_rng([seed, STREAM])
    owners = PARTITIONS[deal.partition](labels, num_clients, deal, rng)
    owners = _filled(owners, labels, num_clients, deal.min_client_size, rng)
    return np.split(
        np.argsort(owners, kind="stable"),
        np.cumsum(np.bincount(owners, minlength=num_clients))[:-1],
    )


def _dirichlet(
    labels: Integers, num_clients: int, deal: Deal, rng: np.random.Generator
) -> Integers:
    """Deal out every class by shares from Dir(alpha) (Hsu et al., 2019), but none to clients that
    already hold 1/K of all images (Li et al., 2021).
    """
    owners = np.empty(len(labels), dtype=np.int64)
    sizes = np.zeros(num_clients, dtype=np.int64)
    for images in by_class(labels, rng):
        shares = _dirichlet_shares(sizes * num_clients < len(labels), deal.alpha, rng)
        # Rounded, not truncated: float64's rounding errors must not add images to the last client.
        ends = np.rint(np.cumsum(shares) * len(images)).astype(np.int64)
        counts = np.diff(ends, prepend=0)
        owners[images] = np.repeat(np.arange(num_clients), counts)
        sizes += counts
    return owners


def _dirichlet_shares(
    allowed: NDArray[np.bool_], alpha: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Shares (K,) from Dir(alpha), those not `allowed` set to 0 and the others scaled to a sum of
    1.

    Gamma variates in logarithms, log G(alpha) = log G(alpha + 1) + log(U) / alpha (Marsaglia and
    Tsang, 2000): for small alpha they all vanish in float64, and with them their sum.
    """
    exponential = rng.standard_exponential(len(allowed))
    logs = np.log(rng.standard_gamma(alpha + 1, len(allowed))) - exponential / max(
        alpha, LEAST_ALPHA
    )
    logs = np.where(allowed, logs, -np.inf)
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def _iid(labels: Integers, num_clients: int, deal: Deal, rng: np.random.Generator) -> Integers:
    """Dealt out in random order; sizes differ by one at most."""
    owners = np.empty(len(labels), dtype=np.int64)
    owners[rng.permutation(len(labels))] = np.arange(len(labels)) % num_clients
    return owners


def _shards(labels: Integers, num_clients: int, deal: Deal, rng: np.random.Generator) -> Integers:
    """Sorted by label, cut into shards whose sizes differ by one at most, and those dealt out
    (McMahan et al., 2017)."""
    num_shards = num_clients * deal.shards
    if len(labels) < num_shards:
        raise DataError(
            f"{num_clients} clients of shards = {deal.shards} need {num_shards} images, there are"
            f" {len(labels)}; allowed are fewer clients or shards"
        )
    owner_of_shard = rng.permutation(num_shards) % num_clients
    owners = np.empty(len(labels), dtype=np.int64)
    owners[np.concatenate(list(by_class(labels, rng)))] = owner_of_shard[
        np.arange(len(labels)) * num_shards // len(labels)
    ]
    return owners


PARTITIONS: dict[str, Callable[[Integers, int, Deal, np.random.Generator], Integers]] = {
    "dirichlet": _dirichlet,
    "iid": _iid,
    "shards": _shards,
}


def by_class(labels: Integers, rng: np.random.Generator) -> list[Integers]:
    """The images of every class that has some, in random order; the classes ascend."""
    shuffled = rng.permutation(len(labels))
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)


def _filled(
    owners: Integers, labels: Integers, num_clients: int, least: int, rng: np.random.Generator
) -> Integers:
    """Move images until every client has `least`; needs n >= K * least."""
    sizes = np.bincount(owners, minlength=num_clients)
    for client in np.flatnonzero(sizes < least):
        while sizes[client] < least:
            donor = sizes.argmax()
            own = np.flatnonzero(owners == donor)
            own = own[labels[own] == np.bincount(labels[own]).argmax()]
            # While one client has too few, another has more than `least`: at least one image moves.
            moved = rng.choice(
                own, min(least - sizes[client], sizes[donor] - least, len(own)), replace=False
            )
            owners[moved] = client
            sizes[[client, donor]] += len(moved) * np.array([1, -1])
    return owners

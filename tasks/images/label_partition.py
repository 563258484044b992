"""Partition labelled images among clients: Dirichlet, IID or shards, with a minimum number per
client."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from curvfed.geometry.arrays import Booleans, Floats, Integers
from curvfed.tasks.errors import DataError

STREAM = 5
"""Random stream of the seed: with the same seed the partition is independent of subsets and
splits."""

USERS = "users"
"""The partition by the users of the images."""

MIN_ALPHA = 1e-300
"""Smaller values have the same effect, one client per class, and their inverse overflows."""


@dataclass(frozen=True)
class PartitionSpec:
    """The settings of a partition of images among clients.

    Attributes
    ----------
    partition : str
        A name in `PARTITIONS`, or `USERS`.
    alpha : float
        Concentration of "dirichlet", above 0 and finite.
    shards : int
        Shards per client of "shards", at least 1.
    min_client_size : int
        Minimum number of images per client.
    """

    partition: str = "dirichlet"
    alpha: float = 0.5
    shards: int = 2
    min_client_size: int = 10


def partition_images(
    labels: Integers, num_clients: int, spec: PartitionSpec, seed: int
) -> list[Integers]:
    """The ascending indices of each client's images; each image belongs to one client.

    A client with fewer images than `min_client_size` takes images from the client that is largest
    at that time, of its most frequent class; the partition is not drawn again.

    Parameters
    ----------
    labels : (n,), at least 0
    num_clients : int, at least 1
    seed : int, at least 0

    Raises
    ------
    DataError
        Too few images for the clients' minimum size, or for the shards.
    """
    needed = num_clients * spec.min_client_size
    if len(labels) < needed:
        raise DataError(
            f"{num_clients} clients of at least min-client-size = {spec.min_client_size} images"
            f" need {needed}, there are {len(labels)}; allowed are fewer clients or a smaller"
            " min-client-size",
            key="too-few-images",
        )
    rng = np.random.default_rng([seed, STREAM])
    owners = PARTITIONS[spec.partition](labels, num_clients, spec, rng)
    owners = _filled(owners, labels, num_clients, spec.min_client_size, rng)
    ends = np.cumsum(np.bincount(owners, minlength=num_clients))
    return np.split(np.argsort(owners, kind="stable"), ends[:-1])


def partition_users(users: Integers, num_clients: int) -> Integers:
    """The client of each image: with U users, in the order of their numbers, user u belongs to
    client u modulo `num_clients`, with all images.

    Raises
    ------
    DataError
        If there are fewer users than clients.
    """
    numbers, places = np.unique(users, return_inverse=True)
    if num_clients > len(numbers):
        raise DataError(
            f"{num_clients} clients are more than the {len(numbers)} users of the data; allowed are"
            " up to one client per user, or another partition, such as iid",
            key="too-many-clients",
        )
    return np.asarray(places % num_clients, dtype=np.int64)


def _dirichlet(
    labels: Integers, num_clients: int, spec: PartitionSpec, rng: np.random.Generator
) -> Integers:
    """Partition each class by shares from Dir(alpha) (Hsu et al., 2019), without clients that
    already hold 1/K of all images (Li et al., 2021)."""
    owners = np.empty(len(labels), dtype=np.int64)
    sizes = np.zeros(num_clients, dtype=np.int64)
    for images in by_class(labels, rng):
        shares = _dirichlet_shares(sizes * num_clients < len(labels), spec.alpha, rng)
        # Truncation would add images to the last client by float64's rounding errors.
        exact_ends = np.cumsum(shares) * len(images)
        ends = np.rint(exact_ends).astype(np.int64)
        counts = np.diff(ends, prepend=0)
        owners[images] = np.repeat(np.arange(num_clients), counts)
        sizes += counts
    return owners


def _dirichlet_shares(allowed: Booleans, alpha: float, rng: np.random.Generator) -> Floats:
    """Shares (K,) from Dir(alpha), 0 for clients that are not `allowed`, with sum 1.

    Gamma variates are in logarithms, log G(alpha) = log G(alpha + 1) + log(U) / alpha (Marsaglia
    and Tsang, 2000): for small alpha they all underflow in float64, and so does their sum.
    """
    exponential = rng.standard_exponential(len(allowed))
    gamma = rng.standard_gamma(alpha + 1, len(allowed))
    logs = np.log(gamma) - exponential / max(alpha, MIN_ALPHA)
    logs = np.where(allowed, logs, -np.inf)
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def _iid(
    labels: Integers, num_clients: int, spec: PartitionSpec, rng: np.random.Generator
) -> Integers:
    """Partition in random order; sizes differ by at most one."""
    owners = np.empty(len(labels), dtype=np.int64)
    owners[rng.permutation(len(labels))] = np.arange(len(labels)) % num_clients
    return owners


def _shards(
    labels: Integers, num_clients: int, spec: PartitionSpec, rng: np.random.Generator
) -> Integers:
    """Sort by label, cut into shards with sizes that differ by at most one, and give each client
    `shards` of them (McMahan et al., 2017)."""
    num_shards = num_clients * spec.shards
    if len(labels) < num_shards:
        raise DataError(
            f"{num_clients} clients of shards = {spec.shards} need {num_shards} images, there are"
            f" {len(labels)}; allowed are fewer clients or shards",
            key="too-few-images",
        )
    owner_of_shard = rng.permutation(num_shards) % num_clients
    shard_of_place = np.arange(len(labels)) * num_shards // len(labels)
    owners = np.empty(len(labels), dtype=np.int64)
    owners[np.concatenate(by_class(labels, rng))] = owner_of_shard[shard_of_place]
    return owners


PARTITIONS: dict[str, Callable[[Integers, int, PartitionSpec, np.random.Generator], Integers]] = {
    "dirichlet": _dirichlet,
    "iid": _iid,
    "shards": _shards,
}


def by_class(labels: Integers, rng: np.random.Generator) -> list[Integers]:
    """The images of each nonempty class in random order; classes ascend."""
    shuffled = rng.permutation(len(labels))
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]
    borders = np.flatnonzero(np.diff(labels[order])) + 1
    return np.split(order, borders)


def _filled(
    owners: Integers, labels: Integers, num_clients: int, minimum: int, rng: np.random.Generator
) -> Integers:
    """Move images until each client has `minimum`; needs n >= K * minimum."""
    sizes = np.bincount(owners, minlength=num_clients)
    for client in np.flatnonzero(sizes < minimum):
        while sizes[client] < minimum:
            donor = sizes.argmax()
            images = np.flatnonzero(owners == donor)
            images = images[labels[images] == np.bincount(labels[images]).argmax()]
            # If a client has too few, another has more than `minimum`: at least one image moves.
            count = min(minimum - sizes[client], sizes[donor] - minimum, len(images))
            moved = rng.choice(images, count, replace=False)
            owners[moved] = client
            sizes[[client, donor]] += len(moved) * np.array([1, -1])
    return owners

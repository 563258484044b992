"""Partition training points among clients: stratified, IID or Dirichlet; some clients can lack a
class."""

from collections.abc import Callable
from functools import partial

import numpy as np

from curvfed.tasks.errors import DataError
from curvfed.tasks.images import label_partition
from curvfed.tasks.points.client_points import Integers

STRATIFIED_STREAM = 13
LACKING_STREAM = 14
"""Random streams of the seed."""


def partition_points(
    labels: Integers, num_clients: int, partition: str, alpha: float, seed: int, lacking: int = 0
) -> Integers:
    """The client of each point.

    Parameters
    ----------
    labels : (n,), at least 0
    num_clients : int, at least 1
    partition : str
        A name in `PARTITIONS`.
    alpha : float
        Concentration of "dirichlet", above 0 and finite.
    seed : int, at least 0
    lacking : int
        Number of clients that lose all points of a class; clients and classes are random. The other
        clients share these points evenly.

    Returns
    -------
    (n,), int64
        Clients without points are possible.

    Raises
    ------
    DataError
        If `lacking` clients cannot lose a class while each class still has a client.
    """
    owners = PARTITIONS[partition](labels, num_clients, alpha, seed)
    rng = np.random.default_rng([seed, LACKING_STREAM])
    return _with_lacking(owners, labels, num_clients, lacking, rng)


def _stratified(labels: Integers, num_clients: int, alpha: float, seed: int) -> Integers:
    """The clients' numbers of points, in total and of each class, differ by at most one."""
    rng = np.random.default_rng([seed, STRATIFIED_STREAM])
    shuffled = rng.permutation(len(labels))
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]
    owners = np.empty(len(labels), dtype=np.int64)
    owners[order] = rng.permutation(num_clients)[np.arange(len(labels)) % num_clients]
    return owners


def _like_images(
    partition: str, labels: Integers, num_clients: int, alpha: float, seed: int
) -> Integers:
    """A partition of `label_partition`, with empty clients allowed."""
    spec = label_partition.PartitionSpec(partition, alpha, min_client_size=0)
    shares = label_partition.partition_images(labels, num_clients, spec, seed)
    owners = np.empty(len(labels), dtype=np.int64)
    for client, share in enumerate(shares):
        owners[share] = client
    return owners


PARTITIONS: dict[str, Callable[[Integers, int, float, int], Integers]] = {
    "stratified": _stratified,
    "iid": partial(_like_images, "iid"),
    "dirichlet": partial(_like_images, "dirichlet"),
}


def _with_lacking(
    owners: Integers, labels: Integers, num_clients: int, lacking: int, rng: np.random.Generator
) -> Integers:
    owners = owners.copy()
    may_hold = np.ones((num_clients, labels.max(initial=0) + 1), dtype=np.bool_)
    done = 0
    for client in rng.permutation(num_clients):
        if done == lacking:
            break
        classes = np.unique(labels[owners == client])
        # Another client must be able to take the class.
        choice = classes[may_hold[:, classes].sum(axis=0) > 1]
        if not len(choice):
            continue
        lost = rng.choice(choice)
        may_hold[client, lost] = False
        moved = rng.permutation(np.flatnonzero((owners == client) & (labels == lost)))
        takers = rng.permutation(np.flatnonzero(may_hold[:, lost]))
        owners[moved] = takers[np.arange(len(moved)) % len(takers)]
        done += 1
    if done < lacking:
        raise DataError(
            f"points.lacking is {lacking}; only {done} of {num_clients} clients can lose one of"
            " their classes while another client holds it",
            key="lacking",
        )
    return owners

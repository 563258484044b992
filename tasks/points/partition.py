"""From labels to the owner of every point: dealt evenly by class, IID or Dirichlet, with classes that some clients lack."""

from collections.abc import Callable

import numpy as np

from curvfed.tasks.errors import DataError
from curvfed.tasks.images import label_partition
from curvfed.tasks.points.client_points import Integers

STRATIFIED_STREAM, LACKING_STREAM = 13, 14
"""Of the seed, for what is drawn."""


def deal_out(labels: Integers, num_clients: int, partition: str, alpha: float, seed: int, lacking: int = 0) -> Integers:
    """The client of every point.

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
        So many clients get no points of one class each, both drawn at random; the other clients take these evenly.

    Returns
    -------
    (n,), int64
        Clients without points are possible.

    Raises
    ------
    DataError
        If so many clients cannot lack a class while every class stays somewhere.
    """
    owners = PARTITIONS[partition](labels, num_clients, alpha, seed)
    return _without(owners, labels, num_clients, lacking, np.random.default_rng([seed, LACKING_STREAM]))


def _stratified(labels: Integers, num_clients: int, alpha: float, seed: int) -> Integers:
    """Like cards: of every class, and of all points, numbers differ by one at most."""
    rng = np.random.default_rng([seed, STRATIFIED_STREAM])
    shuffled = rng.permutation(len(labels))
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]
    owners = np.empty(len(labels), dtype=np.int64)
    owners[order] = rng.permutation(num_clients)[np.arange(len(labels)) % num_clients]
    return owners


def _as_images(partition: str) -> Callable[[Integers, int, float, int], Integers]:
    def deal(labels: Integers, num_clients: int, alpha: float, seed: int) -> Integers:
        how = label_partition.Deal(partition, alpha, min_client_size=0)
        owners = np.empty(len(labels), dtype=np.int64)
        for client, share in enumerate(label_partition.deal_out(labels, num_clients, how, seed)):
            owners[share] = client
        return owners

    return deal


PARTITIONS: dict[str, Callable[[Integers, int, float, int], Integers]] = {
    "stratified": _stratified,
    "iid": _as_images("iid"),
    "dirichlet": _as_images("dirichlet"),
}


def _without(owners: Integers, labels: Integers, num_clients: int, lacking: int, rng: np.random.Generator) -> Integers:
    owners = owners.copy()
    may_hold = np.ones((num_clients, labels.max(initial=0) + 1), dtype=np.bool_)
    done = 0
    for client in rng.permutation(num_clients):
        if done == lacking:
            break
        held = np.unique(labels[owners == client])
        # Those that another client may take.
        choice = held[may_hold[:, held].sum(axis=0) > 1]
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
            f"points.lacking is {lacking}; of {num_clients} clients, only {done} can do without one of their classes while "
            "another client holds it"
        )
    return owners

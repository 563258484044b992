"""Partitions by label: against SciPy's distributions, simulation, what they must satisfy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from curvfed.tasks.errors import DataError
from curvfed.tasks.images.label_partition import PARTITIONS, PartitionSpec, partition_images

DEALS = st.builds(
    PartitionSpec,
    partition=st.sampled_from(sorted(PARTITIONS)),
    alpha=st.sampled_from([1e-310, 1e-9, 1e-3, 0.1, 1.0, 1e6, 1e300]),
    shards=st.integers(1, 3),
    min_client_size=st.integers(0, 6),
)


def table(labels, shares):
    """Counts (clients, classes)."""
    return np.array([np.bincount(labels[share], minlength=labels.max() + 1) for share in shares])


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=80),
    st.integers(1, 12),
    DEALS,
    st.integers(0, 3),
)
def test_every_image_is_dealt_once_and_no_client_is_short(labels, num_clients, deal, seed):
    labels = np.array(labels)
    minimum = deal.min_client_size
    if len(labels) < num_clients * max(minimum, deal.shards if deal.partition == "shards" else 0):
        with pytest.raises(DataError, match=f"{num_clients} clients of .* there are {len(labels)}"):
            partition_images(labels, num_clients, deal, seed)
        return
    shares = partition_images(labels, num_clients, deal, seed)
    assert len(shares) == num_clients
    assert sorted(np.concatenate(shares).tolist()) == list(range(len(labels)))
    assert all((np.diff(share) > 0).all() for share in shares)
    assert min(map(len, shares)) >= minimum


@pytest.mark.parametrize("partition", sorted(PARTITIONS))
def test_the_seed_alone_decides(partition):
    labels = np.random.default_rng(0).integers(10, size=500)
    dealt = [partition_images(labels, 7, PartitionSpec(partition), seed) for seed in (0, 1, 0)]
    assert all(map(np.array_equal, dealt[0], dealt[2]))
    assert not all(map(np.array_equal, dealt[0], dealt[1]))


@pytest.mark.parametrize("alpha", [0.05, 0.5, 5.0])
def test_shares_of_a_class_are_dirichlet(alpha):
    """The first class is dealt to all: a client's share is Beta(alpha, (K - 1) alpha)."""
    clients, size = 5, 5_000
    labels = np.zeros(size, dtype=np.int64)
    deal = PartitionSpec("dirichlet", alpha, min_client_size=0)
    sizes = np.array(
        [
            [len(share) / size for share in partition_images(labels, clients, deal, seed)]
            for seed in range(200)
        ]
    )
    expected = stats.beta(alpha, (clients - 1) * alpha)
    for client in range(clients):
        # Counts are whole: shares below one image are 0, and the distributions may differ there by
        # the mass below it.
        rounded = np.clip(np.round(expected.rvs(20_000, random_state=client) * size) / size, 0, 1)
        assert stats.ks_2samp(sizes[:, client], rounded).pvalue > 1e-4
    cross = np.mean(sizes[:, 0] * sizes[:, 1])  # E[p_i p_j] = alpha / (K (K alpha + 1))
    exact = alpha / (clients * (clients * alpha + 1))
    spread = np.std(sizes[:, 0] * sizes[:, 1]) / np.sqrt(len(sizes))
    assert abs(cross - exact) < 5 * spread


@pytest.mark.parametrize("alpha", [1e-310, 1e-3, 0.1, 1.0])
def test_a_full_client_gets_none_of_the_following_classes(alpha):
    labels = np.random.default_rng(1).integers(20, size=4000)
    for seed in range(5):
        counts = table(
            labels,
            partition_images(
                labels, 10, PartitionSpec("dirichlet", alpha, min_client_size=0), seed
            ),
        )
        before = np.cumsum(counts, axis=1) - counts
        assert (counts[before >= 400] == 0).all()
        assert counts.sum() == 4000


def test_what_a_short_client_takes_is_the_largest_ones_most_frequent_class():
    """Two classes, tiny alpha: one client may hold both, and the other gets its least size."""
    labels = np.random.default_rng(5).permutation(np.repeat([0, 1], [300, 600]))
    met = 0
    for seed in range(20):
        free = table(
            labels,
            partition_images(labels, 2, PartitionSpec("dirichlet", 1e-3, min_client_size=0), seed),
        )
        filled = table(
            labels,
            partition_images(labels, 2, PartitionSpec("dirichlet", 1e-3, min_client_size=40), seed),
        )
        if free.sum(axis=1).min() == 0:
            short = free.sum(axis=1).argmin()
            assert filled[short].tolist() == [0, 40]
            assert filled[1 - short].tolist() == [300, 560]
            met += 1
    assert met >= 5


def test_a_least_size_that_is_met_changes_nothing():
    labels = np.random.default_rng(3).integers(10, size=2000)
    free = partition_images(labels, 5, PartitionSpec(alpha=1.0, min_client_size=0), 4)
    assert min(map(len, free)) >= 40
    assert all(
        map(
            np.array_equal,
            free,
            partition_images(labels, 5, PartitionSpec(alpha=1.0, min_client_size=40), 4),
        )
    )


@pytest.mark.parametrize(("num", "clients"), [(1000, 7), (60, 60), (10, 3)])
def test_iid_sizes_differ_by_one(num, clients):
    labels = np.arange(num) % 10
    sizes = [
        len(share)
        for share in partition_images(labels, clients, PartitionSpec("iid", min_client_size=0), 0)
    ]
    assert max(sizes) - min(sizes) <= 1


def test_iid_classes_are_hypergeometric():
    labels = np.repeat([0, 1], [300, 700])
    sizes = [
        np.sum(labels[partition_images(labels, 10, PartitionSpec("iid"), seed)[3]] == 0)
        for seed in range(400)
    ]
    expected = stats.hypergeom(1000, 300, 100)
    assert abs(np.mean(sizes) - expected.mean()) < 5 * expected.std() / 20
    assert 0.8 < np.std(sizes) / expected.std() < 1.2


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_shards_are_runs_of_the_sorted_labels(shards):
    labels = np.random.default_rng(4).permutation(np.arange(1000) % 10)
    shares = partition_images(labels, 10, PartitionSpec("shards", shards=shards), 0)
    assert [len(share) for share in shares] == [100] * 10
    counts = table(labels, shares)
    size = 100 // shards  # 100 images per class are a whole number of shards
    assert (counts % size == 0).all()
    assert ((counts > 0).sum(axis=1) <= shards).all()

"""Points of a client: partitions, splits, classes that stay, statistics, the task."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from errors import refuses

from curvfed.strategies.wire.checks import check_statistics
from curvfed.tasks.points import client_points
from curvfed.tasks.points.dataset import PointDataset
from curvfed.tasks.points.point_spec import PARTITIONS, PointSpec, partition_points

COUNTS = {"b": 23, "a": 40, "d": 7, "c": 3}


@pytest.fixture
def own(tmp_path):
    return write(tmp_path / "own.npz", COUNTS)


def write(
    path: Path, counts: dict[str, int], test: dict[str, int] | None = None, seed: int = 0
) -> Path:
    rng = np.random.default_rng(seed)
    arrays = {}
    for part, sizes in (("train", counts), ("test", test)):
        if sizes is not None:
            num = sum(sizes.values())
            arrays[f"x_{part}"] = rng.uniform(-0.6, 0.6, size=(num, 2))
            arrays[f"y_{part}"] = rng.permutation(np.repeat([*sizes], [*sizes.values()]))
    np.savez(path, **arrays)
    return path


def rows(data, mask=None):
    """Points with their class names, which tell them apart."""
    chosen = np.ones(len(data.points), dtype=bool) if mask is None else mask
    return {
        (*point, data.class_names[label])
        for point, label in zip(data.points[chosen].tolist(), data.labels[chosen])
    }


def all_clients(spec, num):
    return [PointDataset(spec).client(number, num) for number in range(num)]


def counts(client):
    return np.bincount(client.labels, minlength=len(client.class_names))


# Clients of a data set


@pytest.mark.parametrize("partition", [*PARTITIONS])
@pytest.mark.parametrize("num", [1, 3, 5, 6, 100])
def test_clients_share_the_training_points(own, partition, num):
    spec = PointSpec(str(own), own.parent, partition=partition, seed=2)
    whole, test, clients = (
        PointDataset(spec).pooled(),
        PointDataset(spec).test(),
        all_clients(spec, num),
    )
    assert sum(len(client.points) for client in clients) == whole.train.sum() == 73 - 11
    assert set().union(*map(rows, clients)) == rows(whole, whole.train)
    assert rows(test) == rows(whole, whole.test)
    assert test.test.all()
    assert len({client.partition_digest for client in clients}) == 1
    assert test.partition_digest == whole.partition_digest == ""
    for client in (*clients, test, whole):
        assert client.class_names == ("a", "b", "c", "d")
        assert client.points.dtype == np.float64
        assert client.labels.dtype == np.int64
        assert (client.train ^ client.test).all()
        assert client.curvature == -1
    assert not any(client.test.any() for client in clients)


@pytest.mark.parametrize("num", [1, 3, 5, 6, 100])
def test_stratified_deals_every_class_evenly(own, num):
    clients = all_clients(PointSpec(str(own), own.parent), num)
    for table in (
        np.array([counts(client) for client in clients]),
        np.array([[len(one.points)] for one in clients]),
    ):
        assert (np.ptp(table, axis=0) <= 1).all()
    if num == 100:
        assert min(len(client.points) for client in clients) == 0


def digests(spec, num=3):
    return [client.digest for client in all_clients(spec, num)]


def test_the_same_spec_gives_the_same_data(own):
    spec = PointSpec(str(own), own.parent, seed=4)
    assert digests(spec) == digests(dataclasses.replace(spec, data_dir=Path("elsewhere")))
    for change in ({"seed": 5}, {"split_seed": 5}, {"partition": "iid"}, {"test_size": 0.3}):
        assert digests(dataclasses.replace(spec, **change)) != digests(spec)
    fixed, other = (PointSpec(str(own), own.parent, seed=seed, split_seed=3) for seed in (0, 1))
    assert PointDataset(fixed).test().digest == PointDataset(other).test().digest
    assert digests(fixed) != digests(other)
    # What these draw is for good: runs can be repeated years later.
    owners = partition_points(np.arange(12) % 3, 3, "stratified", 0.5, 7)
    assert owners.tolist() == [2, 1, 0, 0, 2, 2, 1, 0, 1, 1, 0, 2]


def test_data_are_not_shared_with_the_next_caller(own):
    given = np.zeros((2, 2)), np.zeros(2, dtype=np.int64), np.zeros(2, dtype=bool)
    kept = client_points(*given, ("a",), -1.0)
    for array, copy in zip(given, (kept.points, kept.labels, kept.test), strict=True):
        assert not np.shares_memory(array, copy)
    spec = PointSpec(str(own), own.parent)
    for load in (
        lambda: PointDataset(spec).client(0, 2),
        lambda: PointDataset(spec).test(),
        lambda: PointDataset(spec).pooled(),
    ):
        first = load()
        expected = first.points.copy()
        first.points[:] = 0
        first.labels[:] = 0
        assert (load().points == expected).all()
        assert len(np.unique(load().labels)) > 1


# The split


def test_a_files_own_test_part_is_the_test_set(tmp_path):
    path = write(tmp_path / "a.npz", {"a": 5, "b": 6, "c": 7}, {"a": 2, "c": 3})
    spec = PointSpec(str(path), tmp_path, test_size=0.5)
    own, test = PointDataset(spec).own(path), PointDataset(spec).test()
    assert own.test.tolist() == [False] * 18 + [True] * 5
    assert rows(test) == rows(own, own.test) == rows(PointDataset(spec).test(path))
    assert set().union(*map(rows, all_clients(spec, 2))) == rows(own, own.train)
    assert own.class_names == ("a", "b", "c")
    assert own.partition_digest == ""


def test_a_class_of_the_test_part_alone_is_refused_where_points_are_shared_out(tmp_path):
    path = write(tmp_path / "a.npz", {"a": 5, "b": 6}, {"a": 2, "c": 3})
    points = PointDataset(PointSpec(str(path), tmp_path))
    for load in (lambda: points.client(0, 2), points.test):
        with refuses("untrained-classes", "a.npz", "the training part lacks: c;"):
            load()
    # Another site may have points to train it on.
    assert points.own(path).class_names == ("a", "b", "c")


def test_own_data_are_split_by_class(own):
    spec = PointSpec("uniform", own.parent, test_size=0.25, seed=1)
    data = PointDataset(spec).own(own)
    assert dict(zip(data.class_names, np.bincount(data.test_labels))) == {
        "a": 10,
        "b": 6,
        "c": 1,
        "d": 2,
    }
    assert len(data.train_points) == len(data.train_labels) == 73 - 19
    assert len(data.test_points) == 19
    assert (
        PointDataset(dataclasses.replace(spec, seed=0, split_seed=1)).own(own).digest == data.digest
    )
    assert PointDataset(dataclasses.replace(spec, seed=2)).own(own).digest != data.digest
    assert not PointDataset(dataclasses.replace(spec, test_size=0)).own(own).test.any()
    greedy = PointDataset(dataclasses.replace(spec, test_size=0.99)).own(own)
    assert np.bincount(greedy.train_labels).tolist() == [1, 1, 1, 1]


def test_test_sets(own):
    spec = PointSpec(str(own), own.parent, test_size=0)
    assert PointDataset(spec).test() is None
    whole = PointDataset(spec).test(own)
    assert whole.test.all()
    assert len(whole.points) == 73
    assert PointDataset(spec).test(write(own.parent / "no.npz", {})) is None


# Classes


def test_kept_classes(own):
    spec = PointSpec(str(own), own.parent, classes=" d, a ,d", test_size=0.1)
    whole = PointDataset(spec).pooled()
    assert whole.class_names == ("a", "d")
    assert counts(whole).tolist() == [40, 7]
    assert rows(whole) == {
        row
        for row in rows(PointDataset(PointSpec(str(own), own.parent)).pooled())
        if row[2] in "ad"
    }
    assert whole.test.sum() == 5  # of those that are kept
    mine = PointDataset(dataclasses.replace(spec, classes="a,e")).own(own)
    assert mine.class_names == ("a", "e")
    assert counts(mine).tolist() == [40, 0]


# The built-in sampler


@pytest.mark.parametrize("curvature", [-1.0, -0.25])
def test_uniform(tmp_path, curvature):
    spec = PointSpec(
        "Uniform", tmp_path / "absent", num_points=500, curvature=curvature, test_size=0.1
    )
    whole = PointDataset(spec).pooled()
    assert whole.class_names == ("0", "1")
    assert whole.curvature == curvature
    norm = np.hypot(*whole.points.T).max() * (-curvature) ** 0.5
    assert 0.9 < norm < 0.951
    assert whole.test.sum() == -(-len(whole.points) // 10)
    assert len(whole.points) < 500
    assert PointDataset(dataclasses.replace(spec, margin=0)).pooled().points.shape == (500, 2)
    for change in ({"seed": 1}, {"reference": 0.1}, {"sample_radius": 0.5}):
        assert PointDataset(dataclasses.replace(spec, **change)).pooled().digest != whole.digest


# Spec, statistics, digest


def made(
    points=((0.1, 0.2), (0.3, 0.4), (0.5, 0.6)),
    labels=(1, 1, 0),
    test=(0, 1, 1),
    names=("a", "b"),
    curvature=-1,
):
    return client_points(np.array(points), np.array(labels), np.array(test), names, curvature)


def test_statistics():
    figures = made().statistics()
    assert figures == {
        "num_train": 1,
        "num_test": 2,
        "class_counts": [0, 1],
        "majority_accuracy": 0.5,
    }
    check_statistics("points", figures, 2)
    for data in (made(test=(0, 0, 0)), made(test=(1, 1, 1)), made(np.zeros((0, 2)), (), (), ())):
        figures = data.statistics()
        assert figures.pop("majority_accuracy") is None
        check_statistics("points", figures, len(data.class_names))


def test_the_digest_covers_everything():
    changed = [
        {"points": ((0.1, 0.2), (0.3, 0.4), (0.5, 0.6000001))},
        {"labels": (1, 0, 0)},
        {"test": (1, 1, 0)},
        {"names": ("a", "c")},
        {"curvature": -0.5},
    ]
    assert len({made(**change).digest for change in ({}, *changed)}) == len(changed) + 1
    assert made(curvature=-1.0).digest == made(curvature=-1).digest


# What kind of task


def test_classes_that_are_not_there(own):
    with refuses("unknown-class", "points.classes"):
        PointDataset(PointSpec(str(own), own.parent, classes="a,f,e")).pooled()
    with refuses("too-few-classes", "1 class;", "2"):
        PointDataset(PointSpec(str(own), own.parent, classes="a")).pooled()
    with refuses("too-few-classes", "0"):
        PointDataset(PointSpec(str(write(own.parent / "no.npz", {})), own.parent)).test()


def test_points_of_a_client_keep_their_numbers_in_the_file(tmp_path):
    """Points of unknown class are left out, and the others are dealt at random."""
    rows = [
        f"{number / 100},0,{'' if number % 7 == 0 else 'ab'[number % 2]}" for number in range(60)
    ]
    (tmp_path / "a.csv").write_text("\n".join(["x,y,label", *rows]))
    dataset = PointDataset(PointSpec(str(tmp_path / "a.csv"), tmp_path))
    for points in (dataset.client(0, 2), dataset.client(1, 2), dataset.test()):
        assert [f"{x:.2f}" for x in points.points[:, 0]] == [
            f"{int(name) / 100:.2f}" for name in points.names
        ]

"""What a client gets of image files: dealt out, split, hashed, stored; and the test set."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from errors import refuses
from image_fixtures import load_all, rows_of, same, write_classes, write_idx
from PIL import Image

from curvfed.tasks.images.clients import ImageSpec, share_images
from curvfed.tasks.images.dataset import ImageDataset
from curvfed.tasks.images.label_partition import PartitionSpec
from curvfed.tasks.images.raw import raw_images

CLIENTS = 4


@pytest.fixture(scope="module")
def mnist(tmp_path_factory):
    """A data folder with a small MNIST, and the truth about it. Read only."""
    root = tmp_path_factory.mktemp("data-mnist")
    return root, write_idx(root)


def spec_of(root, **settings):
    deal = {
        name: settings.pop(name)
        for name in list(settings)
        if name in ("partition", "alpha", "shards")
    }
    deal["min_client_size"] = settings.pop("min_client_size", 5)
    return ImageSpec(
        **{"dataset": "mnist", "data_dir": root, "partition": PartitionSpec(**deal)} | settings
    )


# Shares of a data set


@pytest.mark.parametrize("partition", ["dirichlet", "iid", "shards"])
def test_clients_hold_every_training_image_once(mnist, tmp_path, partition):
    root, truth = mnist
    images, labels = truth["train"]
    expected = dict(zip(rows_of(images), labels.tolist(), strict=True))
    result = {}
    for client in load_all(spec_of(root, partition=partition), tmp_path, CLIENTS):
        assert client.images.dtype == torch.uint8
        assert client.labels.dtype == torch.int64
        for row, label in zip(rows_of(client.images), client.labels.tolist(), strict=True):
            assert row not in result
            result[row] = label
    assert result == expected


def test_every_client_is_split_by_itself_and_has_an_image_to_train_on(mnist, tmp_path):
    sizes = {"train_size": 0.5, "test_size": 0.3}
    clients = load_all(spec_of(mnist[0], partition="iid", **sizes), tmp_path, CLIENTS)
    for client in clients:
        masks = torch.stack([client.train, client.val, client.test])
        assert (masks.sum(dim=0) == 1).all()
        assert masks.sum(dim=1).tolist() == [15, 6, 9]
    assert len({tuple(client.train.tolist()) for client in clients}) == CLIENTS
    (whole,) = load_all(spec_of(mnist[0]), tmp_path, 1)
    assert (int(whole.train.sum()), int(whole.val.sum()), int(whole.test.sum())) == (90, 0, 30)
    spec = spec_of(mnist[0], partition="iid", min_client_size=0, train_size=0.1, test_size=0.9)
    clients = load_all(spec, tmp_path, 70)
    assert {len(client.labels) for client in clients} == {1, 2}
    assert all(client.train.sum() == 1 for client in clients)
    assert all(client.test.sum() == len(client.labels) - 1 for client in clients)


def test_the_seed_decides_partition_and_split(mnist, tmp_path):
    spec = spec_of(mnist[0])
    first = load_all(spec, tmp_path / "a", CLIENTS)
    assert all(
        same(a, b) for a, b in zip(first, load_all(spec, tmp_path / "b", CLIENTS), strict=True)
    )
    assert len({client.digest for client in first}) == CLIENTS
    assert len({client.partition_digest for client in first}) == 1
    other = ImageDataset(replace(spec, seed=1), tmp_path / "a").client(0, CLIENTS)
    assert other.partition_digest != first[0].partition_digest
    whole = [ImageDataset(replace(spec, seed=seed), tmp_path).client(0, 1) for seed in (0, 1)]
    assert whole[0].partition_digest == whole[1].partition_digest
    assert not torch.equal(whole[0].train, whole[1].train)


def test_other_settings_are_not_served_from_the_cache(mnist, tmp_path):
    spec = spec_of(mnist[0], partition="iid")
    sizes = [len(ImageDataset(spec, tmp_path).client(0, clients).labels) for clients in (1, 2, 3)]
    assert sizes == [120, 60, 40]
    deals = [
        {"partition": replace(spec.partition, partition=name)} for name in ("dirichlet", "shards")
    ]
    changes = [*deals, {"train_size": 0.5}, {"size": 14}, {"channels": 3}, {"pooled": True}]
    digests = {
        ImageDataset(replace(spec, **change), tmp_path).client(0, 3).digest
        for change in ({}, *changes)
    }
    assert len(digests) == len(changes) + 1


def test_subsets_are_drawn_by_the_seed_before_the_partition(mnist, tmp_path):
    root, truth = mnist
    spec = spec_of(root, train_subset=60, test_subset=15)
    rows = [
        {
            row
            for client in load_all(replace(spec, seed=seed), tmp_path, CLIENTS)
            for row in rows_of(client.images)
        }
        for seed in (0, 1)
    ]
    assert [len(some) for some in rows] == [60, 60]
    assert rows[0] != rows[1]
    assert rows[0] < set(rows_of(truth["train"][0]))
    tests = [
        set(rows_of(ImageDataset(replace(spec, seed=seed), tmp_path).test().images))
        for seed in (0, 1)
    ]
    assert [len(some) for some in tests] == [15, 15]
    assert tests[0] != tests[1]
    assert tests[0] < set(rows_of(truth["test"][0]))


# Sizes and channels


def test_named_sets_are_brought_to_size_and_channels(mnist, tmp_path):
    root, truth = mnist
    test = ImageDataset(spec_of(root, size=14, channels=3), tmp_path).test()
    assert test.shape == "3x14x14"
    assert test.mean == (0.1307,) * 3
    assert test.std == (0.3081,) * 3
    assert torch.equal(test.images[:, 0], test.images[:, 2])
    by_pillow = [
        np.array(Image.fromarray(image).resize((14, 14), Image.Resampling.BILINEAR))
        for image in truth["test"][0]
    ]
    difference = test.images[:, 0].numpy().astype(int) - np.array(by_pillow)
    assert np.abs(difference).max() <= 1


def test_colour_becomes_grey_as_pillow_does_it(tmp_path):
    truth = write_classes(tmp_path / "own", {"a": 6, "b": 5}, (9, 7, 3))
    client = ImageDataset(ImageSpec("digits", tmp_path, channels=1)).own(tmp_path / "own")
    expected = [
        np.array(Image.fromarray(image).convert("L"))
        for images in truth.values()
        for image in images
    ]
    assert client.shape == "1x9x7"
    assert rows_of(client.images) == rows_of(np.array(expected))


# The global test set


def test_the_test_set_is_the_data_sets_own(mnist, tmp_path):
    root, truth = mnist
    test = ImageDataset(spec_of(root), tmp_path).test()
    assert rows_of(test.images) == rows_of(truth["test"][0])
    assert test.labels.tolist() == truth["test"][1].tolist()
    assert test.test.all()
    assert not (test.train | test.val).any()
    assert test.partition_digest == ""
    assert same(
        test, ImageDataset(spec_of(root, seed=3, alpha=2.0, train_size=0.1), tmp_path).test()
    )
    # one, whatever the seed and the partition
    assert len(list(tmp_path.rglob("*.safetensors"))) == 1
    with refuses("subset", "images.test-subset", "41", "40"):
        ImageDataset(spec_of(root, test_subset=41), tmp_path).test()


@pytest.mark.parametrize("partition", ["dirichlet", "iid", "shards"])
def test_pooled_clients_hold_training_and_test_images_once(mnist, tmp_path, partition):
    root, truth = mnist
    sizes = {"train_size": 0.85, "test_size": 0.15}
    spec = spec_of(root, partition=partition, pooled=True, **sizes)
    clients = load_all(spec, tmp_path / "a", CLIENTS)
    rows = [row for client in clients for row in rows_of(client.images)]
    expected = [row for part in ("train", "test") for row in rows_of(truth[part][0])]
    assert sorted(rows) == sorted(expected)
    in_test = set(rows_of(truth["test"][0]))
    for client in clients:
        assert int(client.test.sum()) == round(0.15 * len(client.labels))
        assert (client.train ^ client.test).all()
    trained = [row for one in clients for row in rows_of(one.images[one.train])]
    assert 0 < len(in_test.intersection(trained)) < len(in_test)
    again = load_all(spec, tmp_path / "b", CLIENTS)
    assert all(same(a, b) for a, b in zip(clients, again, strict=True))
    other = ImageDataset(replace(spec, seed=1), tmp_path / "a").client(0, CLIENTS)
    assert other.partition_digest != clients[0].partition_digest


def test_a_pooled_set_has_no_global_test_set(mnist, tmp_path):
    spec = spec_of(mnist[0], pooled=True)
    assert ImageDataset(spec, tmp_path).test() is None
    write_classes(tmp_path / "own", {"0": 3, "1": 4}, (28, 28))
    assert len(ImageDataset(spec, tmp_path).test(tmp_path / "own").labels) == 7
    digits = load_all(ImageSpec("digits", tmp_path, pooled=True), tmp_path, CLIENTS)
    assert sum(len(client.labels) for client in digits) == 1797


def test_pooled_images_of_users_stay_with_their_user():
    pixels = torch.arange(12, dtype=torch.uint8).reshape(12, 1, 1, 1)
    labels = np.arange(12) % 2
    roles = np.array([0, 0, 2] * 4)
    users = np.repeat([0, 1, 2, 3], 3)
    raw = replace(raw_images(pixels, labels, ("a", "b"), roles), users=users)
    spec = ImageSpec("mnist", Path(), PartitionSpec("users"), pooled=True, test_size=0.5)
    for number, client in enumerate(share_images(raw, replace(spec, train_size=0.5), 2)):
        held = client.images.flatten().tolist()
        assert held == [image for image in range(12) if users[image] % 2 == number]
        assert int(client.test.sum()) == 3


def test_digits_need_no_files(tmp_path):
    spec = ImageSpec("Digits", tmp_path / "none")
    clients = load_all(spec, tmp_path, CLIENTS)
    test = ImageDataset(spec, tmp_path).test()
    assert sum(len(client.labels) for client in clients) + len(test.labels) == 1797
    assert test.images.max() == 255
    assert abs(len(test.labels) / 1797 - 0.2) < 0.005
    counts = (
        np.bincount(test.labels.numpy()),
        np.bincount(np.concatenate([client.labels for client in clients])),
    )
    assert np.abs(counts[0] - 0.2 * (counts[0] + counts[1])).max() <= 0.5  # of every class a fifth
    assert same(test, ImageDataset(replace(spec, seed=5), tmp_path / "other").test())
    assert (test.mean, test.std, test.augments) == ((0.5,), (0.25,), False)


def test_a_folder_without_a_test_part_holds_out_a_fifth(tmp_path):
    truth = write_classes(tmp_path / "own", {"a": 20, "b": 10, "c": 1})
    spec = ImageSpec(str(tmp_path / "own"), tmp_path, partition=PartitionSpec(min_client_size=1))
    test = ImageDataset(spec, tmp_path / "cache").test()
    assert np.bincount(test.labels).tolist() == [4, 2]
    rows = [
        row
        for client in load_all(spec, tmp_path / "cache", CLIENTS)
        for row in rows_of(client.images)
    ]
    assert sorted(rows + rows_of(test.images)) == sorted(
        row for images in truth.values() for row in rows_of(images)
    )


def test_a_folder_of_test_images(tmp_path):
    truth = write_classes(tmp_path / "own", {"0": 3, "1": 4}, (28, 28))
    spec = ImageSpec("mnist", tmp_path)
    test = ImageDataset(spec, tmp_path / "cache").test(tmp_path / "own")
    assert rows_of(test.images) == rows_of(truth["0"]) + rows_of(truth["1"])
    assert test.test.all()
    assert test.mean == (0.1307,)
    assert (
        len(
            ImageDataset(replace(spec, test_subset=2), tmp_path / "cache")
            .test(tmp_path / "own")
            .labels
        )
        == 2
    )
    write_classes(tmp_path / "parts/train", {"0": 3})
    write_classes(tmp_path / "parts/val", {"0": 2})
    assert len(ImageDataset(spec, tmp_path / "cache").test(tmp_path / "parts").labels) == 2


# A node's own folder


@pytest.mark.parametrize("parts", [("train", "test"), ("train", "val"), ("train", "val", "test")])
def test_own_parts_are_kept(tmp_path, parts):
    sizes = {"train": 5, "val": 3, "test": 2}
    for seed, part in enumerate(parts):
        write_classes(tmp_path / "own" / part, {"a": sizes[part], f"only {part}": 1}, seed=seed)
    client = ImageDataset(ImageSpec("mnist", tmp_path)).own(tmp_path / "own")
    assert client.class_names == ("a", *sorted(f"only {part}" for part in parts))
    result = [int(mask.sum()) for mask in (client.train, client.val, client.test)]
    assert result == {2: [6, 0, 4 if "val" in parts else 3], 3: [6, 4, 3]}[len(parts)]
    assert (torch.stack([client.train, client.val, client.test]).sum(dim=0) == 1).all()


def test_own_images_are_kept_and_read_back(tmp_path):
    write_classes(tmp_path / "own", {"a": 5, "b": 5})
    spec = ImageSpec("mnist", tmp_path)
    first = ImageDataset(spec, tmp_path / "cache").own(tmp_path / "own")
    (path,) = (tmp_path / "cache").rglob("*.safetensors")
    written = path.stat().st_mtime_ns
    assert same(
        first,
        ImageDataset(replace(spec, partition=PartitionSpec(alpha=0.1)), tmp_path / "cache").own(
            tmp_path / "own"
        ),
    )
    assert path.stat().st_mtime_ns == written
    Image.new("L", (8, 8)).save(tmp_path / "own/a/new.png")
    assert len(ImageDataset(spec, tmp_path / "cache").own(tmp_path / "own").labels) == 11


# Kept on disk


# What kind of task


def test_images_that_do_not_suffice_or_cannot_be_pooled_are_refused(mnist, tmp_path):
    with refuses("too-few-images", "121", "min-client-size", "120"):
        ImageDataset(spec_of(mnist[0], min_client_size=1), tmp_path).client(0, 121)
    cache = tmp_path / "cache"
    write_classes(tmp_path / "own", {"a": 2, "b": 1})
    with refuses("no-test-images"):
        ImageDataset(ImageSpec(str(tmp_path / "own"), tmp_path), cache).test()
    (tmp_path / "parts/train/a").mkdir(parents=True)
    write_classes(tmp_path / "parts/test", {"a": 2})
    with refuses("untrained-classes"):
        ImageDataset(ImageSpec(str(tmp_path / "parts"), tmp_path), cache).client(0, 1)
    for part in ("train", "test"):
        write_classes(tmp_path / "node" / part, {"a": 5, "b": 3})
    pooled = ImageDataset(ImageSpec("mnist", tmp_path, pooled=True), cache)
    with refuses("pooled", "images.pooled", "false"):
        pooled.own(tmp_path / "node")
    assert len(pooled.own(tmp_path / "node" / "train").labels) == 8

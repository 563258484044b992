"""LEAF's files: images by user, a partition by user, and what is refused."""

import json
import os

import numpy as np
import pytest
import torch
from errors import refuses
from format_fixtures import leaf_users, read_images, write_leaf, write_leaf_file
from image_fixtures import load_all, made, write_classes

from curvfed.extensions.formats import leaf
from curvfed.tasks.images.clients import ImageSpec
from curvfed.tasks.images.dataset import ImageDataset
from curvfed.tasks.images.label_partition import PartitionSpec
from curvfed.tasks.images.layout import TEST, TRAIN


def spec(path, **keys):
    return ImageSpec(str(path), path, PartitionSpec("users"), **keys)


def test_images_labels_users_and_parts(tmp_path):
    raw = read_images(write_leaf(tmp_path))
    images, labels = made(20, (8, 8), 3, 0)
    assert raw.class_names == ("0", "1", "2")
    assert raw.labels[:20].tolist() == labels.tolist()
    assert torch.equal(raw.read(np.arange(20), 0, 0)[:, 0], torch.from_numpy(images))
    for role, sizes in ((TRAIN, [20, 10, 15, 10, 20]), (TEST, [5, 3, 4, 3, 6])):
        assert np.bincount(raw.users[raw.roles == role]).tolist() == sizes


def test_each_user_is_a_client(tmp_path):
    path = write_leaf(tmp_path)
    clients = load_all(spec(path), tmp_path / "cache", 5)
    assert [int(client.train.sum()) for client in clients] == [20, 10, 15, 10, 20]
    assert [int(client.test.sum()) for client in clients] == [5, 3, 4, 3, 6]
    assert int(ImageDataset(spec(path), tmp_path / "cache").test().test.sum()) == 21


def test_users_are_grouped_on_fewer_clients(tmp_path):
    clients = load_all(spec(write_leaf(tmp_path)), tmp_path / "cache", 2)
    assert [int(client.train.sum()) for client in clients] == [20 + 15 + 20, 10 + 10]
    assert [int(client.test.sum()) for client in clients] == [5 + 4 + 6, 3 + 3]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([0, 255, 7, 9], [[0, 255, 7, 9], [0, 1, 1, 0]]),
        ([0, 0.2, 1, 0], [[0, 51, 255, 0], [0, 255, 255, 0]]),
        ([0, 0, 0, 1], [[0, 0, 0, 255], [0, 255, 255, 0]]),
    ],
)
def test_all_users_have_one_scale(tmp_path, row, expected):
    data = {"a": {"x": [row], "y": [0]}, "b": {"x": [[0, 1, 1, 0]], "y": [1]}}
    raw = read_images(write_leaf_file(tmp_path / "own.json", data))
    assert raw.read(np.arange(2), 0, 0).flatten(1).tolist() == expected


def test_images_in_files_as_of_celeba(tmp_path):
    write_classes(tmp_path / "celeba/data/raw", {"img_align_celeba": 3}, (8, 8, 3), suffix=".jpg")
    names = [f"{number:04d}.jpg" for number in range(3)]
    data = {"a": {"x": names[:2], "y": [0, 1]}, "b": {"x": names[2:], "y": [1]}}
    write_leaf_file(tmp_path / "celeba/data/train/a.json", data)
    raw = read_images(tmp_path / "celeba")
    assert raw.read(np.arange(3), 0, 0).shape == (3, 3, 8, 8)
    assert raw.users.tolist() == [0, 0, 1]


REFUSED = {
    "unequal-lengths": ({"x": [[0.5] * 16] * 3, "y": [0, 1]}, "x has 3 rows and y has 2"),
    "images": ({"x": [[0.5] * 60], "y": [0]}, "60 numbers"),
    "image-sizes": ({"x": [[0.5] * 16, [0.5] * 25], "y": [0, 1]}, "differ in length"),
    "pixel-values": ({"x": [[-0.5] * 16], "y": [0]}, "0 to 1"),
    "text": ({"x": ["to be or not to be"], "y": ["t"]}, "Shakespeare"),
    "labels": ({"x": [[0.5] * 16], "y": [0.5]}, "float"),
    "no-array": ({"x": [[0.5] * 16]}, "x and y"),
}


@pytest.mark.parametrize("key", REFUSED)
def test_what_is_refused(tmp_path, key):
    entries, fragment = REFUSED[key]
    path = tmp_path / "own.json"
    path.write_text(json.dumps({"users": ["ann"], "user_data": {"ann": entries}}))
    with refuses(key, "own.json", fragment) as error:
        read_images(path)
    assert key == "labels" or "ann" in error.value.names


def test_a_user_listed_twice_is_refused(tmp_path):
    path = tmp_path / "own.json"
    path.write_text(json.dumps({"users": ["ann", "ann"], "user_data": leaf_users({"ann": 3})}))
    with refuses("repeated-user", "own.json", "ann"):
        read_images(path)


@pytest.mark.parametrize("name", ["/etc/a.jpg", "../a.jpg", "sub/a.jpg"])
def test_an_image_outside_of_its_folder_is_refused(tmp_path, name):
    path = write_leaf_file(tmp_path / "own.json", {"ann": {"x": [name], "y": [0]}})
    with refuses("file-name", "ann", name) as error:
        read_images(path)
    assert {"ann", name} <= set(error.value.names)


def test_more_clients_than_users(tmp_path):
    with refuses("too-many-clients", "6 clients", "5 users"):
        load_all(spec(write_leaf(tmp_path)), tmp_path / "cache", 6)


def test_pictures_of_celeba_that_change_change_its_digest(tmp_path):
    pictures = tmp_path / leaf.PICTURES
    pictures.mkdir(parents=True)
    (pictures / "0.jpg").write_bytes(b"one")
    data = {"a": {"x": ["0.jpg"], "y": [0]}}
    write_leaf_file(tmp_path / "train" / "a.json", data)
    before = leaf.locate(tmp_path).digest
    stamp = (pictures / "0.jpg").stat()
    (pictures / "0.jpg").write_bytes(b"two")  # of the same size and time
    os.utime(pictures / "0.jpg", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert leaf.locate(tmp_path).digest != before

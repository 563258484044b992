"""Files of public images: read as by torchvision; absent, damaged or unfit ones are named."""

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from errors import refuses
from image_fixtures import CIFAR10, rows_of, write_cifar, write_classes, write_idx, write_tiny

from curvfed.extensions.public_data import downloads
from curvfed.tasks.errors import DataError
from curvfed.tasks.images.clients import ImageSpec
from curvfed.tasks.images.dataset import ImageDataset
from curvfed.tasks.images.label_partition import PartitionSpec


def both(dataset, root, cache, **settings):
    """All training images, of one client, and the test set."""
    spec = ImageSpec(dataset, root, partition=PartitionSpec(min_client_size=0), **settings)
    return ImageDataset(spec, cache).client(0, 1), ImageDataset(spec, cache).test()


def check(client, images, labels):
    result = dict(zip(rows_of(client.images), client.labels.tolist(), strict=True))
    assert result == dict(zip(rows_of(images), labels.tolist(), strict=True))
    assert len(client.labels) == len(labels)


# Named data sets


@pytest.mark.parametrize(
    ("dataset", "collection", "names"),
    [
        ("mnist", "MNIST", tuple("0123456789")),
        ("Fashion-MNIST", "FashionMNIST", ("T-shirt/top", "Trouser")),
        ("emnist", "EMNIST", tuple("abcdefghijklmnopqrstuvwxyz")),
    ],
)
def test_idx_files(tmp_path, dataset, collection, names):
    truth = write_idx(tmp_path, collection, num_classes=26 if collection == "EMNIST" else 10)
    train, test = both(dataset, tmp_path, tmp_path / "cache")
    check(train, *truth["train"])
    check(test, *truth["test"])
    assert train.class_names == test.class_names
    assert train.class_names[: len(names)] == names
    assert train.shape == "1x28x28"


@pytest.mark.parametrize(
    ("dataset", "collection", "classes"),
    [("cifar10", "CIFAR10", 10), ("cifar100", "CIFAR100", 100)],
)
def test_cifar_files(tmp_path, monkeypatch, dataset, collection, classes):
    truth = write_cifar(tmp_path, monkeypatch, collection)
    train, test = both(dataset, tmp_path, tmp_path / "cache")
    check(train, *truth["train"])
    check(test, *truth["test"])
    assert len(train.class_names) == classes
    assert train.augments
    assert train.shape == "3x32x32"
    if classes == 10:
        assert train.class_names == CIFAR10


def test_cifar10_as_image_files(tmp_path):
    truth = write_classes(tmp_path / "train", dict.fromkeys(CIFAR10, 3), (32, 32, 3))
    held = write_classes(tmp_path / "test", dict.fromkeys(CIFAR10, 2), (32, 32, 3), seed=1)
    (tmp_path / "MNIST/raw").mkdir(parents=True)  # other data sets lie beside it
    train, test = both("cifar10", tmp_path, tmp_path / "cache")
    for client, images in ((train, truth), (test, held)):
        check(
            client, np.concatenate([*images.values()]), np.repeat(np.arange(10), len(images["cat"]))
        )
        assert client.class_names == CIFAR10
        assert client.mean == (0.4914, 0.4822, 0.4465)


def test_tiny_imagenet_as_it_is_published(tmp_path):
    truth = write_tiny(tmp_path)
    train, test = both("TinyImageNet", tmp_path, tmp_path / "cache")
    check(train, *truth["train"])
    check(test, *truth["test"])
    assert train.class_names == test.class_names == tuple(f"n{number:08d}" for number in range(3))
    assert train.augments


# Absent and damaged


FETCHED = {
    "mnist": "MNIST/raw",
    "FMNIST": "FashionMNIST/raw",
    "emnist": "EMNIST/raw",
    "cifar10": "cifar-10-batches-py",
    "cifar100": "cifar-100-python",
    "tinyimagenet": "tiny-imagenet-200",
}


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("dataset", FETCHED)
def test_absent_data_offline(tmp_path, dataset):
    """What is to be run on a machine with a network is a program that imports what there is."""
    data_dir = tmp_path / "no such folder"
    place = data_dir / FETCHED[dataset]
    images = ImageDataset(ImageSpec(dataset, data_dir), tmp_path / "cache")
    for load in (partial(images.client, 0, 1), images.test):
        with pytest.raises(DataError) as error:
            load()
        said = str(error.value)
        assert f"are not in {place}" in said
        (code,) = re.findall(r'^python -c "(.*)"$', said, re.MULTILINE)
        assert repr(str(data_dir)) in code
        imported, *_ = (step.strip() for step in code.split(";"))
        exec(imported, {})
        compile(code, "command", "exec")
        assert f"copy {data_dir / FETCHED[dataset].partition('/')[0]} here." in said
    assert not data_dir.exists()


def test_downloaded_files_are_used_and_nothing_else_is_left(tmp_path, monkeypatch):
    """The two subprocesses, the probe and torchvision, are played; the rest is real."""
    calls = []

    def played(code, *arguments, seconds):
        calls.append(code)
        if "torchvision" in code:
            assert (
                code == "import sys; from torchvision.datasets import MNIST; MNIST(sys.argv[1],"
                " download=True)"
            )
            write_idx(Path(arguments[0]))
            (Path(arguments[0]) / "archive.tar.gz").touch()

    monkeypatch.setattr(downloads, "_python", played)
    spec = ImageSpec("mnist", tmp_path / "data")
    assert len(ImageDataset(spec, tmp_path / "cache").test().labels) == 40
    assert len(calls) == 2
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["MNIST"]
    ImageDataset(spec, tmp_path / "cache").client(0, 1)
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("t10k-images-idx3-ubyte", lambda content: content[:-100]),
        ("t10k-images-idx3-ubyte", lambda content: content + b"more"),
        ("t10k-images-idx3-ubyte", lambda content: b""),
        ("train-images-idx3-ubyte", lambda content: b"no header" + content),
        ("train-labels-idx1-ubyte", lambda content: content[:7]),
        # one fewer
        ("train-labels-idx1-ubyte", lambda content: content[:7] + bytes([119]) + content[8:-1]),
        ("train-labels-idx1-ubyte", lambda content: content[:-1] + bytes([10])),  # a class too many
    ],
)
def test_damaged_idx_files(tmp_path, file, change):
    write_idx(tmp_path)
    path = tmp_path / "MNIST/raw" / file
    path.write_bytes(change(path.read_bytes()))
    with refuses("unreadable", "MNIST", "MNIST/raw") as error:
        both("mnist", tmp_path, tmp_path / "cache")
    assert "download=True" in str(error.value)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("content", [b"", b"\x80\x02}", None])
def test_damaged_pickles(tmp_path, monkeypatch, content):
    """The checksum keeps a file that is not the original from being unpickled at all."""
    write_cifar(tmp_path, monkeypatch)
    path = tmp_path / "cifar-10-batches-py/data_batch_3"
    path.write_bytes(path.read_bytes()[:-5] if content is None else content)
    monkeypatch.setattr("pickle.load", lambda *_, **__: pytest.fail("unpickled"))
    with refuses("unreadable", "CIFAR-10"):
        both("cifar10", tmp_path, tmp_path / "cache")


# A user's folder


@pytest.mark.parametrize(
    "classes", [("cat", "dog"), CIFAR10[:9], (*CIFAR10, "zebra"), (*CIFAR10[:9], "lorry")]
)
def test_another_folder_is_not_taken_for_cifar10(tmp_path, offline, classes):
    write_classes(tmp_path / "train", dict.fromkeys(CIFAR10, 1), (32, 32, 3))
    write_classes(tmp_path / "test", dict.fromkeys(classes, 1), (32, 32, 3))
    with refuses("no-public-data", "CIFAR-10", "cifar-10-batches-py"):
        both("cifar10", tmp_path, tmp_path / "cache")


@pytest.mark.parametrize(
    ("row", "facts"),
    [
        ("0.JPEG\tn99\t0\t0\t1\t1", ("no-class", "2")),
        ("0.JPEG n00000000", ("no-class", "2")),
        ("0.JPEG\tné", ("no-class", "2")),
        ("../../train/secret.JPEG\tn00000000", ("file-name", "row 2", "secret.JPEG")),
        ("absent.JPEG\tn00000000", ("unreadable", "val/images/absent.JPEG")),
    ],
)
def test_an_unfit_table_of_tiny_imagenet(tmp_path, row, facts):
    write_tiny(tmp_path)
    table = tmp_path / "tiny-imagenet-200/val/val_annotations.txt"
    lines = table.read_text().splitlines()
    table.write_text("\n".join([lines[0], row, *lines[2:]]), encoding="latin1")
    with refuses(*facts):
        ImageDataset(ImageSpec("tinyimagenet", tmp_path), tmp_path / "cache").test()

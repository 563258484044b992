"""Files of images: read as torchvision reads them; absent, damaged or unfit, a DataError names them
and what is allowed."""

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from errors import refuses
from image_fixtures import CIFAR10, rows_of, write_cifar, write_classes, write_idx, write_tiny
from PIL import Image

from curvfed.tasks import public_data
from curvfed.tasks.errors import DataError
from curvfed.tasks.images import EXTENSIONS
from curvfed.tasks.images.clients import ImageSpec
from curvfed.tasks.images.dataset import ImageDataset
from curvfed.tasks.images.label_partition import PartitionSpec


def both(dataset, root, cache, **settings):
    """All training images, of one client, and the test set."""
    spec = ImageSpec(dataset, root, partition=PartitionSpec(min_client_size=0), **settings)
    return ImageDataset(spec, cache).client(0, 1), ImageDataset(spec, cache).test()


def check(client, images, labels):
    found = dict(zip(rows_of(client.images), client.labels.tolist(), strict=True))
    assert found == dict(zip(rows_of(images), labels.tolist(), strict=True))
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


FETCHED = [
    ("mnist", "MNIST/raw", "from torchvision.datasets import MNIST; MNIST({}, download=True)"),
    (
        "FMNIST",
        "FashionMNIST/raw",
        "from torchvision.datasets import FashionMNIST; FashionMNIST({}, download=True)",
    ),
    (
        "emnist",
        "EMNIST/raw",
        "from torchvision.datasets import EMNIST; EMNIST({}, split='letters', download=True)",
    ),
    (
        "cifar10",
        "cifar-10-batches-py",
        "from torchvision.datasets import CIFAR10; CIFAR10({}, download=True)",
    ),
    (
        "cifar100",
        "cifar-100-python",
        "from torchvision.datasets import CIFAR100; CIFAR100({}, download=True)",
    ),
    (
        "tinyimagenet",
        "tiny-imagenet-200",
        "from torchvision.datasets.utils import download_and_extract_archive",
    ),
]


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize(("dataset", "folder", "code"), FETCHED)
def test_absent_data_offline(tmp_path, dataset, folder, code):
    data_dir = tmp_path / "no such folder"
    images = ImageDataset(ImageSpec(dataset, data_dir), tmp_path / "cache")
    for load in (partial(images.client, 0, 1), images.test):
        with pytest.raises(DataError) as error:
            load()
        assert f"are not in {data_dir / folder}" in str(error.value)
        assert (
            f'On a machine with a network run:\npython -c "{code.format(repr(str(data_dir)))}'
            in str(error.value)
        )
        assert f"\nand copy {data_dir / folder.partition('/')[0]} here." in str(error.value)
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

    monkeypatch.setattr(public_data, "_python", played)
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


def test_extensions_and_order_are_torchvisions(tmp_path):
    from torchvision.datasets import ImageFolder
    from torchvision.datasets.folder import IMG_EXTENSIONS

    assert set(EXTENSIONS) == {*IMG_EXTENSIONS, ".jfif"}
    write_classes(tmp_path / "own", {"b": 3, "A": 2, "c/inner": 2, "10": 1, "9": 1})
    write_classes(tmp_path / "own", {"b": 2}, seed=1, suffix=".PPM")
    expected = ImageFolder(tmp_path / "own")
    client = ImageDataset(ImageSpec("mnist", tmp_path)).own(tmp_path / "own")
    assert client.class_names == tuple(expected.classes)
    assert client.labels.tolist() == expected.targets
    assert rows_of(client.images) == [
        np.array(image.convert("L")).tobytes() for image, _ in expected
    ]


def test_a_pipe_among_the_images_is_named_and_not_waited_for(tmp_path):
    write_classes(tmp_path / "own", {"a": 2, "b": 3})
    os.mkfifo(tmp_path / "own" / "a" / "9.png")
    with refuses("unreadable", "a/9.png", "(OSError"):
        ImageDataset(ImageSpec("mnist", tmp_path)).own(tmp_path / "own")


def test_a_jpeg_that_a_browser_saved(tmp_path):
    truth = write_classes(tmp_path / "own", {"a": 2}, (16, 16, 3), suffix=".jpg")
    for path in (tmp_path / "own/a").iterdir():
        path.rename(path.with_suffix(".jfif"))
    client = ImageDataset(ImageSpec("mnist", tmp_path)).own(tmp_path / "own")
    assert client.images.shape == (2, 3, 16, 16)
    assert len(truth["a"]) == 2


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "I;16"])
def test_modes_of_pictures(tmp_path, mode):
    (tmp_path / "own/a").mkdir(parents=True)
    ramp = np.arange(64, dtype=np.uint8).reshape(8, 8) * 4
    if mode == "I;16":
        image = Image.fromarray(ramp.astype(np.uint16) * 257)
    elif mode == "P":
        image = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8), "P")
        image.putpalette([value for step in range(64) for value in (4 * step, 255 - step, 7)])
    else:
        image = (
            Image.fromarray(ramp).convert("RGB" if mode in ("RGBA", "CMYK") else "L").convert(mode)
        )
    path = tmp_path / ("own/a/0.tif" if mode == "CMYK" else "own/a/0.png")
    options = {"transparency": bytes(range(64))} if mode == "P" else {}
    image.save(path, **options)
    client = ImageDataset(ImageSpec("mnist", tmp_path)).own(tmp_path / "own")
    found = client.images[0].numpy()
    if mode == "P":
        assert np.array_equal(found, np.stack([ramp, 255 - ramp // 4, np.full_like(ramp, 7)]))
    elif mode == "1":
        assert np.array_equal(found[0], np.array(image).astype(np.uint8) * 255)
    elif mode in ("RGBA", "CMYK"):
        assert np.array_equal(found, np.stack([ramp] * 3))
    else:
        assert np.array_equal(found, ramp[None])


def test_sizes(tmp_path):
    write_classes(tmp_path / "own", {"a": 2}, (8, 12, 3))
    spec = ImageSpec("trees", tmp_path)
    assert ImageDataset(spec).own(tmp_path / "own").shape == "3x8x12"
    write_classes(tmp_path / "own", {"b": 1}, (12, 8, 3))
    with refuses("image-sizes", "b/0000.png", "12x8", "8x12", "images.size=32"):
        ImageDataset(spec).own(tmp_path / "own")
    client = ImageDataset(replace(spec, size=8)).own(tmp_path / "own")
    assert client.shape == "3x8x8"
    file = Image.open(tmp_path / "own/b/0000.png")
    expected = np.array(file.resize((8, 8), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    assert np.abs(client.images[2].numpy().astype(int) - expected).max() <= 1


DAMAGES = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-60]),
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("no image"),
    "broken link": lambda path: path.unlink() or path.symlink_to("nowhere"),
}


@pytest.mark.parametrize("suffix", [".jpg", ".png"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_image_is_named(tmp_path, damage, suffix):
    write_classes(tmp_path / "own", {"cat": 3, "dog": 3}, (16, 16, 3), suffix=suffix)
    DAMAGES[damage](tmp_path / f"own/dog/0001{suffix}")
    with refuses("unreadable", f"own: image dog/0001{suffix}"):
        ImageDataset(ImageSpec("mnist", tmp_path)).own(tmp_path / "own")


@pytest.mark.parametrize(
    ("make", "facts"),
    [
        (lambda path: None, ("no-file", "CLASS/", "train/CLASS")),
        (lambda path: path.write_text(""), ("no-file",)),
        (lambda path: path.mkdir(), ("no-classes", "CLASS/")),
        (
            lambda path: (path / "a").mkdir(parents=True),
            ("no-images", "CLASS/"),
        ),
        (
            lambda path: Image.new("L", (8, 8)).save(path.mkdir() or path / "0.png"),
            ("no-classes",),
        ),
    ],
    ids=["absent", "file", "empty", "no images", "no classes"],
)
def test_an_unfit_folder(tmp_path, make, facts):
    make(tmp_path / "own")
    with refuses(*facts):
        ImageDataset(ImageSpec("mnist", tmp_path), tmp_path / "cache").own(tmp_path / "own")


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
        (
            "absent.JPEG\tn00000000",
            ("unreadable", "val/images/absent.JPEG"),
        ),
    ],
)
def test_an_unfit_table_of_tiny_imagenet(tmp_path, row, facts):
    write_tiny(tmp_path)
    table = tmp_path / "tiny-imagenet-200/val/val_annotations.txt"
    lines = table.read_text().splitlines()
    table.write_text("\n".join([lines[0], row, *lines[2:]]), encoding="latin1")
    with refuses(*facts):
        ImageDataset(ImageSpec("tinyimagenet", tmp_path), tmp_path / "cache").test()

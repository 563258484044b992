"""Files of images: read as torchvision reads them; absent, damaged or unfit, a DataError names them
and what is allowed."""

import inspect
import os
import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from errors import refuses
from image_fixtures import CIFAR10, rows_of, write_cifar, write_classes, write_idx, write_tiny
from PIL import Image

from curvfed.tasks import public_data
from curvfed.tasks.errors import DataError
from curvfed.tasks.images.clients import ImageSpec
from curvfed.tasks.images.dataset import ImageDataset
from curvfed.tasks.images.image_files import EXTENSIONS, is_image_folder
from curvfed.tasks.images.label_partition import PartitionSpec
from curvfed.tasks.images.layout import read_layout
from curvfed.tasks.images.sources import SOURCES


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


def test_the_original_goes_before_its_copy(tmp_path, monkeypatch):
    truth = write_cifar(tmp_path, monkeypatch)
    for part in ("train", "test"):
        write_classes(tmp_path / part, dict.fromkeys(CIFAR10, 1), (32, 32, 3))
    check(both("cifar10", tmp_path, tmp_path / "cache")[0], *truth["train"])


@pytest.mark.parametrize(
    "classes", [("cat", "dog"), CIFAR10[:9], (*CIFAR10, "zebra"), (*CIFAR10[:9], "lorry")]
)
def test_another_folder_is_not_taken_for_cifar10(tmp_path, offline, classes):
    write_classes(tmp_path / "train", dict.fromkeys(CIFAR10, 1), (32, 32, 3))
    write_classes(tmp_path / "test", dict.fromkeys(classes, 1), (32, 32, 3))
    with refuses("no-public-data", "CIFAR-10", "cifar-10-batches-py"):
        both("cifar10", tmp_path, tmp_path / "cache")


def test_tiny_imagenet_as_it_is_published(tmp_path):
    truth = write_tiny(tmp_path)
    train, test = both("TinyImageNet", tmp_path, tmp_path / "cache")
    check(train, *truth["train"])
    check(test, *truth["test"])
    assert train.class_names == test.class_names == tuple(f"n{number:08d}" for number in range(3))
    assert train.augments


def test_tiny_imagenet_has_the_names_of_its_words(tmp_path):
    write_tiny(tmp_path)
    words = "n00000000\tbow\nn00000001\tgoldfish, Carassius auratus\nn00000002\tbow, bowknot\n"
    (tmp_path / "tiny-imagenet-200/words.txt").write_text(words + "n00000003\tentity\n")
    train, _ = both("tinyimagenet", tmp_path, tmp_path / "cache")
    assert train.class_names == ("bow (n00000000)", "goldfish", "bow (n00000002)")


def test_words_in_another_encoding_are_no_names(tmp_path):
    write_classes(tmp_path, {"a": 1, "b": 1})
    (tmp_path / "words.txt").write_bytes("café\tb".encode("latin1"))
    assert read_layout(tmp_path).class_names == ("a", "b")


def test_tiny_imagenet_by_class(tmp_path):
    folder = tmp_path / "tiny-imagenet-200"
    truth = {
        part: write_classes(folder / part, {"n1": 3, "n2": 2}, (64, 64, 3), seed=len(part))
        for part in ("train", "val")
    }
    for client, part in zip(
        both("tinyimagenet", tmp_path, tmp_path / "cache"), ("train", "val"), strict=True
    ):
        check(client, np.concatenate([*truth[part].values()]), np.array([0, 0, 0, 1, 1]))


def test_tiny_imagenet_without_the_labels_of_its_test_part(tmp_path, offline):
    write_tiny(tmp_path)
    (tmp_path / "tiny-imagenet-200/val/val_annotations.txt").unlink()
    with refuses("no-public-data", "TinyImageNet", "tiny-imagenet-200"):
        both("tinyimagenet", tmp_path, tmp_path / "cache")


def test_grey_pictures_among_those_of_a_named_set(tmp_path):
    """TinyImageNet has some, and a subset may have none else."""
    folder = tmp_path / "tiny-imagenet-200"
    truth = write_classes(folder / "train", {"n1": 3}, (64, 64))
    write_classes(folder / "val", {"n1": 1}, (64, 64, 3))
    train, test = both("tinyimagenet", tmp_path, tmp_path / "cache")
    assert train.shape == test.shape == "3x64x64"
    check(train, np.repeat(truth["n1"][..., None], 3, axis=-1), np.zeros(3))


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


# Absent and damaged


@pytest.fixture
def offline(monkeypatch):
    """A network that refuses at once."""
    monkeypatch.setattr(public_data, "PROBE_URL", "http://127.0.0.1:9/")
    monkeypatch.setenv("no_proxy", "*")


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


@pytest.mark.parametrize("dataset", [name for name in SOURCES if name != "digits"])
def test_every_command_is_python(tmp_path, dataset):
    """What is told is run up to the download: torchvision has these names and takes these
    arguments."""
    program, option, code = shlex.split(SOURCES[dataset].command(tmp_path / "data folder"))
    assert (program, option) == ("python", "-c")
    imports, call = code.split("; ")
    scope = {}
    exec(imports, scope)
    names = [name for name in scope if name != "__builtins__"]
    calls = []
    for name in names:
        loader = scope[name]
        scope[name] = lambda *arguments, loader=loader, **options: calls.append(
            (loader, arguments, options)
        )
    exec(call, scope)
    ((loader, arguments, options),) = calls
    assert str(tmp_path / "data folder") in arguments
    inspect.signature(loader).bind(
        *arguments, **{name: value for name, value in options.items() if name != "download"}
    )


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


def test_a_download_that_lacks_files(tmp_path, monkeypatch):
    monkeypatch.setattr(public_data, "_python", lambda *_, **__: None)
    with refuses("no-public-data", "lacks some"):
        ImageDataset(ImageSpec("mnist", tmp_path / "data"), tmp_path / "cache").test()


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

    assert set(EXTENSIONS) == set(IMG_EXTENSIONS)
    write_classes(tmp_path / "own", {"b": 3, "A": 2, "c/inner": 2, "10": 1, "9": 1})
    write_classes(tmp_path / "own", {"b": 2}, seed=1, suffix=".PPM")
    expected = ImageFolder(tmp_path / "own")
    client = ImageDataset(ImageSpec("mnist", tmp_path)).own(tmp_path / "own")
    assert client.class_names == tuple(expected.classes)
    assert client.labels.tolist() == expected.targets
    assert rows_of(client.images) == [
        np.array(image.convert("L")).tobytes() for image, _ in expected
    ]


def test_what_is_no_image_is_passed_by(tmp_path):
    write_classes(tmp_path / "own", {"a": 2, ".hidden": 3})
    for name in ("a/notes.txt", "a/Thumbs.db", "a/._0000.png", "a/.png", "table.csv"):
        (tmp_path / "own" / name).write_text("")
    (tmp_path / "own/none").mkdir()
    client = ImageDataset(ImageSpec("mnist", tmp_path)).own(tmp_path / "own")
    assert client.class_names == ("a", "none")  # a class without images is a class
    assert len(client.labels) == 2


def test_folders_of_classes_may_be_links(tmp_path):
    write_classes(tmp_path / "far", {"a": 2, "b": 3})
    (tmp_path / "own").mkdir()
    for name in ("a", "b"):
        (tmp_path / "own" / name).symlink_to(tmp_path / "far" / name)
    assert is_image_folder(tmp_path / "own")
    spec = ImageSpec("mnist", tmp_path)
    assert len(ImageDataset(spec, tmp_path / "cache").own(tmp_path / "own").labels) == 5
    for name in ("loop", "other"):  # two of them double at every level
        (tmp_path / "own" / "b" / name).symlink_to(tmp_path / "own")
    with refuses("unreadable"):
        ImageDataset(spec, tmp_path / "cache").own(tmp_path / "own")


def test_a_pipe_among_the_images_is_named_and_not_waited_for(tmp_path):
    write_classes(tmp_path / "own", {"a": 2, "b": 3})
    os.mkfifo(tmp_path / "own" / "a" / "9.png")
    with refuses("unreadable", "a/9.png", "(OSError"):
        ImageDataset(ImageSpec("mnist", tmp_path)).own(tmp_path / "own")


@pytest.mark.parametrize("suffix", [".jpg", ".jpeg", ".png", ".bmp", ".tif", ".webp", ".PNG"])
def test_kinds_of_files(tmp_path, suffix):
    truth = write_classes(tmp_path / "own", {"a": 3}, (8, 8, 3), suffix=suffix)
    client = ImageDataset(ImageSpec("mnist", tmp_path)).own(tmp_path / "own")
    assert client.shape == "3x8x8"
    if suffix.lower() in (".png", ".bmp", ".tif"):  # without loss
        assert rows_of(client.images) == rows_of(truth["a"])


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


def test_grey_pictures_among_coloured_ones(tmp_path):
    grey = write_classes(tmp_path / "own", {"a": 2, "c": 1}, (8, 8))
    colour = write_classes(tmp_path / "own", {"b": 2}, (8, 8, 3), seed=1)
    spec = ImageSpec("trees", tmp_path)
    client = ImageDataset(spec).own(tmp_path / "own")
    grey = {name: np.repeat(images[..., None], 3, axis=-1) for name, images in grey.items()}
    assert rows_of(client.images) == [
        row for images in (grey["a"], colour["b"], grey["c"]) for row in rows_of(images)
    ]
    assert client.mean == (0.5, 0.5, 0.5)
    assert ImageDataset(replace(spec, channels=1)).own(tmp_path / "own").shape == "1x8x8"
    write_classes(tmp_path / "grey", {"a": 2}, (8, 8))
    assert ImageDataset(spec).own(tmp_path / "grey").shape == "1x8x8"
    assert ImageDataset(replace(spec, channels=3)).own(tmp_path / "grey").shape == "3x8x8"


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


def test_an_image_of_floats(tmp_path):
    (tmp_path / "own/a").mkdir(parents=True)
    Image.fromarray(np.zeros((4, 4), dtype=np.float32)).save(tmp_path / "own/a/0.tif")
    with refuses("unreadable", "a/0.tif"):
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


def test_a_folder_that_cannot_be_looked_into(tmp_path, monkeypatch):
    write_classes(tmp_path / "own", {"a": 1})

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("os.scandir", refuse)
    with refuses("unreadable"):
        ImageDataset(ImageSpec("mnist", tmp_path)).own(tmp_path / "own")
    assert not is_image_folder(tmp_path / "own")


def test_an_absent_dataset_folder(tmp_path):
    with refuses("no-file"):
        ImageDataset(ImageSpec("some/where", tmp_path), tmp_path / "cache").test()


def test_a_dataset_folder_below_the_data_folder(tmp_path):
    for part in ("train", "test"):
        write_classes(tmp_path / "some/where" / part, {"a": 3})
    assert (
        len(ImageDataset(ImageSpec("some/where", tmp_path), tmp_path / "cache").test().labels) == 3
    )


def test_train_alone_is_looked_into(tmp_path):
    write_classes(tmp_path / "own/train", {"cat": 5, "dog": 5})
    (tmp_path / "own/notes").mkdir()
    assert ImageDataset(ImageSpec("mnist", tmp_path)).own(tmp_path / "own").class_names == (
        "cat",
        "dog",
    )
    write_classes(tmp_path / "wheels", {"car": 2, "train": 2, "test": 1})
    assert ImageDataset(ImageSpec("mnist", tmp_path)).own(tmp_path / "wheels").class_names == (
        "car",
        "test",
        "train",
    )


def test_is_image_folder(tmp_path):
    write_classes(tmp_path / "own/train/n01", {"images": 1})
    (tmp_path / "texts/a").mkdir(parents=True)
    (tmp_path / "texts/a/0.txt").write_text("")
    found = {
        name: is_image_folder(tmp_path / name)
        for name in ("own", "own/train", "texts", "absent", "texts/a/0.txt")
    }
    assert found == {
        "own": True,
        "own/train": True,
        "texts": False,
        "absent": False,
        "texts/a/0.txt": False,
    }


def test_a_digest_sees_names_sizes_times_and_folders(tmp_path):
    own = tmp_path / "own"
    write_classes(own, {"a": 2, "b/inner": 1})

    def changes():
        yield
        yield (own / "a/0001.png").rename(own / "a/0002.png")
        yield (own / "c").mkdir()
        # A file that is written over shows once its folder does, or to another process.
        yield Image.new("L", (9, 9)).save(own / "b/inner/0000.png") or os.utime(own / "b", (1, 1))
        yield os.utime(own / "b/inner/0000.png", (1, 1)) or os.utime(own / "b", (2, 2))

    found = [read_layout(own).digest for _ in changes()]
    assert len(set(found)) == 5
    (own / "a/notes.txt").write_text("")
    assert read_layout(own).digest == found[-1]


def test_many_files_are_told_of(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("curvfed.tasks.images.folder.LOGGED_IMAGES", 4)
    write_classes(tmp_path / "own", {"a": 5})
    with caplog.at_level("INFO", "curvfed"):
        ImageDataset(ImageSpec("mnist", tmp_path)).own(tmp_path / "own")
    assert f"reading 5 images of {tmp_path / 'own'}" in caplog.text


def test_images_in_memory_are_not_shared(tmp_path):
    """A client's tensors are its own: nothing that one changes shows at another."""
    write_idx(tmp_path)
    spec = ImageSpec("mnist", tmp_path, partition=PartitionSpec(min_client_size=5))
    one, other = (ImageDataset(spec, tmp_path / "cache").client(1, 2) for _ in range(2))
    one.images.zero_()
    assert torch.count_nonzero(other.images)

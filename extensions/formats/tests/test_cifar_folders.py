"""The folders of CIFAR: batches, class names, and pickles that are not opened."""

import os
import pickle

import numpy as np
import pytest
import torch
from errors import refuses
from format_fixtures import cifar_batch, read_images, write_batch, write_cifar100
from image_fixtures import made

from curvfed.tasks.formats import decide
from curvfed.tasks.graphs.data.stored_objects import READABLE
from curvfed.tasks.images.layout import TEST, TRAIN


def test_cifar_100_has_fine_labels(tmp_path):
    raw = read_images(write_cifar100(tmp_path))
    assert raw.class_names == ("apple", "bee", "cup")
    for role, size in ((TRAIN, 75), (TEST, 21)):
        images, labels = made(size, (3, 32, 32), 3, size)
        numbers = np.flatnonzero(raw.roles == role)
        assert raw.labels[numbers].tolist() == labels.tolist()
        assert torch.equal(raw.read(numbers, 0, 0), torch.from_numpy(images))


def write_cifar10(folder, names=("cat", "dog"), **changes):
    write_batch(folder / "batches.meta", {"label_names": list(names)})
    for number in range(2):
        batch = cifar_batch(10, "labels", 2, number) | changes
        write_batch(folder / f"data_batch_{number + 1}", batch)
    return folder


def test_texts_of_python_2_are_read(tmp_path):
    """As in the published files: str of Python 2 for keys and for the bytes of arrays."""
    folder = write_cifar10(tmp_path)
    pixels = bytes(3072 * [200])
    text = b"U" + bytes([16]) + b"this is no label"
    stored = (
        b"\x80\x02}(U\x04data"
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01bt"
        b"R(K\x01(K\x01M\x00\x0ctcnumpy\ndtype\n(U\x02u1K\x00K\x01tR(K\x03U\x01|NNNJ\xff\xff\xff\xff"
        b"J\xff\xff\xff\xffK\x00tb\x89T\x00\x0c\x00\x00"
        + pixels
        + b"tbU\x06labels](K\x01eU\x05other"
        + text
        + b"u."
    )
    (folder / "test_batch").write_bytes(stored)
    raw = read_images(folder)
    (number,) = np.flatnonzero(raw.roles == TEST)
    assert raw.labels[number] == 1
    assert (raw.read(np.array([number]), 0, 0) == 200).all()


@pytest.mark.parametrize("labels", [list, np.array])
def test_pickles_of_protocol_5_hold_the_same(tmp_path, labels):
    """The default of Python 3.14."""
    folder = write_cifar10(tmp_path)
    before = read_images(folder)
    for path in folder.iterdir():
        stored = pickle.loads(path.read_bytes())
        if "labels" in stored:
            stored["labels"] = labels(stored["labels"])
            stored["data"] = np.asfortranarray(stored["data"])
        path.write_bytes(pickle.dumps(stored, 5))
    after = read_images(folder)
    assert after.class_names == before.class_names
    assert after.labels.tolist() == before.labels.tolist()
    numbers = np.arange(20)
    assert torch.equal(after.read(numbers, 0, 0), before.read(numbers, 0, 0))


def test_absent_batches_are_noted(tmp_path):
    folder = write_cifar10(tmp_path / "own")
    notes = decide(folder).locate().notes
    assert notes == (
        f"{folder}: batches that are absent: data_batch_3, data_batch_4, data_batch_5, test_batch",
    )
    path = write_cifar100(tmp_path)
    assert decide(path).locate().notes == ()
    (path / "test").unlink()
    assert decide(path).locate().notes == (f"{path}: batches that are absent: test",)


REFUSED = {
    "images": ({"data": np.zeros((10, 1024), np.uint8)}, "(n, 3072)"),
    "unequal-lengths": ({"labels": [0, 1]}, "10 images", "2 labels"),
    "labels": ({"labels": [0] * 9 + [2]}, "outside 0..1"),
    "no-array": ({"labels": None}, "labels"),
}


@pytest.mark.parametrize("key", REFUSED)
def test_what_is_refused(tmp_path, key):
    changes, *fragments = REFUSED[key]
    folder = write_cifar10(tmp_path, **changes)
    if key == "no-array":
        write_batch(folder / "data_batch_1", {"data": np.zeros((10, 3072), np.uint8)})
    with refuses(key, "data_batch_1", *fragments):
        read_images(folder)


class Harmful:
    def __reduce__(self):
        return os.system, ("touch harm",)


@pytest.mark.parametrize("content", [pickle.dumps({"data": Harmful()}), b"\x80\x02}(U\x04da"])
def test_code_is_not_run_and_damage_is_named(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    folder = write_cifar10(tmp_path)
    (folder / "data_batch_2").write_bytes(content)
    with refuses("unreadable", "data_batch_2"):
        read_images(folder)
    assert not (tmp_path / "harm").exists()


def test_a_file_does_not_change_the_functions_of_its_reader(tmp_path):
    folder = write_cifar10(tmp_path)
    name = "numpy.core.multiarray._reconstruct"
    content = b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n}(X\x04\x00\x00\x00evilK\x01ub."
    (folder / "data_batch_2").write_bytes(content)
    with refuses("no-array", "data_batch_2"):
        read_images(folder)
    assert not hasattr(READABLE[name], "evil")

"""Data sets of Hugging Face: columns, splits, labels, in memory, and Flower's Partitioners."""

import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from errors import refuses
from format_fixtures import animals, write_saved_images, write_saved_points
from image_fixtures import made
from PIL import Image
from saved_datasets import (
    ANIMALS,
    IMAGE,
    PAIR,
    StandIn,
    dataset,
    installed,  # noqa: F401
    save,
)

import curvfed
from curvfed.extensions.formats.saved import from_datasets
from curvfed.tasks.formats import decide
from curvfed.tasks.images.layout import TEST, TRAIN, VAL
from curvfed.tasks.points.readers import read_points

NUMBER = {"dtype": "int64", "_type": "Value"}
PIXELS = {"_type": "Array2D", "shape": [4, 4], "dtype": "float32"}


def read(path):
    return decide(path).locate().read()


def test_images_classes_and_splits(tmp_path):
    raw = read(write_saved_images(tmp_path))
    assert raw.class_names == ("cat", "dog", "emu")
    for role, size in ((TRAIN, 60), (VAL, 15), (TEST, 21)):
        images, labels = made(size, (8, 8, 3), 3, size)
        numbers = np.flatnonzero(raw.roles == role)
        assert raw.labels[numbers].tolist() == labels.tolist()
        assert torch.equal(raw.read(numbers, 0, 0), torch.from_numpy(images).permute(0, 3, 1, 2))
    assert raw.read(np.arange(2), 4, 1).shape == (2, 1, 4, 4)


def test_validation_is_the_test_part_beside_a_test_split_without_labels():
    blind = dataset(
        {"img": [Image.new("RGB", (8, 8))], "label": [-1]}, {"img": IMAGE, "label": ANIMALS}
    )
    splits = {"train": animals(30), "validation": animals(9), "test": blind}
    assert from_datasets("own", splits).roles.tolist() == 30 * [TRAIN] + 9 * [TEST]


def test_points_of_the_validation_part_are_left_out_or_the_test_part():
    types = {"emb": PAIR, "label": NUMBER}
    splits = {
        name: dataset({"emb": [[0.1, 0.2]] * size, "label": [0] * size}, types)
        for name, size in (("train", 5), ("validation", 3), ("test", 2))
    }
    assert from_datasets("own", splits).test.tolist() == 5 * [False] + 2 * [True]
    del splits["test"]
    assert from_datasets("own", splits).test.tolist() == 5 * [False] + 3 * [True]


def test_points(tmp_path):
    raw = read(write_saved_points(tmp_path))
    assert raw.points.shape == (96, 2)
    assert raw.test.sum() == 21
    assert raw.class_names == ("0", "1")


def test_points_label_key_names_the_column_of_classes(tmp_path):
    columns = {"emb": 8 * [[0.1, 0.2]], "label": 4 * [0, 1], "kind": 4 * ["T", "B"]}
    types = {"emb": PAIR, "label": NUMBER, "kind": {"dtype": "string", "_type": "Value"}}
    path = save(tmp_path / "points", {"train": dataset(columns, types)})
    assert read_points(path, -1.0, "", "kind").class_names == ("B", "T")
    assert read_points(path, -1.0, "", "label").class_names == ("0", "1")
    with refuses("no-column", "points.label-key", "type"):
        read_points(path, -1.0, "", "type")


REFUSED = {
    "no-column": ({"text": ["a"], "label": [0]}, {"text": {"dtype": "string", "_type": "Value"}}),
    "labels": ({"x": [np.zeros((4, 4)).tolist()], "label": [-1]}, {"x": PIXELS}),
}


@pytest.mark.parametrize("key", REFUSED)
def test_what_is_refused(key):
    columns, types = REFUSED[key]
    with refuses(key, "own", "label"):
        from_datasets("own", dataset(columns, types | {"label": ANIMALS}))


def test_without_the_package(tmp_path, monkeypatch):
    path = write_saved_images(tmp_path)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with refuses("no-package", "curvfed[huggingface]"):
        read(path)


def test_the_partitions_of_a_partitioner_are_the_clients(own_home):
    class Halves:
        num_partitions = 2

        def load_partition(self, partition_id):
            return animals(30, partition_id)

    keys = {"num_rounds": 1, "local_epochs": 1, "quiet": True}
    run = curvfed.simulate("fedavg", data=Halves(), **keys)
    assert set(run.clients["partition"]) == {0, 1}
    same = curvfed.simulate("fedavg", data=[animals(30, 0), animals(30, 1)], **keys)
    assert same.summary["personal_accuracy_mean"] == run.summary["personal_accuracy_mean"]
    assert len(run.predict(animals(7, 5))) == 7


def test_no_training_part(tmp_path):
    path = save(tmp_path / "own", {"a": animals(6), "test": animals(6)})
    with refuses("no-training-part", "own", "a, test"):
        read(path)


def labels_of(names):
    return {"_type": "ClassLabel", "names": list(names)}


def pictures(names, labels):
    """Images whose grey tells the class, of a split that numbers its own names."""
    grey = {"cat": 0, "dog": 100, "emu": 200}
    images = [Image.new("L", (4, 4), grey[names[label]]) for label in labels]
    return dataset(
        {"img": images, "label": list(labels)}, {"img": IMAGE, "label": labels_of(names)}
    )


def test_splits_that_were_encoded_apart_keep_their_classes(tmp_path):
    splits = {
        "train": pictures(("cat", "dog", "emu"), [0, 1, 2, 1]),
        "test": pictures(("cat", "emu"), [1, 0, 1]),
    }
    for raw in (from_datasets("own", splits), read(save(tmp_path / "own", splits))):
        assert raw.class_names == ("cat", "dog", "emu")
        assert raw.labels.tolist() == [0, 1, 2, 1, 2, 0, 2]
        values = raw.read(np.arange(7), 0, 0)[:, 0, 0, 0].tolist()
        assert values == [100 * label for label in raw.labels]


def test_a_stream_is_refused():
    stream = SimpleNamespace(features=None, column_names=None)
    for item in (stream, {"train": stream}):
        with refuses("stream", "own", "IterableDataset", "from_list"):
            from_datasets("own", item)


@pytest.mark.parametrize("rows", [[[0], [1, 2]], [[0, 1], [1, 2]], [[0], []]])
def test_several_labels_are_refused(rows):
    types = {"img": IMAGE, "label": {"_type": "Sequence", "feature": ANIMALS, "length": -1}}
    columns = {"img": [Image.new("L", (4, 4))] * 2, "label": rows}
    with refuses("several-labels", "own", "label"):
        from_datasets("own", StandIn(columns, types))


def test_images_that_are_not_decoded(tmp_path):
    image = Image.new("RGB", (4, 4), (9, 8, 7))
    image.save(tmp_path / "0.png")
    encoded = io.BytesIO()
    image.save(encoded, "PNG")
    values = [{"bytes": encoded.getvalue(), "path": None}]
    values.append({"bytes": None, "path": str(tmp_path / "0.png")})
    types = {"img": IMAGE | {"decode": False}, "label": ANIMALS}
    raw = from_datasets("own", StandIn({"img": values, "label": [0, 1]}, types))
    assert raw.read(np.arange(2), 0, 0)[:, :, 0, 0].tolist() == 2 * [[9, 8, 7]]


def test_an_image_that_is_missing_is_named():
    columns = {"img": [Image.new("L", (4, 4)), None], "label": [0, 1]}
    raw = from_datasets("own", StandIn(columns, {"img": IMAGE, "label": ANIMALS}))
    with refuses("no-image", "own, column img", "filter"):
        raw.read(np.arange(2), 0, 0)

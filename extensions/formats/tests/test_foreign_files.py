"""Files and folders of other tools are named for what they are, with what to give instead."""

import gzip
import json
import pickle

import numpy as np
import pytest
from errors import refuses

from curvfed.extensions.formats.foreign import FOREIGN
from curvfed.strategies.config.parse import parse
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.formats import decide
from curvfed.tasks.registry import tasks_of

IMAGES = np.zeros((4, 8, 8), dtype=np.uint8)


def keras(path):
    np.savez_compressed(path / "it.npz", x_train=IMAGES, y_train=np.zeros(4))
    return path / "it.npz"


def folder_of(*names):
    def make(path):
        for name in names:
            (path / "it" / name).parent.mkdir(parents=True, exist_ok=True)
            (path / "it" / name).write_bytes(pickle.dumps({}))
        return path / "it"

    return make


def pfllib(*place):
    def make(path):
        (path / "it/train").mkdir(parents=True)
        (path / "it/config.json").write_text("{}")
        np.savez_compressed(path / "it/train/0.npz", data={"x": IMAGES, "y": np.zeros(4)})
        return path.joinpath("it", *place)

    return make


CASES = [
    (pfllib(), "folder of PFLlib's pickled arrays"),
    (pfllib("train"), "folder of PFLlib's pickled arrays"),
    (pfllib("train", "0.npz"), "PFLlib's pickled arrays"),
    (keras, "Keras"),
    (folder_of(".zgroup", "obs/.zgroup"), "zarr store"),
    (folder_of("zarr.json"), "zarr store"),
    (folder_of("data-00000-of-00001.arrow"), "Arrow file"),
    (folder_of("data/train-00000-of-00001.parquet"), "Parquet file"),
    (folder_of("train-0.tfrecord"), "TFRecord file"),
    (folder_of("data.json"), "JSON file"),
]


@pytest.mark.parametrize(("make", "kind"), CASES)
@pytest.mark.parametrize("method", ["fedavg", "hyperfed"])
def test_what_it_is_goes_before_what_the_method_needs(tmp_path, make, kind, method):
    path = make(tmp_path)
    with pytest.raises(ConfigError, match=rf'dataset = ".*it.*": .*{kind}.* is not supported; '):
        parse({"dataset": str(path), "method": method})
    with refuses("foreign-format", kind):
        decide(path)


@pytest.mark.parametrize("ending", FOREIGN)
def test_every_ending(tmp_path, ending):
    path = tmp_path / f"it{ending.upper()}"
    path.touch()
    with refuses("foreign-format"):
        tasks_of(str(path))


NAMES = {"FEMNIST": "LEAF", "pathmnist": "MedMNIST", "svhn": "a folder of images per class"}


@pytest.mark.parametrize("name", NAMES)
def test_names_of_data_that_are_read_by_path(name):
    with pytest.raises(ValueError, match=NAMES[name]) as error:
        tasks_of(name)
    assert "did you mean" not in str(error.value)


def test_a_table_that_gzip_compressed_and_that_is_no_links_is_named(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"x,y,label\n0.1,0.2,a\n"))
    with refuses("foreign-format", "gunzip"):
        tasks_of(str(tmp_path / "a.csv.gz"))
    (tmp_path / "a.json").write_text(json.dumps({"other": 1}))
    with refuses("foreign-format", "JSON"):
        tasks_of(str(tmp_path / "a.json"))

"""Files and folders of other tools: each is named for what it is, with what to give in its
place.
"""

import pickle

import numpy as np
import pytest
from errors import refuses

from curvfed.strategies.config.parse import parse
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.formats import FOREIGN
from curvfed.tasks.registry import kind_of_path, tasks_of

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


CASES = [
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
        kind_of_path(path)


@pytest.mark.parametrize("ending", FOREIGN)
def test_every_ending(tmp_path, ending):
    path = tmp_path / f"it{ending.upper()}"
    path.touch()
    with refuses("foreign-format"):
        tasks_of(str(path))

"""Data sets of Hugging Face's `datasets`: by the package where it is installed, or else by a
stand-in.

The stand-in's folders have the package's names of files, so that they are recognised by these, but
not its content: the rows are a pickle, not Arrow. Where the package is not installed, no test sees
how it stores and decodes rows."""

import json
import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

try:
    import datasets
except ImportError:
    datasets = None

Types = Mapping[str, Any]
"""The types of the columns, as in dataset_info.json."""

IMAGE = {"_type": "Image"}
ANIMALS = {"_type": "ClassLabel", "names": ["cat", "dog", "emu"]}
PAIR = {"_type": "Sequence", "feature": {"dtype": "float32", "_type": "Value"}, "length": 2}


class StandIn:
    """The part of a `Dataset` that curvfed reads."""

    def __init__(self, columns: Mapping[str, list[Any]], types: Types) -> None:
        self.columns = columns
        self.column_names = list(columns)
        self.features = SimpleNamespace(to_dict=lambda: dict(types))

    def __len__(self) -> int:
        return len(self.columns[self.column_names[0]])

    def __getitem__(self, key: int | str) -> Any:
        if isinstance(key, str):
            return self.columns[key]
        return {name: values[key] for name, values in self.columns.items()}

    def with_format(self, kind: None) -> "StandIn":
        return self

    def save_to_disk(self, path: str) -> None:
        folder = Path(path)
        folder.mkdir(parents=True)
        info = {"features": self.features.to_dict()}
        (folder / "dataset_info.json").write_text(json.dumps(info))
        (folder / "state.json").write_text("{}")
        (folder / "data-00000-of-00001.arrow").write_bytes(pickle.dumps(self.columns))


def dataset(columns: Mapping[str, list[Any]], types: Types) -> Any:
    """A `Dataset` with these columns."""
    if datasets is None:
        return StandIn(columns, types)
    return datasets.Dataset.from_dict(columns, features=datasets.Features.from_dict(types))


def save(path: Path, splits: Mapping[str, Any]) -> Path:
    """The folder that `DatasetDict.save_to_disk` writes."""
    if datasets is not None:
        datasets.DatasetDict(splits).save_to_disk(str(path))
        return path
    for name, split in splits.items():
        split.save_to_disk(str(path / name))
    (path / "dataset_dict.json").write_text(json.dumps({"splits": list(splits)}))
    return path


def _load_from_disk(path: str) -> Any:
    if (Path(path) / "dataset_dict.json").is_file():
        names = json.loads((Path(path) / "dataset_dict.json").read_text())["splits"]
        return {name: _load_from_disk(f"{path}/{name}") for name in names}
    info = json.loads((Path(path) / "dataset_info.json").read_text())
    (file,) = Path(path).glob("*.arrow")
    return StandIn(pickle.loads(file.read_bytes()), info["features"])


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """`import datasets` finds the package, or the stand-in."""
    if datasets is None:
        stand_in = SimpleNamespace(load_from_disk=_load_from_disk)
        monkeypatch.setitem(sys.modules, "datasets", stand_in)

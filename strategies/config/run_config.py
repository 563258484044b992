"""The run configuration: the keys of every run, and a table for each method or part that has keys of its own."""

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_origin

from pydantic import create_model

from curvfed.strategies.base.dotted import Scalar, dotted
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.flower_keys import Flower
from curvfed.strategies.base.keys import FlatLand, Table, kebab
from curvfed.strategies.base.run_keys import CommonKeys
from curvfed.strategies.baseline_tables import Baselines
from curvfed.strategies.config.image_keys import HyperFed, Images, SphereFed
from curvfed.strategies.config.point_keys import Hull, Points, Secure
from curvfed.strategies.config.sink_keys import MLflow
from curvfed.strategies.methods import LEFT_OUT, METHODS

__all__ = ["ConfigError", "RunConfig", "flatten", "home", "without_others"]


class Systems(Table):
    """A table for each of the published systems, and for what they have in common."""

    flatland: FlatLand = FlatLand()
    images: Images = Images()
    hyperfed: HyperFed = HyperFed()
    spherefed: SphereFed = SphereFed()
    points: Points = Points()
    hull: Hull = Hull()
    secure: Secure = Secure()


class OthersTables(Table):
    """A table for Flower's own strategies, and one for each sink that has keys."""

    flower: Flower = Flower()
    mlflow: MLflow = MLflow()


def _tables() -> dict[str, Any]:
    """The tables of methods of other packages, as fields; a method with one that cannot be taken is left out."""
    taken = {kebab(name) for part in (CommonKeys, Systems, Baselines, OthersTables) for name in part.model_fields}
    found: dict[str, type[Table]] = {}
    for name, row in list(METHODS.items()):
        if wrong := [table for table, keys in row.keys.items() if table in taken or found.get(table, keys) is not keys]:
            LEFT_OUT[name] = f'its keys have the table "{wrong[0]}", whose name is taken; it needs another one'
        elif wrong := [table for table, keys in row.keys.items() if not _is_table(table, keys)]:
            LEFT_OUT[name] = (
                f'its table "{wrong[0]}" cannot be taken; allowed is a name of small letters, digits and -, and a '
                "curvfed.strategies.base.keys.Table of bool, int, float, str or Literal, each with a default"
            )
        else:
            found |= row.keys
            continue
        del METHODS[name]
    return {table.replace("-", "_"): (keys, keys()) for table, keys in found.items()}


def _is_table(name: str, keys: Any) -> bool:
    if not (isinstance(keys, type) and issubclass(keys, Table) and re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name)):
        return False
    return all(
        isinstance(field.default, Scalar)
        and (field.annotation in (bool, int, float, str) or get_origin(field.annotation) is Literal)
        for field in keys.model_fields.values()
    )


if TYPE_CHECKING:

    class Brought(Table):
        """The tables of methods of other packages."""
else:
    Brought = create_model("Brought", __base__=Table, **_tables())


class RunConfig(Brought, OthersTables, Baselines, Systems, CommonKeys):
    """All that a run is told. Frozen and hashable; parsed once on each side and passed whole.

    The order of the bases makes the order of the keys: those of the last come first.
    """

    @property
    def proximal(self) -> float:
        """Coefficient of ‖shared - received‖² in this run's local objective, 0 for none."""
        key = METHODS[self.method].proximal
        half = 0.5 if key.endswith(".mu") else 1.0  # FedProx writes μ/2 before the square, FlatLand λ
        return half * float(_value(self, key)) if key else 0.0

    @property
    def is_masked(self) -> bool:
        """Whether the server sees sums of what the clients send, and no part of them."""
        return self.secure_sum or METHODS[self.method].is_one_shot

    @property
    def loss(self) -> str:
        """The local loss of an image run."""
        return self.spherefed.loss if self.method == "spherefed" else METHODS[self.method].loss

    @property
    def fine_tunes(self) -> bool:
        """Whether clients make personal models of what is shared, if anything is; of a settled configuration."""
        return self.fine_tune == "closed-form" or self.fine_tune_epochs > 0

    @property
    def sparsity(self) -> float:
        """Coefficient of the L1 norm of the masks in this run's local objective, 0 for none."""
        key = METHODS[self.method].sparsity
        return float(_value(self, key)) if key else 0.0

    @property
    def node_share(self) -> float:
        """Share of a graph's nodes that training sees, 1 for all."""
        key = METHODS[self.method].selection
        return float(_value(self, key)) if key else 1.0

    @property
    def data_path(self) -> Path:
        """Folder of the public data sets."""
        return _folder(self.data_dir, "data")

    @property
    def results_path(self) -> Path:
        """Folder of the run directories."""
        return _folder(self.results_dir, "results")


def home() -> Path:
    """The folder of everything the app keeps for a user: results, data, prepared partitions, personal state."""
    return Path.home() / "curvfed"


def _folder(setting: str, default: str) -> Path:
    return Path(setting).expanduser() if setting else home() / default


@lru_cache(maxsize=64)
def _value(config: RunConfig, key: str) -> Scalar:
    """What a dotted key has: each client asks for it in every round, and to flatten takes a third of a millisecond."""
    return flatten(config)[key]


def without_others(settings: Mapping[str, Scalar], method: str) -> dict[str, Scalar]:
    """The keys, less those of other packages' methods that do not run: who gets them need not have these installed."""
    foreign = {kebab(table) for table in Brought.model_fields} - METHODS[method].keys.keys()
    return {key: value for key, value in settings.items() if key.partition(".")[0] not in foreign}


def flatten(config: RunConfig) -> dict[str, Scalar]:
    """The configuration as dotted keys; `parse` is its inverse."""
    return dotted(config.model_dump(by_alias=True))

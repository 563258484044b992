"""All configuration keys, of every method, with their defaults. Commands accept these, and Flower
must have them declared.

This module imports neither torch nor the methods' files; `curvfed.strategies.method_index` has
their keys.
"""

import difflib
from collections.abc import Collection
from functools import cache
from typing import Any

from curvfed.strategies.base.dotted import Scalar, dotted
from curvfed.strategies.base.keys import AUTO, Table, kebab
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.shared_tables import SHARED
from curvfed.strategies.method_index import DEFAULTS
from curvfed.strategies.methods import brought

OTHER_WORDS = {
    "lr": "learning-rate",
    "epochs": "local-epochs",
    "rounds": "num-rounds",
    "clients": "num-supernodes",
    "num-clients": "num-supernodes",
    "model-name": "model",
    "data": "dataset",
    "output": "results-dir",
    "n-clients": "num-supernodes",
    "num-epochs": "local-epochs",
    "bs": "batch-size",
    "wd": "weight-decay",
    "hidden": "embedding-dim",
    "hidden-dim": "embedding-dim",
    "gpu": "device",
    "root": "data-dir",
}
"""What people call keys elsewhere, and what these are called here."""


def nearest_key(key: str, known: Collection[str]) -> str:
    """The known key that is meant or spelled most like an unknown one; empty if none is near."""
    spelled = kebab(key.lower())
    near = [
        OTHER_WORDS.get(spelled, spelled),
        *difflib.get_close_matches(spelled, known, n=1, cutoff=0.5),
    ]
    return next((one for one in near if one in known), "")


@cache
def defaults() -> dict[str, Scalar]:
    """The default of every dotted key; keys of other packages' methods come last."""
    tables: dict[str, Any] = {name: _values(keys) for name, keys in SHARED.items()} | DEFAULTS
    return dotted(
        _values(RunKeys) | tables | {name: _values(keys) for name, keys in brought_tables().items()}
    )


def brought_tables() -> dict[str, type[Table]]:
    """The tables of other packages' methods, by name."""
    return {name: keys for row in brought()[0].values() for name, keys in row.keys.items()}


def without_others(method: str) -> dict[str, Scalar]:
    """The defaults of the keys that a run of this method accepts.

    Keys of other packages' methods are left out unless the method is theirs, so that the receiver
    needs no such package.
    """
    row = brought()[0].get(method)
    foreign = brought_tables().keys() - (row.keys.keys() if row else set())
    return {key: value for key, value in defaults().items() if key.partition(".")[0] not in foreign}


def _values(keys: type[Table]) -> dict[str, Scalar]:
    return {
        kebab(name): AUTO if field.default is None else field.default
        for name, field in keys.model_fields.items()
    }

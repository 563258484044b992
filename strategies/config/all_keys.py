"""The configuration keys of every method, with their defaults. Commands accept them, and the Flower
app declares them.

This module imports neither torch nor the methods' files.
"""

import difflib
from collections.abc import Collection
from functools import cache
from typing import Any

from curvfed.strategies.base.dotted import Scalar, dotted
from curvfed.strategies.base.keys import AUTO, Table, kebab
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.shared_tables import SHARED
from curvfed.strategies.methods import default_tables, foreign_methods
from curvfed.tasks.errors import did_you_mean

SYNONYMS = {
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
"""The keys of this app, by their names in other programs."""


def nearest_key(key: str, keys: Collection[str]) -> str:
    """The synonym of an unknown key, or the key with the closest spelling; empty if none is
    near."""
    spelled = kebab(key.lower())
    synonym = SYNONYMS.get(spelled, spelled)
    if synonym in keys:
        return synonym
    return next(iter(difflib.get_close_matches(spelled, keys, n=1, cutoff=0.5)), "")


def key_hint(key: str, keys: Collection[str]) -> str:
    """The end of a sentence about an unknown key: the nearest key, or several that are spelled
    alike."""
    near = nearest_key(key, keys)
    if near:
        return f'; did you mean "{near}"?'
    return did_you_mean(key, keys, "docs/configuration.md")


@cache
def defaults() -> dict[str, Scalar]:
    """The default of every dotted key; keys of other packages' methods come last."""
    values: dict[str, Any] = _values(RunKeys)
    values |= {name: _values(keys) for name, keys in SHARED.items()}
    values |= default_tables()
    values |= {name: _values(keys) for name, keys in foreign_tables().items()}
    return dotted(values)


def foreign_tables() -> dict[str, type[Table]]:
    """The tables of other packages' methods, by name."""
    return {name: keys for row in foreign_methods()[0].values() for name, keys in row.keys.items()}


def defaults_of(method: str) -> dict[str, Scalar]:
    """The defaults of the keys that a run of this method accepts.

    The keys of another package are included only for a method of that package, so that other runs
    do not need it.
    """
    row = foreign_methods()[0].get(method)
    foreign = foreign_tables().keys() - (row.keys.keys() if row else set())
    return {key: value for key, value in defaults().items() if key.partition(".")[0] not in foreign}


def _values(keys: type[Table]) -> dict[str, Scalar]:
    return {
        kebab(name): AUTO if field.default is None else field.default
        for name, field in keys.model_fields.items()
    }

"""The basis of a masked vector: what the members of a secure sum must share, as both sides compute
it."""

import json
from collections.abc import Mapping
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

import curvfed.geometry
import curvfed.strategies
import curvfed.tasks
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.config.run_config import RunConfig, flatten
from curvfed.strategies.secure_sum.messages import Basis
from curvfed.strategies.wire.messages import Facts

ROOMS = (curvfed.geometry, curvfed.tasks, curvfed.strategies)
"""The packages that a client computes its vector by, beside the messages' handlers."""


def basis_of(arrays: Arrays, fixed: Arrays, facts: Facts | None, config: RunConfig) -> Basis:
    """The basis of a vector.

    Parameters
    ----------
    arrays : dict of str to array
        The shared parameters that the server sends.
    fixed : dict of str to array
        The fixed parameters.
    facts : Facts
    config : RunConfig
        As the run was started with: before missing values are resolved and before a node decides
        how its own data are read.
    """
    return Basis(
        parameters=_digest_of(arrays | fixed),
        facts=_digest(vars(facts) if facts else {}),
        configuration=_configuration(config),
        code=code_digest(),
    )


def _digest_of(arrays: Arrays) -> bytes:
    digest = sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.digest()


def _digest(values: Mapping[str, Any]) -> bytes:
    return sha256(json.dumps(values, sort_keys=True).encode()).digest()


@lru_cache(maxsize=8)
def _configuration(config: RunConfig) -> bytes:
    return _digest(flatten(config))


@cache
def code_digest() -> bytes:
    """SHA-256 of the app's Python files in `ROOMS`, by name and content."""
    digest = sha256()
    for room in ROOMS:
        folder = Path(str(room.__file__)).parent
        for path in sorted(folder.rglob("*.py")):
            digest.update(json.dumps([room.__name__, *path.relative_to(folder).parts]).encode())
            digest.update(sha256(path.read_bytes()).digest())
    return digest.digest()

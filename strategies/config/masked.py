"""Which phases are summed under masks, and what a client signs with its masked vector: digests of
parameters, facts, configuration and code."""

import json
from collections.abc import Mapping
from functools import cache, lru_cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.config.run_config import RunConfig, flatten
from curvfed.strategies.wire.messages import (
    CALIBRATE,
    CCVR,
    EVALUATE,
    FINE_TUNE,
    HOLDERS,
    HULLS,
    TRAIN,
    Facts,
    Holders,
)

if TYPE_CHECKING:
    from curvfed.strategies.secure_sum.messages import Basis

TARGETS = (HOLDERS, TRAIN, CALIBRATE, CCVR, HULLS, FINE_TUNE, EVALUATE)
"""Phases whose replies can be masked, in their order within a round."""


def is_masked(run: RunKeys, phase: str) -> bool:
    """Whether the server sees only the sum of the replies of this phase."""
    return phase in TARGETS and (run.secure_sum or phase in (HOLDERS, HULLS))


ROOMS = ("client_app", "geometry", "strategies", "tasks")
"""The app's packages that a client computes and masks its vector by."""


def basis_of(
    arrays: Arrays,
    fixed: Arrays,
    facts: Facts,
    config: RunConfig,
    holders: Holders | None = None,
) -> "Basis":
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
    holders : Holders, optional
        As the server states them.
    """
    from curvfed.strategies.secure_sum.messages import Basis

    parameters = sha256(_digest_of(arrays) + _digest_of(fixed)).digest()
    return Basis(
        parameters=parameters,
        facts=_digest(vars(facts) | ({} if holders is None else {"holders": vars(holders)})),
        configuration=_configuration(config),
        code=code_digest(),
    )


def start_digest(arrays: Arrays) -> str:
    """The digest of the parameters that a run starts from, as they arrive and as a node's policy
    names them."""
    return f"sha256:{_digest_of(arrays).hex()}"


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
    """The digest of the app's code as it is imported here.

    Code of other packages, such as a method of the user's own, is not part of it.
    """
    code = {}
    for room in ROOMS:
        folder = Path(str(files(f"curvfed.{room}")))
        for path in folder.rglob("*.py"):
            code[(room, *path.relative_to(folder).parts)] = path.read_bytes()
    return digest_of_code(code)


def digest_of_code(code: Mapping[tuple[str, ...], bytes]) -> bytes:
    """SHA-256 of the Python files in `ROOMS`, by the parts of their paths and by content."""
    digest = sha256()
    for parts in sorted(code):
        digest.update(json.dumps(parts).encode())
        digest.update(sha256(code[parts]).digest())
    return digest.digest()

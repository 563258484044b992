"""Which phases are summed under masks, and the basis of a masked vector: digests of the parameters,
facts, configuration, code and personal state that it is computed from."""

import json
from collections.abc import Mapping
from functools import cache, lru_cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from curvfed.strategies.base.run_keys import OF_THE_SERVER, RunKeys
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.config.run_config import RunConfig, flatten
from curvfed.strategies.wire.messages import (
    CALIBRATE,
    EVALUATE,
    FINE_TUNE,
    HOLDERS,
    MESSAGE_TYPES,
    SUM,
    TRAIN,
    Facts,
    Holders,
)
from curvfed.tasks import plugins

if TYPE_CHECKING:
    from curvfed.strategies.secure_sum.messages import Basis

TARGETS = (HOLDERS, TRAIN, CALIBRATE, SUM, FINE_TUNE, EVALUATE)
"""Phases with replies that can be masked, in their order within a round; `SUM` stands for the phase
that a one-shot method names."""


def sum_number(phase: str, round: int) -> int:
    """The number of a run's sum, from 1: it rises from sum to sum, and no two sums share it."""
    place = TARGETS.index(phase if phase in MESSAGE_TYPES else SUM)
    return round * len(TARGETS) + place + 1


def is_masked(config: RunKeys, phase: str) -> bool:
    """Whether the server sees only the sum of the replies of this phase."""
    if phase in (HOLDERS, SUM) or phase not in MESSAGE_TYPES:
        return True
    return config.secure_sum and phase in TARGETS


ROOMS = ("client_app", "extensions", "geometry", "strategies", "tasks")
"""The app's packages that a client computes and masks its vector by."""


HARMLESS = {
    "header": "the session has the run, the phase and the round",
    "parts": "a masked phase has the parts of `Opening` and no others; the session has their sizes,"
    " and peers wrote and sealed the texts",
}
"""The fields of a request that are not in the basis of a vector, and why a server gains nothing if
it sends different ones to some members."""


def basis_of(
    arrays: Arrays,
    fixed: Arrays,
    facts: Facts,
    config: RunConfig,
    stamp: int,
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
    stamp : int
        The round of the personal state that the server asks for.
    holders : Holders, optional
        As the server states them.
    """
    from curvfed.strategies.secure_sum.messages import Basis

    parameters = sha256(_digest_of(arrays) + _digest_of(fixed)).digest()
    return Basis(
        parameters=parameters,
        facts=_digest(vars(facts) | ({} if holders is None else {"holders": vars(holders)})),
        configuration=configuration_digest(config),
        code=code_digest(),
        state=sha256(f"round {stamp}".encode()).digest(),
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
def configuration_digest(config: RunConfig) -> bytes:
    """The digest of the keys that vectors depend on."""
    values = flatten(config)
    return _digest({key: value for key, value in values.items() if key not in OF_THE_SERVER})


@cache
def code_digest() -> bytes:
    """The digest of the app's code as it is imported here.

    Code of other packages, such as a method of the user's own, is not part of it.
    """
    code = {}
    for room in ROOMS:
        for folder in folders_of(room):
            for path in (*folder.rglob("*.py"), *folder.glob(f"*/{plugins.ENTRIES}")):
                parts = (room, *path.relative_to(folder).parts)
                if not plugins.is_local(parts):
                    code[parts] = path.read_bytes()
    return digest_of_code(code)


def folders_of(room: str) -> list[Path]:
    """The folder of a room's code; none if all extensions were deleted."""
    spec = find_spec(f"curvfed.{room}")
    if spec:
        return [Path(place) for place in spec.submodule_search_locations or ()]
    return []


def digest_of_code(code: Mapping[tuple[str, ...], bytes]) -> bytes:
    """SHA-256 of the Python files in `ROOMS`, and of the entry points of the extensions, by the
    parts of their paths and by content."""
    digest = sha256()
    for parts in sorted(code):
        digest.update(json.dumps(parts).encode())
        digest.update(sha256(code[parts]).digest())
    return digest.digest()

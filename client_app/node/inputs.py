"""The inputs of a client's vector in a secure sum, to recognise sums over nearly the same
inputs."""

import base64
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from flwr.app import ConfigRecord
from numpy.typing import NDArray

from curvfed.strategies.base.statistics import Arrays

BUCKETS = 256
"""Length of a sketch. The distance of two sketches is that of the parameters within 9% (two
standard deviations)."""


@dataclass(frozen=True)
class Inputs:
    """The inputs of one vector.

    Attributes
    ----------
    source : str
        A hash of the names and shapes of the received parameters; "data" for sums over the data
        alone. A run's seed chooses the training points, and two choices have most points in common.
    sketch, update : bytes
        Random projections, float32, of the parameters and of the client's own update; empty if
        there are none.
    moved : float
        The length of the client's own update; without one, that of the parameters.
    vector : str
        SHA-256 of the client's vector.
    phase : str
    """

    source: str
    sketch: bytes
    update: bytes
    moved: float
    vector: str
    phase: str

    @classmethod
    def of_parameters(
        cls,
        received: Arrays,
        update: NDArray[np.float64],
        vector: NDArray[np.float64],
        phase: str,
        secret: str,
    ) -> "Inputs":
        """The inputs of a vector computed from parameters; the node's `secret` seeds the
        projections."""
        shapes = sha256(
            repr([(name, received[name].shape) for name in sorted(received)]).encode()
        ).hexdigest()
        update_sketch = sketch({"": update}, secret).tobytes() if update.size else b""
        lengths = [
            np.linalg.norm(array) for array in ([update] if update.size else received.values())
        ]
        return cls(
            source=shapes,
            sketch=sketch(received, secret).tobytes(),
            update=update_sketch,
            moved=float(np.linalg.norm(lengths)),
            vector=_digest(vector),
            phase=phase,
        )

    @classmethod
    def of_data(cls, vector: NDArray[Any], phase: str) -> "Inputs":
        """The inputs of a vector computed from the data alone."""
        return cls("data", b"", b"", 0.0, _digest(vector), phase)

    def as_record(self) -> ConfigRecord:
        """A record for Flower's state of the node, from the masked vector to the signature."""
        return ConfigRecord({**asdict(self)})

    @classmethod
    def from_record(cls, record: Any) -> "Inputs":
        """Inverse of `as_record`."""
        return cls(**dict(record))

    def as_fields(self) -> dict[str, Any]:
        """The fields of a line in the ledger."""
        texts = {
            name: base64.b64encode(getattr(self, name)).decode() for name in ("sketch", "update")
        }
        return texts | {"of": self.source, "moved": self.moved, "vector": self.vector}

    def are_those_of(self, line: Mapping[str, Any], nearness: float) -> bool:
        """Whether a line's sum had the same inputs, or nearly.

        Either the two parameters or the two updates lie closer together than `nearness` times the
        client's own update: at a small learning rate an update changes the parameters, but hardly
        the next update.
        """
        if (line["phase"], line["of"]) != (self.phase, self.source):
            return False
        if not self.sketch:
            return True
        distance = min(
            _distance(self.sketch, line["sketch"]), _distance(self.update, line["update"])
        )
        reach: float = nearness * max(self.moved, line["moved"])
        return distance <= reach


NONE = Inputs("", b"", b"", 0.0, "", "")
"""For a simulated client, which has no ledger."""


def sketch(arrays: Arrays, seed: str) -> NDArray[np.float32]:
    """A random projection (`BUCKETS`,) that preserves distances: each entry is added with a random
    sign to a random bucket."""
    generator = np.random.default_rng(int(sha256(seed.encode()).hexdigest(), 16))
    total = np.zeros(BUCKETS)
    for name in sorted(arrays):
        flat = np.ravel(arrays[name]).astype(np.float64)
        drawn = generator.integers(0, 2 * BUCKETS, flat.size)
        total += np.bincount(drawn // 2, np.where(drawn % 2, flat, -flat), BUCKETS)
    return total.astype(np.float32)


def _distance(projection: bytes, stored: str) -> float:
    """The distance to a stored sketch; infinite if one of them is missing."""
    stored_projection = base64.b64decode(stored)
    if not projection or len(projection) != len(stored_projection):
        return math.inf
    vectors = [np.frombuffer(content, np.float32) for content in (projection, stored_projection)]
    return float(np.linalg.norm(vectors[0] - vectors[1]))


def _digest(vector: NDArray[Any]) -> str:
    return sha256(np.ascontiguousarray(vector).tobytes()).hexdigest()

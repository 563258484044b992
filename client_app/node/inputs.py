"""What a client's vector in a secure sum was computed from, so that a sum over nearly the same is recognised."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from flwr.app import ConfigRecord
from numpy.typing import NDArray

from curvfed.strategies.base.average import Arrays

BUCKETS = 256
"""Length of a sketch. The distance of two sketches is that of the parameters, give or take 9% (two standard deviations)."""


@dataclass(frozen=True)
class Inputs:
    """The inputs of one vector.

    Attributes
    ----------
    of : str
        Names and shapes of the parameters received, as a hash; "data" of sums over the data alone: a run's seed chooses
        what is trained on, and of two such choices most points are the same.
    sketch : bytes
        A random projection of the parameters, float32; empty for sums over the data alone.
    moved : float
        The length of the client's own update; 0 where it made none.
    vector : str
        SHA-256 of the client's vector.
    phase : str
    """

    of: str
    sketch: bytes
    moved: float
    vector: str
    phase: str

    @classmethod
    def of_parameters(cls, received: Arrays, moved: float, vector: NDArray[np.float64], phase: str) -> "Inputs":
        """Of a vector that was computed from parameters."""
        shapes = sha256(repr([(name, received[name].shape) for name in sorted(received)]).encode()).hexdigest()
        return cls(shapes, sketch(received, shapes).tobytes(), moved, _digest(vector), phase)

    @classmethod
    def of_data(cls, vector: NDArray[Any], phase: str) -> "Inputs":
        """Of a vector that says something about the data alone."""
        return cls("data", b"", 0.0, _digest(vector), phase)

    def as_record(self) -> ConfigRecord:
        """For Flower's state of the node, between the masked vector and the signature."""
        return ConfigRecord({**asdict(self)})

    @classmethod
    def from_record(cls, record: Any) -> "Inputs":
        """Inverse of `as_record`."""
        return cls(**dict(record))

    def as_fields(self) -> dict[str, Any]:
        """The fields of a line in the ledger."""
        return {
            "of": self.of,
            "sketch": base64.b64encode(self.sketch).decode(),
            "moved": self.moved,
            "vector": self.vector,
        }

    def are_those_of(self, line: Mapping[str, Any], former: Sequence[Mapping[str, Any]], nearness: float) -> bool:
        """Whether a line's sum had the same inputs, or nearly: parameters closer than `nearness` times the client's own
        update. Where it made none, its longest one of such parameters counts."""
        if (line["phase"], line["of"]) != (self.phase, self.of):
            return False
        if not self.sketch:
            return True
        other = np.frombuffer(base64.b64decode(line["sketch"]), np.float32)
        distance = float(np.linalg.norm(np.frombuffer(self.sketch, np.float32) - other))
        moved = max(self.moved, line["moved"]) or max(
            (one["moved"] for one in former if one["of"] == self.of), default=0.0
        )
        return distance <= nearness * moved


NONE = Inputs("", b"", 0.0, "", "")
"""Of a simulated client, which keeps no ledger."""


def sketch(arrays: Arrays, seed: str) -> NDArray[np.float32]:
    """A random projection (`BUCKETS`,) that keeps distances: every entry goes with a random sign into a random bucket."""
    generator, total = np.random.default_rng(int(seed[:16], 16)), np.zeros(BUCKETS)
    for name in sorted(arrays):
        flat = np.ravel(arrays[name]).astype(np.float64)
        drawn = generator.integers(0, 2 * BUCKETS, flat.size)
        total += np.bincount(drawn // 2, np.where(drawn % 2, flat, -flat), BUCKETS)
    return total.astype(np.float32)


def _digest(vector: NDArray[Any]) -> str:
    return sha256(np.ascontiguousarray(vector).tobytes()).hexdigest()
